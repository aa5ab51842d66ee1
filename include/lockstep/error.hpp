#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#pragma GCC visibility push(default)

/// Exceptions. Everything the library throws derives from `lockstep::Error`. Its message says what was
/// attempted, where, with which operands, why it failed, and what to do.
namespace lockstep {

/// A place in the library's sources.
struct SourceLocation {
  const char* file = "";
  int line = 0;
  const char* function = "";
};

/// The content of an Error's message as values, and the place of the throw. Fields that do not apply are
/// empty or -1.
struct ErrorContext {
  std::string operation{};    ///< What was attempted, e.g. "all_reduce", without the operator.
  int replica = -1;           ///< The replica or rank at fault, or the one whose function threw.
  std::string device{};       ///< The first device named, or that of the function's replica, e.g. "CPU:2".
  std::string operands{};     ///< Shapes and dtypes, as in the message.
  std::int64_t code = 0;      ///< A native library's error number.
  std::string hint{};         ///< What to do.
  SourceLocation location{};  ///< The place in the library that detected the error.
};

/// Root of all exceptions. Copyable; `what()` is the whole message.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ErrorContext context = {})
      : std::runtime_error(message), context_(std::move(context)) {}
  /// @return operation, operands, device and place of the error.
  [[nodiscard]] const ErrorContext& context() const& noexcept { return context_; }
  [[nodiscard]] ErrorContext context() const&& { return context_; }

 private:
  ErrorContext context_;
};

/// The caller passed an invalid argument; nothing was enqueued.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// Replicas disagree on operation, dtype, shape, root or order; the message names both.
class CollectiveMismatch : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// A call at the wrong moment: in a wrong context or strategy, or on an empty or moved-from object.
class ContextError : public Error {
 public:
  using Error::Error;
};

/// A file, or a reader to shard by, does not exist.
class NotFound : public Error {
 public:
  using Error::Error;
};

/// The end of an iterator.
class OutOfRange : public Error {
 public:
  using Error::Error;
};

/// Neither the backend nor a fallback can do this.
class Unsupported : public Error {
 public:
  using Error::Error;
};

/// An allocation failed; the message has bytes requested, bytes free and the device.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// A runtime call failed; `context().code` is the native code.
class DeviceError : public Error {
 public:
  DeviceError(const std::string& message, ErrorContext context, bool fatal)
      : Error(message, std::move(context)), fatal_(fatal) {}
  /// @return true when the device context is lost and the process cannot use the device again.
  [[nodiscard]] bool is_fatal() const noexcept { return fatal_; }

 private:
  bool fatal_;
};

/// A collective failed after it was started.
class CollectiveError : public Error {
 public:
  using Error::Error;
};

/// Not all replicas arrived in time; the message names those that arrived, and those that did not, with the
/// last call of each. Or a device waited in a collective for too long: the message names the ranks whose
/// streams had not come to it. The communicator, or strategy, cannot be used any more then, and whatever
/// waits for work of its GPUs throws this, as PeerLost says of itself.
class CollectiveTimeout : public CollectiveError {
 public:
  using CollectiveError::CollectiveError;
};

/// The group was aborted, or another process's part in the call has failed: has the first cause. Later calls
/// of a communicator repeat it; a strategy goes on where its header says so.
class CollectiveAborted : public CollectiveError {
 public:
  using CollectiveError::CollectiveError;
};

/// A worker, another process, has ended, or is silent for too long: names it, its address, and the operation
/// and call that waited for it. The strategy cannot be used any more; the process can make another.
///
/// A collective of GPUs ends with the worker, and its results have any bits, with which the streams' later
/// work computes. Whatever waits for work of these GPUs, such as `item`, therefore throws PeerLost, also for
/// another strategy of the process, until a strategy or communicator is made on them after a call or a wait
/// has thrown it. Results from before that are not to be read afterwards.
class PeerLost : public CollectiveAborted {
 public:
  using CollectiveAborted::CollectiveAborted;
};

}  // namespace lockstep

#pragma GCC visibility pop
