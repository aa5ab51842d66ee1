#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/input/detail/pass_state.hpp>
#include <lockstep/tensor.hpp>

#include "detail/input_file.hpp"

using namespace lockstep;
using detail::PassState;

namespace {

template <class T>
T moved(T value) {
  PassState written;
  written(value);
  const std::string bytes = written.take();
  PassState read(bytes);
  T result{};
  read(result);
  read.expect_end();
  return result;
}

/// What reading a T from these bytes says; "": nothing is wrong.
template <class T>
std::string fault_of(const std::string& bytes) {
  try {
    PassState state(bytes);
    T value{};
    state(value);
    state.expect_end();
  } catch (const detail::FileFault& fault) {
    return std::to_string(fault.position) + ": " + fault.reason;
  }
  return {};
}

}  // namespace

TEST_CASE("values go through a state's bytes", "[input][host]") {
  for (const std::int64_t number :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{127}, std::int64_t{128}, std::int64_t{-1},
        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()})
    CHECK(moved(number) == number);
  CHECK(moved(true));
  CHECK(moved(std::string("a\0b", 3)) == std::string("a\0b", 3));
  CHECK(moved(std::vector<std::string>{"", "x"}) == std::vector<std::string>{"", "x"});
  CHECK(moved(std::optional<std::uint64_t>(7)) == 7);
  CHECK_FALSE(moved(std::optional<std::uint64_t>()));
  const auto element =
      moved(std::vector<Tensor>{Tensor::from<float>({1, 2}, {2}, "CPU:0"), Tensor::scalar(true, "CPU:0")});
  REQUIRE(element.size() == 2);
  CHECK(element[0].to_vector<float>() == std::vector<float>{1, 2});
  CHECK(element[1].item<bool>());
  PassState small;
  std::int64_t row = 100;
  small(row);
  CHECK(small.take().size() == 1);
}

TEST_CASE("a state's bytes are not trusted", "[input][host]") {
  CHECK(fault_of<std::int64_t>("") == "0: a number has 1 bytes, but the state ends after 0");
  CHECK(fault_of<std::int64_t>(std::string(11, '\xff')) == "10: a number has too many bytes");
  CHECK(fault_of<std::int64_t>("ab") == "1: there is more after the last stage's");
  CHECK(fault_of<bool>("\2") == "1: a yes or no is neither");
  CHECK(fault_of<std::string>("\5abc") == "1: there are to be 5 values, more than bytes");
  CHECK(fault_of<std::vector<std::int64_t>>("\xff\xff\xff\xff\x0f") ==
        "5: there are to be 4294967295 values, more than bytes");
  CHECK(fault_of<std::vector<Tensor>>(std::string("\1\0\0\0\x63\0", 6)) == "5: there is no dtype 99");
  // 2^40 floats, of which there is none.
  CHECK(fault_of<std::vector<Tensor>>(std::string("\1\0\0\0\2\1\0\0\0\0\0\1\0\0", 14))
            .find("more elements than") != std::string::npos);
}
