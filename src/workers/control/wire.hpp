#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

/// What goes over the control connection between the workers and their leader, worker 0: frames of a magic
/// number, a version, the message's kind and its size, then its fields.
namespace lockstep::detail::control {

inline constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxFrameBytes = std::size_t{64} << 20;
/// What a connection may send before it has said who it is.
inline constexpr std::size_t kMaxHelloBytes = std::size_t{1} << 14;

inline constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// What a refused start or call throws.
enum class ErrorKind : std::uint8_t { invalid_argument, mismatch, context, timeout, lost };
inline constexpr std::uint8_t kNumErrorKinds = 5;

/// The index of a process that is no worker yet, and would become one; -1 is one that is not known.
inline constexpr std::int32_t kJoiner = -2;

/// Who a worker is. The version is the first field in every version of the protocol.
struct Hello {
  std::string version{};  ///< Of the library.
  std::int32_t worker = -1;
  std::int32_t num_workers = 0;
  std::uint64_t incarnation = 0;  ///< Random, of one connection.
  std::int64_t pid = 0;
  std::string address{};  ///< For messages; empty: the leader takes the one that it sees.
  std::string host{};     ///< Equal for processes that can share memory.
  auto fields() { return std::tie(version, worker, num_workers, incarnation, pid, address, host); }
};
/// The leader has accepted a worker, and waits for others; or a process that would join, which waits.
struct Waiting {
  std::int64_t silence_ms = 0;           ///< Who is silent for so long is lost.
  std::string missing{};                 ///< Who has not come.
  std::vector<std::string> addresses{};  ///< For who would join: those of the workers.
  auto fields() { return std::tie(silence_ms, missing, addresses); }
};
/// The leader ends the start. The same in every version of the protocol.
struct Refused {
  ErrorKind kind{};
  std::string text{};
  auto fields() { return std::tie(kind, text); }
};
/// All have come.
struct Started {
  std::vector<std::string> labels{};  ///< By worker.
  std::vector<std::string> hosts{};
  auto fields() { return std::tie(labels, hosts); }
};
struct Heartbeat {
  auto fields() { return std::tie(); }
};

struct Set {
  std::string key{}, value{};
  auto fields() { return std::tie(key, value); }
};
/// Answered by Value, or by Failed within the limit.
struct Get {
  std::uint64_t call = 0;
  std::uint64_t limit_ms = kNoLimit;
  std::string key{};
  auto fields() { return std::tie(call, limit_ms, key); }
};
struct Value {
  std::uint64_t call = 0;
  std::string value{};
  auto fields() { return std::tie(call, value); }
};
/// Answered by Gathered, or by Failed within the limit.
struct Gather {
  std::uint64_t call = 0;
  std::uint32_t stream = 0;  ///< Each is an order of calls of its own, which all workers share.
  std::uint32_t step = 0;    ///< Its place in the order.
  std::uint64_t limit_ms = kNoLimit;
  std::string what{}, own{};
  auto fields() { return std::tie(call, stream, step, limit_ms, what, own); }
};
struct Gathered {
  std::uint64_t call = 0;
  std::vector<std::string> all{};  ///< By worker.
  auto fields() { return std::tie(call, all); }
};
struct Failed {
  std::uint64_t call = 0;
  ErrorKind kind{};
  std::string text{};
  auto fields() { return std::tie(call, kind, text); }
};

/// A worker's run has failed. The leader sends it on to the others; where it comes for kForAll, back to its
/// sender, too.
inline constexpr std::int32_t kForAll = -1;
struct Failure {
  std::int32_t worker = 0;
  std::uint64_t epoch = 0;
  std::string text{};
  auto fields() { return std::tie(worker, epoch, text); }
};
/// Goes to all, the lost worker too.
struct Lost {
  std::int32_t worker = 0;
  std::string cause{};
  auto fields() { return std::tie(worker, cause); }
};
/// A worker ends in order. The leader sends it on to the others.
struct Left {
  std::int32_t worker = 0;
  auto fields() { return std::tie(worker); }
};

/// A worker sends nothing more of a stream: `own` is its text in all steps that it has not sent.
struct StreamEnd {
  std::uint32_t stream = 0;
  std::string own{};
  auto fields() { return std::tie(stream, own); }
};
/// Removes the values whose keys begin so.
struct Erase {
  std::string prefix{};
  auto fields() { return std::tie(prefix); }
};

/// The leader's first message to whoever connects. This, Join and Welcome are the same in every version of
/// the protocol; proof.hpp says what they prove.
struct Challenge {
  std::string nonce{};
  auto fields() { return std::tie(nonce); }
};
/// The only answer to it.
struct Join {
  std::string nonce{};
  std::string proof{};  ///< Of the nonces and the hello.
  std::string hello{};  ///< A frame.
  auto fields() { return std::tie(nonce, proof, hello); }
};
/// The worker has the leader's token, and the leader shows that it has it too; else Refused follows Join.
struct Welcome {
  std::string proof{};
  auto fields() { return std::tie(proof); }
};

/// The leader lets a process that waits become a worker of a new start.
struct Invited {
  std::int32_t worker = 0;
  std::vector<std::string> addresses{};  ///< Of all workers of that start.
  auto fields() { return std::tie(worker, addresses); }
};

/// The position is the number on the wire.
using Message =
    std::variant<Hello, Waiting, Refused, Started, Heartbeat, Set, Get, Value, Gather, Gathered, Failed,
                 Failure, Lost, Left, StreamEnd, Erase, Challenge, Join, Welcome, Invited>;

template <class M, std::size_t kind = 0>
constexpr std::size_t kind_of() {
  if constexpr (std::is_same_v<M, std::variant_alternative_t<kind, Message>>)
    return kind;
  else
    return kind_of<M, kind + 1>();
}

/// Functions by type, for std::visit of a message.
template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

/// The bytes are no frame of the protocol.
class WireError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Appends the message's frame.
void encode(Message message, std::string& bytes);

/// What a peer may send.
struct FrameLimits {
  std::size_t max_bytes = kMaxFrameBytes;
  std::optional<std::size_t> only_kind{};  ///< Nothing: a message of any kind.
};

struct Decoded {
  Message message;
  std::size_t num_bytes;  ///< Of its frame.
};
/// The first frame of the bytes; nothing: it has not come whole. Of another version of the protocol a Hello
/// has its version alone.
/// @throws WireError  there is none, or the limits forbid it: as soon as the bytes show it.
std::optional<Decoded> decode(std::string_view bytes, const FrameLimits& limits = {});

}  // namespace lockstep::detail::control
