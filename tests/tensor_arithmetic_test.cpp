#include <array>
#include <cstdint>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#include "support/dtypes.hpp"
#include "support/lazy_device.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using lockstep::test::LazyDevice;
using lockstep::test::says;

using Ints = std::vector<std::int32_t>;

namespace {

Tensor ints(std::initializer_list<std::int32_t> values) { return Tensor::from(values, Shape(values.size())); }

}  // namespace

TEMPLATE_LIST_TEST_CASE("operators work element by element", "[tensor_arithmetic]", test::NumericTypes) {
  using T = TestType;
  const auto list = [](int a, int b, int c) { return std::vector<T>{T(a), T(b), T(c)}; };
  const Tensor a = Tensor::from<T>({T(4), T(6), T(8)}, {3});
  const Tensor b = Tensor::from<T>({T(1), T(2), T(4)}, {3});
  const Tensor two = Tensor::scalar(T(2));
  CHECK((a + b).to_vector<T>() == list(5, 8, 12));
  CHECK((a - b).to_vector<T>() == list(3, 4, 4));
  CHECK((a * b).to_vector<T>() == list(4, 12, 32));
  CHECK((a / b).to_vector<T>() == list(4, 3, 2));
  CHECK((a + two).to_vector<T>() == list(6, 8, 10));
  CHECK((two * a).to_vector<T>() == list(8, 12, 16));
  CHECK((two - two).shape() == Shape());
  CHECK((a + 2).to_vector<T>() == list(6, 8, 10));
  CHECK((a - 2).to_vector<T>() == list(2, 4, 6));
  CHECK((a * 2).to_vector<T>() == list(8, 12, 16));
  CHECK((a / 2).to_vector<T>() == list(2, 3, 4));
  CHECK((2 + a).to_vector<T>() == list(6, 8, 10));
  CHECK((8 - a).to_vector<T>() == list(4, 2, 0));
  CHECK((2 * a).to_vector<T>() == list(8, 12, 16));
  CHECK((8 / b).to_vector<T>() == list(8, 4, 2));
  CHECK((a + 2).dtype() == dtype_of<T>);
  CHECK((a + -a).to_vector<T>() == list(0, 0, 0));
}

TEMPLATE_LIST_TEST_CASE("in-place operators change their tensor", "[tensor_arithmetic]", test::NumericTypes) {
  using T = TestType;
  const auto list = [](int a, int b) { return std::vector<T>{T(a), T(b)}; };
  Tensor t = Tensor::from<T>({T(4), T(6)}, {2});
  const Tensor shared = t, b = Tensor::from<T>({T(1), T(2)}, {2}), two = Tensor::scalar(T(2));
  CHECK(t.add_(b).to_vector<T>() == list(5, 8));
  CHECK(t.sub_(b).to_vector<T>() == list(4, 6));
  CHECK(t.mul_(b).to_vector<T>() == list(4, 12));
  CHECK(t.div_(b).to_vector<T>() == list(4, 6));
  CHECK(t.add_(2).to_vector<T>() == list(6, 8));
  CHECK(t.sub_(two).to_vector<T>() == list(4, 6));
  CHECK(t.mul_(2).to_vector<T>() == list(8, 12));
  CHECK(t.div_(two).to_vector<T>() == list(4, 6));
  CHECK(shared.to_vector<T>() == list(4, 6));
  CHECK(shared.is_same_object(t));
}

TEST_CASE("integers truncate when divided, wrap when added, and give 0 over 0", "[tensor_arithmetic]") {
  CHECK((ints({7, -7, 5}) / ints({2, 2, 0})).to_vector<std::int32_t>() == Ints{3, -3, 0});
  CHECK((Tensor::full({1}, std::int8_t{120}) + Tensor::full({1}, std::int8_t{100})).item<std::int8_t>() ==
        -36);
}

