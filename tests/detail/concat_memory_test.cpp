#include <new>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "detail/concat.hpp"
#include "support/failing_memory.hpp"

using namespace lockstep;

TEST_CASE("a text is not cut short where memory runs out", "[detail][memory][host]") {
  const std::string part(100, 'x');
  std::string text;
  bool has_thrown = false;
  {
    const test::FailingMemory failing(test::Memory::heap, 1);
    try {
      text = detail::concat(part, 1, part);
    } catch (const std::bad_alloc&) {
      has_thrown = true;
    }
  }
  CHECK(has_thrown);
  CHECK(detail::concat(part, 1, part) == part + "1" + part);
}
