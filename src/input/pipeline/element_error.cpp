#include "input/pipeline/element_error.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include <lockstep/error.hpp>
#include <lockstep/input/bad_record.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {
namespace {

template <class Kind>
[[noreturn]] void raise_nested(const std::string& message, ErrorContext context) {
  if (*context.location.file == '\0') context.location = {__FILE__, __LINE__, __func__};
  std::throw_with_nested(Kind(message, complete(std::move(context), message)));
}

/// A DeviceError with the arguments of the others. Whether it is fatal is a part of its kind.
template <bool fatal>
struct OfDevice : DeviceError {
  OfDevice(const std::string& message, ErrorContext context)
      : DeviceError(message, std::move(context), fatal) {}
};

/// A class of exceptions.
struct ErrorKind {
  std::size_t code;  // in states: never given to another class
  bool (*has)(const std::exception& error);
  std::exception_ptr (*make)(const std::string& message);
  void (*raise)(const std::string& message, ErrorContext context);
};
template <class Kind>
bool has(const std::exception& error) {
  return dynamic_cast<const Kind*>(&error) != nullptr;
}
template <bool fatal>
bool is_of_device(const std::exception& error) {
  const auto* const known = dynamic_cast<const DeviceError*>(&error);
  return known != nullptr && known->is_fatal() == fatal;
}
template <class Thrown>
constexpr ErrorKind kind(std::size_t code, bool (*has)(const std::exception& error)) {
  return {code, has,
          [](const std::string& message) {
            return std::make_exception_ptr(
                Thrown(message, complete({.location = {__FILE__, __LINE__, __func__}}, message)));
          },
          raise_nested<Thrown>};
}

/// Every class of exceptions of the library; derived ones come before theirs, Error last.
constexpr std::array kKinds = {kind<CallError>(0, has<CallError>),
                               kind<readers::BadRecord>(15, has<readers::BadRecord>),
                               kind<CollectiveMismatch>(1, has<CollectiveMismatch>),
                               kind<InvalidArgument>(3, has<InvalidArgument>),
                               kind<ContextError>(4, has<ContextError>),
                               kind<NotFound>(2, has<NotFound>),
                               kind<OutOfRange>(9, has<OutOfRange>),
                               kind<Unsupported>(5, has<Unsupported>),
                               kind<OutOfMemory>(10, has<OutOfMemory>),
                               kind<OfDevice<false>>(11, is_of_device<false>),
                               kind<OfDevice<true>>(12, is_of_device<true>),
                               kind<CollectiveTimeout>(13, has<CollectiveTimeout>),
                               kind<PeerLost>(14, has<PeerLost>),
                               kind<CollectiveAborted>(6, has<CollectiveAborted>),
                               kind<CollectiveError>(7, has<CollectiveError>),
                               kind<Error>(8, has<Error>)};

/// That of other exceptions is Error's.
const ErrorKind& kind_of(const std::exception& error) {
  return *std::find_if(kKinds.begin(), kKinds.end() - 1,
                       [&](const ErrorKind& one) { return one.has(error); });
}

}  // namespace

void transfer(PassState& state, std::exception_ptr& error) {
  std::size_t code = kKinds.back().code;
  std::string message = "an exception that is not a std::exception.";
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& known) {
    message = known.what();
    code = kind_of(known).code;
  } catch (...) {
  }
  state(code, message);
  if (state.is_saving()) return;
  const auto found = std::ranges::find(kKinds, code, &ErrorKind::code);
  if (found == kKinds.end()) state.fail("there is no such class of exceptions");
  error = found->make(message);
}

void raise_at_element(std::string_view what, std::int64_t index, std::string_view file) {
  const auto place = [&](std::string_view cause) {
    const bool has_file = file.empty() || cause.find(file) != cause.npos;
    return concat(what, ": ", has_file ? "" : file, has_file ? "" : ": ", "element ", index, ": ", cause);
  };
  try {
    throw;
  } catch (const OutOfRange& error) {
    raise_nested<Error>(place(error.what()), error.context());
  } catch (const readers::BadRecord& error) {  // its reader has heard of it: to others it is no record
    raise_nested<InvalidArgument>(place(error.what()), error.context());
  } catch (const std::exception& error) {
    const auto* const own = dynamic_cast<const Error*>(&error);
    kind_of(error).raise(place(error.what()), own ? own->context() : ErrorContext());
    throw;  // not reached
  } catch (...) {
    raise_nested<Error>(place("an exception that is not a std::exception."), {});
  }
}

}  // namespace lockstep::detail