TEST_CASE("a host scalar that the dtype cannot hold is refused, and nothing is written",
          "[tensor_arithmetic]") {
  Tensor bytes = Tensor::full({2}, std::uint8_t{7});
  CHECK_THROWS_MATCHES(bytes + 300, InvalidArgument,
                       says("the number 300 does not fit", "[2] uint8", "Pass one that uint8 can hold"));
  CHECK_THROWS_MATCHES(-1 - bytes, InvalidArgument, says("the number -1 does not fit"));
  CHECK_THROWS_MATCHES(bytes.mul_(1.5), InvalidArgument, says("mul_", "the number 1.5 does not fit"));
  CHECK_THROWS_MATCHES(bytes.fill_(256), InvalidArgument, says("fill_", "the number 256 does not fit"));
  CHECK(bytes.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{7, 7});
  CHECK_THROWS_MATCHES(Tensor::full({1}, 1e300, DType::f32), InvalidArgument, says("1e+300", "float32"));
  CHECK((Tensor::ones({1}) * 0.1).item<float>() == 0.1f);
}

TEST_CASE("strided operands are read, strided results written through", "[tensor_arithmetic]") {
  const Tensor t = Tensor::arange(6).reshape({2, 3});
  CHECK((t.narrow(1, 0, 2) + t.narrow(1, 1, 3)).to_vector<std::int32_t>() == Ints{1, 3, 7, 9});
  t.narrow(1, 0, 1).add_(100).mul_(t.narrow(1, 1, 2));
  CHECK(t.to_vector<std::int32_t>() == Ints{100, 1, 2, 412, 4, 5});
  t.narrow(1, 2, 3).sub_(Tensor::scalar(std::int32_t{2}));
  CHECK(t.to_vector<std::int32_t>() == Ints{100, 1, 0, 412, 4, 3});
}

TEST_CASE("an operand may overlap the result in any way", "[tensor_arithmetic]") {
  Tensor t = Tensor::from<std::int32_t>({1, 2, 3, 4}, {4});
  SECTION("itself") { CHECK(t.add_(t).to_vector<std::int32_t>() == Ints{2, 4, 6, 8}); }
  SECTION("shifted up") {
    t.slice(1, 4).add_(t.slice(0, 3));
    CHECK(t.to_vector<std::int32_t>() == Ints{1, 3, 5, 7});
  }
  SECTION("shifted down") {
    t.slice(0, 3).sub_(t.slice(1, 4));
    CHECK(t.to_vector<std::int32_t>() == Ints{-1, -1, -1, 4});
  }
  SECTION("its first element, as a scalar") {
    t.sub_(t.slice(0, 1).reshape({}));
    CHECK(t.to_vector<std::int32_t>() == Ints{0, 1, 2, 3});
  }
  SECTION("transposed") {
    auto* const data = static_cast<std::int32_t*>(t.data());
    Tensor::view(data, {2, 2}, DType::i32, "CPU:0")
        .add_(Tensor::view(data, {2, 2}, DType::i32, "CPU:0", {1, 2}));
    CHECK(t.to_vector<std::int32_t>() == Ints{2, 5, 5, 8});
  }
  SECTION("strided on strided") {
    Tensor matrix = t.reshape({2, 2});
    matrix.narrow(1, 0, 1).add_(matrix.narrow(1, 1, 2));
    CHECK(t.to_vector<std::int32_t>() == Ints{3, 2, 7, 4});
  }
}

TEST_CASE("shapes that differ are refused, naming both", "[tensor_arithmetic]") {
  Tensor a = Tensor::zeros({2, 3});
  const Tensor b = Tensor::zeros({3}), one = Tensor::ones({1});
  CHECK_THROWS_MATCHES(a + b, InvalidArgument,
                       says("operator+", "[2, 3] float32 on CPU:0", "[3] float32 on CPU:0"));
  CHECK_THROWS_MATCHES(a * one, InvalidArgument, says("operator*", "[2, 3]", "[1]"));
  CHECK_THROWS_MATCHES(a.add_(b), InvalidArgument, says("add_", "[2, 3]", "[3]"));
  Tensor scalar = Tensor::scalar(1.0f);
  CHECK_THROWS_MATCHES(scalar.add_(b), InvalidArgument, says("add_", "[] float32", "[3] float32"));
  CHECK(scalar.item<float>() == 1);
}

