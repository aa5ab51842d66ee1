#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/detail/saturate_cast.hpp>
#include <lockstep/tensor.hpp>

#include "support/dtypes.hpp"
#include "support/operands.hpp"

namespace lockstep::test {
namespace {

void copy(const TensorView& out, const TensorView& in) {
  test_kernels().copy(out, in, test_stream().handle());
}

void fill(const TensorView& out, const Scalar& value) {
  test_kernels().fill(out, value, test_stream().handle());
}

TensorView transposed(TensorView view) {
  view.shape = Shape(view.shape[1], view.shape[0]);
  std::swap(view.strides[0], view.strides[1]);
  return view;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("P29 filling touches the elements of the view alone", "[copy]", AllTypes) {
  using T = TestType;
  const std::int64_t n = GENERATE(1, 3, 17, 31, 33, 127, 129, 1025);
  const GuardedBuffer<T> out(test_stream(), pattern_elements<T>(n), kOddOffset<T>);
  fill(out.view(), 1);
  CHECK(out.values() == std::vector<HostElement<T>>(static_cast<std::size_t>(n), static_cast<T>(1)));
  CHECK(out.guards_intact());
}

TEMPLATE_LIST_TEST_CASE("P28 filling a column leaves the others alone", "[copy]", AllTypes) {
  using T = TestType;
  const GuardedBuffer<T> out(test_stream(), pattern_elements<T>(3 * 5));
  TensorView column = out.view(Shape(3, 5));
  column.shape = Shape(3);
  column.strides[0] = 5;
  fill(column, 1);
  auto expected = pattern_elements<T>(3 * 5);
  for (std::size_t row = 0; row < 3; ++row) expected[row * 5] = static_cast<T>(1);
  CHECK(out.values() == expected);
}

TEST_CASE("filling keeps 64-bit integers exact", "[copy]") {
  const GuardedBuffer<std::uint64_t> out(test_stream(), {0, 0, 0});
  fill(out.view(), std::numeric_limits<std::uint64_t>::max());
  CHECK(out.values() == std::vector<std::uint64_t>(3, std::numeric_limits<std::uint64_t>::max()));
  const GuardedBuffer<std::int64_t> signed_out(test_stream(), {0, 0, 0});
  fill(signed_out.view(), -9007199254740993);
  CHECK(signed_out.values() == std::vector<std::int64_t>(3, -9007199254740993));
}

TEMPLATE_LIST_TEST_CASE("P29 copying converts every dtype to every other, at odd lengths and addresses",
                        "[copy]", AllTypes) {
  using From = TestType;
  const std::int64_t n = GENERATE(1, 3, 31, 1025, 2049);
  const GuardedBuffer<From> in(test_stream(), pattern_elements<From>(n), kOddOffset<From>);
  for (const DType dtype : kAllDTypes) {
    dispatch(dtype, [&]<class To>() {
      INFO("from " << dtype_of<From> << " to " << dtype);
      const GuardedBuffer<To> out(test_stream(), std::vector<HostElement<To>>(static_cast<std::size_t>(n)),
                                  kOddOffset<To>);
      copy(out.view(), in.view());
      std::vector<HostElement<To>> expected;
      for (std::int64_t i = 0; i < n; ++i) {
        const int value = static_cast<int>(pattern<From>(i));
        expected.push_back(std::same_as<To, bool> ? static_cast<HostElement<To>>(value != 0)
                                                  : static_cast<HostElement<To>>(value));
      }
      CHECK(out.values() == expected);
      CHECK(out.guards_intact());
    });
  }
}

TEMPLATE_LIST_TEST_CASE("copying converts the extremes as saturate_cast does", "[copy]", AllTypes) {
  using From = TestType;
  std::vector<HostElement<From>> values;
  if constexpr (std::same_as<From, bool>) {
    values = {0, 1};
  } else {
    using Limits = std::numeric_limits<From>;
    values = {Limits::lowest(), Limits::max(), From(0), From(1)};
    if constexpr (!std::integral<From>) {
      for (const double x : {0.5, -0.5, 2.5, -3.75, 1e-9, 300.0, -200.0}) values.push_back(From(x));
      values.push_back(Limits::quiet_NaN());
      if (Limits::has_infinity) values.push_back(Limits::infinity());
    }
  }
  const GuardedBuffer<From> in(test_stream(), values);
  for (const DType dtype : kAllDTypes) {
    dispatch(dtype, [&]<class To>() {
      INFO("from " << dtype_of<From> << " to " << dtype);
      const GuardedBuffer<To> out(test_stream(), std::vector<HostElement<To>>(values.size()));
      copy(out.view(), in.view());
      std::vector<HostElement<To>> expected;
      for (const auto value : values) expected.push_back(detail::saturate_cast<To>(static_cast<From>(value)));
      const auto result = out.values();
      for (std::size_t i = 0; i < values.size(); ++i) {
        INFO("element " << i);
        const bool both_nan = result[i] != result[i] && expected[i] != expected[i];
        CHECK((both_nan || result[i] == expected[i]));
      }
    });
  }
}

TEST_CASE("P29 copying permutes three axes, at odd addresses and with gaps", "[copy]") {
  const std::array<std::array<int, 3>, 5> orders{{{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
  const auto [a, b, c] = GENERATE(table<std::int64_t, std::int64_t, std::int64_t>(
      {{3, 40, 33}, {40, 3, 33}, {64, 32, 8}, {9, 70, 2}, {1, 8, 8}}));
  const std::int64_t gap = GENERATE(0, 5);
  const Shape shape(a, b, c + gap);
  const GuardedBuffer<float> in(test_stream(), pattern_elements<float>(shape.size()), kOddOffset<float>);
  for (const std::array<int, 3>& order : orders) {
    CAPTURE(a, b, c, gap, order[0], order[1], order[2]);
    TensorView from = in.view(shape);
    from.shape = Shape(a, b, c);
    const TensorView whole = from;
    std::array<std::int64_t, 3> extents{};
    for (std::size_t i = 0; i < 3; ++i) {
      extents[i] = whole.shape[order[i]];
      from.strides[i] = whole.strides[static_cast<std::size_t>(order[i])];
    }
    from.shape = Shape(extents[0], extents[1], extents[2]);
    const GuardedBuffer<float> out(test_stream(), std::vector<float>(static_cast<std::size_t>(a * b * c)),
                                   kOddOffset<float>);
    copy(out.view(from.shape), from);
    std::vector<float> expected;
    for (std::int64_t i = 0; i < extents[0]; ++i)
      for (std::int64_t j = 0; j < extents[1]; ++j)
        for (std::int64_t k = 0; k < extents[2]; ++k)
          expected.push_back(pattern<float>(i * from.strides[0] + j * from.strides[1] + k * from.strides[2]));
    CHECK(out.values() == expected);
    CHECK(out.guards_intact());
  }
}

TEMPLATE_LIST_TEST_CASE("copying transposes, in and out of strided views", "[copy]", AllTypes) {
  using T = TestType;
  const std::int64_t rows = GENERATE(7, 8, 65), columns = 33;
  const GuardedBuffer<T> in(test_stream(), pattern_elements<T>(rows * columns));
  const GuardedBuffer<T> out(test_stream(),
                             std::vector<HostElement<T>>(static_cast<std::size_t>(rows * columns)));
  copy(out.view(Shape(columns, rows)), transposed(in.view(Shape(rows, columns))));
  std::vector<HostElement<T>> expected;
  for (std::int64_t c = 0; c < columns; ++c) {
    for (std::int64_t r = 0; r < rows; ++r) expected.push_back(pattern<T>(r * columns + c));
  }
  CHECK(out.values() == expected);

  copy(transposed(out.view(Shape(rows, columns))), in.view(Shape(columns, rows)));
  const auto result = out.values();
  for (std::int64_t i = 0; i < columns; ++i) {
    for (std::int64_t j = 0; j < rows; ++j) {
      REQUIRE(result[static_cast<std::size_t>(j * columns + i)] ==
              static_cast<HostElement<T>>(pattern<T>(i * rows + j)));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("copying transposes views whose rows begin at multiples of 16 bytes and end anywhere",
                        "[copy]", AllTypes) {
  using T = TestType;
  constexpr std::int64_t kRows = 97, kColumns = 101, kInPitch = 160, kOutPitch = 112;
  const GuardedBuffer<T> in(test_stream(), pattern_elements<T>(kRows * kInPitch));
  const GuardedBuffer<T> out(test_stream(),
                             std::vector<HostElement<T>>(static_cast<std::size_t>(kColumns * kOutPitch)));
  TensorView from = in.view(Shape(kRows, kInPitch)), to = out.view(Shape(kColumns, kOutPitch));
  from.shape = Shape(kRows, kColumns);
  to.shape = Shape(kColumns, kRows);
  copy(to, transposed(from));
  const auto result = out.values();
  std::int64_t wrong = 0;
  for (std::int64_t c = 0; c < kColumns; ++c)
    for (std::int64_t r = 0; r < kOutPitch; ++r)
      wrong += result[static_cast<std::size_t>(c * kOutPitch + r)] !=
               static_cast<HostElement<T>>(r < kRows ? pattern<T>(r * kInPitch + c) : T(0));
  CHECK(wrong == 0);
  CHECK(out.guards_intact());
}

TEST_CASE("copying a strided view of rank 4 converts every element", "[copy]") {
  // The even indices of each axis but the last, which is reversed in order with the third.
  const Shape whole(4, 6, 8, 5);
  std::vector<float> values;
  for (int i = 0; i < whole.size(); ++i) values.push_back(static_cast<float>(i));
  const GuardedBuffer<float> in(test_stream(), values);
  TensorView view = in.view(whole);
  view.shape = Shape(2, 3, 5, 4);
  view.strides = {2 * 240, 2 * 40, 1, 2 * 5};
  const GuardedBuffer<std::int32_t> out(test_stream(), std::vector<std::int32_t>(120));
  copy(out.view(view.shape), view);
  std::vector<std::int32_t> expected;
  for (int a = 0; a < 2; ++a) {
    for (int b = 0; b < 3; ++b) {
      for (int c = 0; c < 5; ++c) {
        for (int d = 0; d < 4; ++d) expected.push_back(a * 480 + b * 80 + c + d * 10);
      }
    }
  }
  CHECK(out.values() == expected);
}

TEST_CASE("copying a single element with strides of 0 spreads it", "[copy]") {
  const GuardedBuffer<float> in(test_stream(), {2.5f});
  TensorView view = in.view();
  view.shape = Shape(3, 4);
  view.strides = {};
  const GuardedBuffer<double> out(test_stream(), std::vector<double>(12));
  copy(out.view(view.shape), view);
  CHECK(out.values() == std::vector<double>(12, 2.5));
}

TEST_CASE("bytes are copied within a device, between devices, and exactly in place", "[copy]") {
  const std::vector<Device> devices = TestBackend::devices(2);
  auto& first = TestBackend::open(0);
  auto& second = TestBackend::open(1);
  const std::int64_t n = GENERATE(1, 4099);
  const auto size_bytes = static_cast<std::size_t>(n);
  const GuardedBuffer<std::uint8_t> source(default_stream(first), pattern_elements<std::uint8_t>(n));
  const GuardedBuffer<std::uint8_t> same(default_stream(first), std::vector<std::uint8_t>(size_bytes));
  const GuardedBuffer<std::uint8_t> other(default_stream(second), std::vector<std::uint8_t>(size_bytes));

  first.copy(same.view().data, source.view().data, size_bytes, default_stream(first).handle());
  first.copy(same.view().data, same.view().data, size_bytes, default_stream(first).handle());
  CHECK(same.values() == source.values());
  second.copy_from_peer(other.view().data, source.view().data, first, size_bytes,
                        default_stream(second).handle());
  CHECK(other.values() == source.values());
  CHECK(other.guards_intact());
}

}  // namespace lockstep::test
