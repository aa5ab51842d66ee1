#include "input/pipeline/element_error.hpp"

#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/bad_record.hpp>

#include "detail/input_file.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using detail::call_for_element;
using test::says;

TEMPLATE_TEST_CASE("an element's error keeps lockstep's class", "[input][host]", NotFound, InvalidArgument,
                   CollectiveMismatch, ContextError, Unsupported, OutOfMemory, CollectiveTimeout,
                   CollectiveAborted, CollectiveError, PeerLost, detail::CallError) {
  const auto call = [] {
    call_for_element("Dataset::map", 5, [] { throw TestType("why", {.operation = "op"}); });
  };
  CHECK_THROWS_MATCHES(call(), TestType, says("Dataset::map: element 5: why"));
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.context().operation == "op");
    CHECK_THROWS_AS(std::rethrow_if_nested(error), TestType);
  }
}

namespace {

template <class Kind>
Kind made() {
  if constexpr (std::is_same_v<Kind, DeviceError>)
    return DeviceError("why", {}, true);
  else
    return Kind("why");
}

std::exception_ptr saved_and_restored(std::exception_ptr error) {
  detail::PassState written;
  transfer(written, error);
  const std::string bytes = written.take();
  detail::PassState read(bytes);
  std::exception_ptr result;
  transfer(read, result);
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE("a saved exception keeps lockstep's class", "[input][host]", Error, InvalidArgument,
                   CollectiveMismatch, ContextError, NotFound, OutOfRange, Unsupported, OutOfMemory,
                   DeviceError, CollectiveError, CollectiveTimeout, CollectiveAborted, PeerLost,
                   readers::BadRecord, detail::CallError) {
  try {
    std::rethrow_exception(saved_and_restored(std::make_exception_ptr(made<TestType>())));
  } catch (const TestType& error) {
    CHECK(std::string(error.what()) == "why");
    if constexpr (std::is_same_v<TestType, DeviceError>) {
      CHECK(error.is_fatal());
    } else {
      CHECK(typeid(error) == typeid(TestType));
    }
  }
}

TEST_CASE("a saved exception is of a known class", "[input][host]") {
  try {
    std::rethrow_exception(saved_and_restored(std::make_exception_ptr(DeviceError("why", {}, false))));
  } catch (const DeviceError& error) {
    CHECK_FALSE(error.is_fatal());
  }
  CHECK_THROWS_AS(std::rethrow_exception(saved_and_restored(std::make_exception_ptr(3))), Error);
  const std::string bytes("\x63\0", 2);
  detail::PassState read(bytes);
  std::exception_ptr error;
  CHECK_THROWS_AS(transfer(read, error), detail::FileFault);
}

TEST_CASE("an element's other errors are nested in an Error", "[input][host]") {
  struct Special : std::logic_error {
    using std::logic_error::logic_error;
  };
  try {
    call_for_element("Dataset::filter", 0, [] { throw Special("broken"); });
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "Dataset::filter: element 0: broken");
    CHECK(error.context().operation == "Dataset::filter");
    CHECK(error.context().location.line > 0);
    CHECK_THROWS_AS(std::rethrow_if_nested(error), Special);
  }
  CHECK_THROWS_MATCHES(call_for_element("f", 1, [] { throw 3; }), Error,
                       says("f: element 1: an exception that is not a std::exception"));
  CHECK_THROWS_AS(call_for_element("f", 1, [] { throw DeviceError("d", {}, true); }), DeviceError);
}

TEST_CASE("an element's OutOfRange is not the end of an iterator", "[input][host]") {
  bool is_end = false;
  try {
    call_for_element("f", 1, [] { throw OutOfRange("over"); });
  } catch (const OutOfRange&) {
    is_end = true;
  } catch (const Error&) {
  }
  CHECK_FALSE(is_end);
}

TEST_CASE("an element's result and the order to stop pass through", "[input][host]") {
  CHECK(call_for_element("f", 1, [] { return 3; }) == 3);
  CHECK_THROWS_AS(call_for_element("f", 1, [] { throw detail::Stopped(); }), detail::Stopped);
}
