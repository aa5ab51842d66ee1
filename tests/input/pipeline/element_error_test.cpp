#include "input/pipeline/element_error.hpp"

#include <exception>
#include <stdexcept>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using detail::call_for_element;
using test::says;

TEMPLATE_TEST_CASE("an element's error keeps lockstep's class", "[input][host]", NotFound, InvalidArgument,
                   CollectiveMismatch, ContextError, Unsupported, OutOfMemory, CollectiveTimeout,
                   CollectiveAborted, CollectiveError) {
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
