#include <functional>
#include <memory>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/detail/shared_function.hpp>

using lockstep::detail::SharedFunction;

namespace shared_function_test {
/// Counts its copies.
struct Counted {
  explicit Counted(int* num_copies_) : num_copies(num_copies_) {}
  Counted(const Counted& other) : num_copies(other.num_copies) { ++*num_copies; }
  Counted(Counted&& other) noexcept : num_copies(other.num_copies) {}
  int operator()(int x) const { return x + 1; }
  int* num_copies;
};
}  // namespace shared_function_test

TEST_CASE("copies of a shared function are one function", "[detail][host]") {
  int num_copies = 0;
  const SharedFunction<int(int)> first{shared_function_test::Counted(&num_copies)};
  const int at_first = num_copies;
  SharedFunction<int(int)> second = first;
  for (int i = 0; i < 100; ++i) second = [second](int x) { return second(x); };
  CHECK(second(1) == 2);
  CHECK(first(1) == 2);
  CHECK(num_copies == at_first);
}

TEST_CASE("a shared function may be none, and takes and gives what can only be moved", "[detail][host]") {
  SharedFunction<std::unique_ptr<int>(std::unique_ptr<int>)> none;
  CHECK_FALSE(none);
  CHECK_FALSE(decltype(none)(nullptr));
  none = [](std::unique_ptr<int> x) { return x; };
  CHECK(none);
  CHECK(*none(std::make_unique<int>(3)) == 3);
}

TEST_CASE("a shared function of an empty one is none", "[detail][host]") {
  using Function = SharedFunction<int(int)>;
  CHECK_FALSE(Function(std::function<int(int)>()));
  CHECK_FALSE(Function(static_cast<int (*)(int)>(nullptr)));
  CHECK(Function(std::function<int(int)>([](int x) { return x; })));
}
