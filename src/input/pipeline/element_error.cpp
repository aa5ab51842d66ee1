#include "input/pipeline/element_error.hpp"

#include <algorithm>
#include <array>
#include <exception>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {
namespace {

template <class Kind>
[[noreturn]] void raise_nested(const std::string& message, ErrorContext context) {
  if (*context.location.file == '\0') context.location = {__FILE__, __LINE__, __func__};
  std::throw_with_nested(Kind(message, complete(std::move(context), message)));
}

/// Makes an exception of a class.
template <class Kind>
std::exception_ptr make_error(const std::string& message) {
  return std::make_exception_ptr(
      Kind(message, complete({.location = {__FILE__, __LINE__, __func__}}, message)));
}

struct ErrorKind {
  bool (*has)(const std::exception& error);
  std::exception_ptr (*make)(const std::string& message);
};
template <class Kind>
constexpr ErrorKind kKind = {
    [](const std::exception& error) { return dynamic_cast<const Kind*>(&error) != nullptr; },
    make_error<Kind>};

/// Derived classes come before theirs. A state has the index: kinds are only added, at the front's end.
constexpr std::array kKinds = {kKind<CallError>,         kKind<CollectiveMismatch>, kKind<NotFound>,
                               kKind<InvalidArgument>,   kKind<ContextError>,       kKind<Unsupported>,
                               kKind<CollectiveAborted>, kKind<CollectiveError>,    kKind<Error>};

}  // namespace

void transfer(PassState& state, std::exception_ptr& error) {
  std::size_t kind = kKinds.size() - 1;
  std::string message = "an exception that is not a std::exception.";
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& known) {
    message = known.what();
    kind = static_cast<std::size_t>(
        std::find_if(kKinds.begin(), kKinds.end() - 1, [&](const ErrorKind& one) { return one.has(known); }) -
        kKinds.begin());
  } catch (...) {
  }
  state(kind, message);
  if (state.is_saving()) return;
  if (kind >= kKinds.size()) state.fail("there is no such class of exceptions");
  error = kKinds[kind].make(message);
}

void raise_at_element(std::string_view what, std::int64_t index, std::string_view file) {
  const auto place = [&](std::string_view cause) {
    const bool has_file = file.empty() || cause.find(file) != cause.npos;
    return concat(what, ": ", has_file ? "" : file, has_file ? "" : ": ", "element ", index, ": ", cause);
  };
  const auto text = [&](const std::exception& error) { return place(error.what()); };
  try {
    throw;
  } catch (const NotFound& error) {
    raise_nested<NotFound>(text(error), error.context());
  } catch (const CollectiveMismatch& error) {
    raise_nested<CollectiveMismatch>(text(error), error.context());
  } catch (const InvalidArgument& error) {
    raise_nested<InvalidArgument>(text(error), error.context());
  } catch (const ContextError& error) {
    raise_nested<ContextError>(text(error), error.context());
  } catch (const Unsupported& error) {
    raise_nested<Unsupported>(text(error), error.context());
  } catch (const OutOfMemory& error) {
    raise_nested<OutOfMemory>(text(error), error.context());
  } catch (const DeviceError& error) {
    const std::string message = text(error);
    std::throw_with_nested(DeviceError(message, complete(error.context(), message), error.is_fatal()));
  } catch (const CollectiveTimeout& error) {
    raise_nested<CollectiveTimeout>(text(error), error.context());
  } catch (const CollectiveAborted& error) {
    raise_nested<CollectiveAborted>(text(error), error.context());
  } catch (const CollectiveError& error) {
    raise_nested<CollectiveError>(text(error), error.context());
  } catch (const Error& error) {
    raise_nested<Error>(text(error), error.context());
  } catch (const std::exception& error) {
    raise_nested<Error>(text(error), {});
  } catch (...) {
    raise_nested<Error>(place("an exception that is not a std::exception."), {});
  }
}

}  // namespace lockstep::detail