TEST_CASE("dtypes that differ are refused, naming both", "[tensor_arithmetic]") {
  Tensor a = Tensor::zeros({2});
  const Tensor b = Tensor::ones({2}, DType::i32);
  CHECK_THROWS_MATCHES(a - b, InvalidArgument, says("operator-", "[2] float32", "[2] int32", "dtypes"));
  CHECK_THROWS_MATCHES(a.sub_(b), InvalidArgument, says("sub_", "[2] float32", "[2] int32", "dtypes"));
  CHECK(a.to_vector<float>() == std::vector<float>{0, 0});
}

TEST_CASE("devices that differ are refused, naming both", "[tensor_arithmetic]") {
  Tensor a = Tensor::zeros({2}, DType::f32, "CPU:1");
  const Tensor b = Tensor::ones({2}, DType::f32, "CPU:2");
  CHECK_THROWS_MATCHES(a / b, InvalidArgument, says("operator/", "CPU:1", "CPU:2", "devices"));
  CHECK_THROWS_MATCHES(a.div_(b), InvalidArgument, says("div_", "CPU:1", "CPU:2", "devices"));
  CHECK_THROWS_MATCHES(a.div_(Tensor::scalar(1.0f)), InvalidArgument,
                       says("div_", "CPU:1", "CPU:0", "devices"));
  CHECK((a + 1).device() == Device("CPU:1"));
  CHECK((1 - a).device() == Device("CPU:1"));
}

TEST_CASE("booleans are no numbers", "[tensor_arithmetic]") {
  Tensor t = Tensor::full({2}, true);
  CHECK_THROWS_MATCHES(t + t, InvalidArgument, says("operator+", "booleans", "[2] bool"));
  CHECK_THROWS_MATCHES(t * 2, InvalidArgument, says("operator*", "booleans", "[2] bool"));
  CHECK_THROWS_MATCHES(2 - t, InvalidArgument, says("operator-", "booleans", "[2] bool"));
  CHECK_THROWS_MATCHES(-t, InvalidArgument, says("operator-", "booleans", "[2] bool"));
  CHECK_THROWS_MATCHES(t.add_(t), InvalidArgument, says("add_", "booleans", "[2] bool"));
  CHECK_THROWS_MATCHES(t.mul_(0), InvalidArgument, says("mul_", "booleans", "[2] bool"));
  CHECK(t.to_vector<bool>() == std::vector<bool>{true, true});
}

TEST_CASE("P31 arithmetic on nothing", "[tensor_arithmetic]") {
  Tensor empty = Tensor::zeros({0, 3});
  CHECK((empty + empty).shape() == Shape(0, 3));
  CHECK((empty * 2).shape() == Shape(0, 3));
  CHECK((Tensor::scalar(1.0f) - empty).shape() == Shape(0, 3));
  CHECK((-empty).shape() == Shape(0, 3));
  CHECK(empty.div_(empty).shape() == Shape(0, 3));
}

TEST_CASE("P39 temporaries live until the device is done with them", "[tensor_arithmetic]") {
  LazyDevice device;
  const Stream stream(device);
  const StreamScope scope(stream);
  const Tensor t = Tensor::arange(6, DType::f32, "GPU:0").reshape({2, 3});
  t.narrow(1, 0, 2).add_(t.narrow(1, 1, 3));
  t.slice(0, 1).mul_(t.slice(1, 2));
  Tensor u = -(t + 1.5) / 0.5;
  CHECK_FALSE(stream.is_complete());
  CHECK(u.to_vector<float>() == std::vector<float>{-17, -57, -23, -17, -21, -13});
}
