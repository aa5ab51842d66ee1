#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/memory.hpp>
#include <lockstep/ops.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#include "support/dtypes.hpp"
#include "support/expected.hpp"
#include "support/lazy_device.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using lockstep::test::LazyDevice;
using lockstep::test::says;

using Ints = std::vector<std::int32_t>;

namespace {

template <class T>
std::vector<T> elements(const Tensor& t) {
  return t.to_vector<T>();
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("factories make tensors of every dtype", "[tensor]", test::AllTypes) {
  using T = TestType;
  const DType dtype = dtype_of<T>;
  const Tensor zeros = Tensor::zeros({2, 3}, dtype);
  CHECK(zeros.shape() == Shape(2, 3));
  CHECK(zeros.dtype() == dtype);
  CHECK(zeros.device() == Device("CPU:0"));
  CHECK(zeros.rank() == 2);
  CHECK(zeros.size() == 6);
  CHECK(zeros.nbytes() == 6 * static_cast<std::int64_t>(sizeof(T)));
  CHECK(zeros.is_contiguous());
  CHECK_FALSE(zeros.is_read_only());
  CHECK(zeros.to_vector<T>() == std::vector<T>(6, T(0)));
  CHECK(elements<T>(Tensor::ones({3}, dtype)) == std::vector<T>(3, T(1)));
  CHECK(elements<T>(Tensor::full({2}, T(1))) == std::vector<T>(2, T(1)));
  CHECK(elements<T>(Tensor::scalar(T(1))) == std::vector<T>{T(1)});
  CHECK(Tensor::scalar(T(1)).rank() == 0);
  CHECK(elements<T>(Tensor::empty({4, 0}, dtype)).empty());
  CHECK(elements<T>(Tensor::from<T>({T(0), T(1)}, {2, 1})) == std::vector<T>{T(0), T(1)});
}

TEMPLATE_LIST_TEST_CASE("from copies host values", "[tensor]", test::NumericTypes) {
  using T = TestType;
  std::vector<T> values = test::pattern_values<T>(17);
  const Tensor t = Tensor::from(values, {17});
  const Tensor span = Tensor::from(std::span<const T>(values), {17});
  const std::vector<T> expected = values;
  values.assign(17, T(0));
  CHECK(t.to_vector<T>() == expected);
  CHECK(span.to_vector<T>() == expected);
}

TEMPLATE_LIST_TEST_CASE("arange counts in every numeric dtype", "[tensor]", test::NumericTypes) {
  using T = TestType;
  CHECK(elements<T>(Tensor::arange(T(5))) == std::vector<T>{T(0), T(1), T(2), T(3), T(4)});
  CHECK(elements<T>(Tensor::arange(T(2), T(10), T(3))) == std::vector<T>{T(2), T(5), T(8)});
  CHECK(elements<T>(Tensor::arange(4, dtype_of<T>)) == std::vector<T>{T(0), T(1), T(2), T(3)});
  CHECK(Tensor::arange(T(3), T(3)).shape() == Shape(0));
  CHECK(Tensor::arange(T(3), T(1)).shape() == Shape(0));
}

TEST_CASE("arange goes down, in fractions, and to the ends of its type", "[tensor]") {
  CHECK(Tensor::arange(5, 0, -2).to_vector<std::int32_t>() == Ints{5, 3, 1});
  CHECK(Tensor::arange(0.0, 1.0, 0.25).to_vector<double>() == std::vector<double>{0, 0.25, 0.5, 0.75});
  CHECK(Tensor::arange(0.f, 1.f, 0.1f).size() == 10);
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto highest = std::numeric_limits<std::int64_t>::max();
  CHECK(Tensor::arange(lowest, highest, highest).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{lowest, -1, highest - 1});
  CHECK(Tensor::arange(highest, lowest, lowest).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{highest, -1});
  CHECK_THROWS_MATCHES(Tensor::arange(lowest, highest), InvalidArgument, says("arange", "too many"));
}

TEST_CASE("arange refuses what makes no range", "[tensor]") {
  CHECK_THROWS_MATCHES(Tensor::arange(0, 5, 0), InvalidArgument, says("arange(0, 5, 0)", "step is 0"));
  CHECK_THROWS_MATCHES(Tensor::arange(0.0, std::numeric_limits<double>::infinity()), InvalidArgument,
                       says("arange", "inf", "no finite range"));
  CHECK_THROWS_MATCHES(Tensor::arange(std::numeric_limits<double>::quiet_NaN()), InvalidArgument,
                       says("arange", "nan", "no finite range"));
  CHECK_THROWS_MATCHES(Tensor::arange(3, DType::boolean), InvalidArgument, says("arange", "booleans"));
  CHECK_THROWS_MATCHES(Tensor::arange(254, 258, 1, DType::u8), InvalidArgument,
                       says("arange(254, 258, 1)", "256 does not fit uint8"));
}

TEST_CASE("P37 factories use the current device unless told another", "[tensor]") {
  const DeviceScope scope("CPU:2");
  CHECK(Tensor::zeros({1}).device() == Device("CPU:2"));
  CHECK(Tensor::scalar(1).device() == Device("CPU:2"));
  CHECK(Tensor::arange(3).device() == Device("CPU:2"));
  CHECK(Tensor::from<int>({1}, {1}).device() == Device("CPU:2"));
  CHECK(Tensor::full({1}, 2.0f, DType::f16, "CPU:1").device() == Device("CPU:1"));
  CHECK_THROWS_AS(Tensor::from<int>({1}, {2}), InvalidArgument);
  CHECK(current_device() == Device("CPU:2"));
}

TEST_CASE("factories refuse what cannot be", "[tensor]") {
  CHECK_THROWS_MATCHES(Tensor::from<float>({1, 2, 3}, {2, 2}), InvalidArgument,
                       says("3 values", "[2, 2] float32", "4 elements"));
  CHECK_THROWS_MATCHES(Tensor::empty({std::int64_t{1} << 56}, DType::u8), OutOfMemory,
                       says("72057594037927936", "CPU:0"));
  CHECK_THROWS_MATCHES(Tensor::zeros({1}, DType::f32, "GPU:4000"), NotFound, says("GPU:4000", "CPU:0"));
}

TEST_CASE("views borrow memory, with strides or none", "[tensor]") {
  std::array<float, 6> values{0, 1, 2, 3, 4, 5};
  Tensor whole = Tensor::view(values.data(), {2, 3}, DType::f32, "CPU:0");
  whole.fill_(7);
  CHECK(values == std::array<float, 6>{7, 7, 7, 7, 7, 7});
  CHECK(whole.data() == values.data());

  values = {0, 1, 2, 3, 4, 5};
  const Tensor transposed = Tensor::view(values.data(), {3, 2}, DType::f32, "CPU:0", {1, 3});
  CHECK_FALSE(transposed.is_contiguous());
  CHECK(transposed.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  const Tensor repeated = Tensor::view(values.data() + 4, {3}, DType::f32, "CPU:0", {0});
  CHECK(repeated.to_vector<float>() == std::vector<float>{4, 4, 4});
}

TEST_CASE("views of constant memory are read, never written", "[tensor]") {
  const std::array<float, 2> values{1, 2};
  Tensor t = Tensor::view(values.data(), {2}, DType::f32, "CPU:0");
  CHECK(t.is_read_only());
  CHECK(t.slice(0, 1).is_read_only());
  CHECK(t.reshape({2, 1}).is_read_only());
  CHECK((t + t).to_vector<float>() == std::vector<float>{2, 4});
  CHECK_FALSE(t.clone().is_read_only());
  const Tensor one = Tensor::ones({2});
  CHECK_THROWS_MATCHES(t.add_(one), InvalidArgument, says("add_", "[2] float32 on CPU:0", "constant"));
  CHECK_THROWS_MATCHES(t.mul_(2), InvalidArgument, says("mul_", "constant"));
  CHECK_THROWS_MATCHES(t.copy_(one), InvalidArgument, says("copy_", "constant"));
  CHECK_THROWS_MATCHES(t.fill_(0), InvalidArgument, says("fill_", "constant"));
  CHECK_THROWS_MATCHES(t.data(), InvalidArgument, says("data", "constant"));
  CHECK(values == std::array<float, 2>{1, 2});
}

TEST_CASE("elements that share an address are not written", "[tensor]") {
  std::array<float, 4> values{1, 2, 3, 4};
  Tensor repeated = Tensor::view(values.data(), {3, 2}, DType::f32, "CPU:0", {0, 1});
  Tensor window = Tensor::view(values.data(), {3, 2}, DType::f32, "CPU:0", {1, 1});
  CHECK_THROWS_MATCHES(repeated.fill_(0), InvalidArgument,
                       says("fill_", "[3, 2] float32", "share addresses"));
  CHECK_THROWS_MATCHES(window.add_(1), InvalidArgument, says("add_", "[3, 2] float32", "share addresses"));
  CHECK(window.to_vector<float>() == std::vector<float>{1, 2, 2, 3, 3, 4});
  Tensor one_row = Tensor::view(values.data(), {1, 2}, DType::f32, "CPU:0", {0, 1});
  CHECK(one_row.fill_(9).to_vector<float>() == std::vector<float>{9, 9});
}

TEST_CASE("views check what they are given", "[tensor]") {
  float value = 0;
  void* const nothing = nullptr;
  CHECK_THROWS_MATCHES(Tensor::view(nothing, {2}, DType::f32, "CPU:0"), InvalidArgument,
                       says("null pointer", "[2] float32"));
  CHECK(Tensor::view(nothing, {0, 2}, DType::f32, "CPU:0").to_vector<float>().empty());
  CHECK_THROWS_MATCHES(Tensor::view(&value, {1, 1}, DType::f32, "CPU:0", {1}), InvalidArgument,
                       says("1 strides", "[1, 1]", "rank 2"));
  CHECK_THROWS_MATCHES(Tensor::view(&value, {1}, DType::f32, "CPU:0", {-1}), InvalidArgument,
                       says("stride -1", "axis 0", "negative"));
  CHECK_THROWS_MATCHES(Tensor::view(&value, {1}, DType::f32, "GPU:4000"), NotFound, says("GPU:4000"));
}

TEST_CASE("an empty or moved-from Tensor says so", "[tensor]") {
  Tensor t = Tensor::zeros({1});
  const Tensor taken = std::move(t);
  CHECK(taken.defined());
  for (Tensor* empty : {&t}) {
    CHECK_FALSE(empty->defined());
    CHECK_THROWS_MATCHES(empty->shape(), ContextError, says("Tensor", "moved from"));
    CHECK_THROWS_MATCHES(empty->device(), ContextError, says("Tensor"));
    CHECK_THROWS_MATCHES(empty->view(), ContextError, says("Tensor"));
    CHECK_THROWS_MATCHES(empty->clone(), ContextError, says("Tensor"));
    CHECK_THROWS_MATCHES(empty->to("CPU:0"), ContextError, says("Tensor"));
    CHECK_THROWS_MATCHES(empty->item<float>(), ContextError, says("Tensor"));
    CHECK_THROWS_MATCHES(empty->fill_(1), ContextError, says("Tensor"));
    CHECK_THROWS_MATCHES(*empty + taken, ContextError, says("Tensor"));
    CHECK_THROWS_MATCHES(taken + *empty, ContextError, says("Tensor"));
    CHECK(describe(*empty) == "an empty Tensor");
    CHECK_FALSE(empty->is_same_object(taken));
    CHECK_FALSE(taken.is_same_object(*empty));
  }
  CHECK_THROWS_MATCHES(Tensor().dtype(), ContextError, says("Tensor", "default-constructed"));
  t = taken;
  CHECK(t.item<float>() == 0);
}

TEST_CASE("copies of a Tensor share its elements, clones have their own", "[tensor]") {
  const Tensor original = Tensor::zeros({2});
  Tensor shared = original;
  Tensor copy = original.clone();
  shared.fill_(1);
  CHECK(original.to_vector<float>() == std::vector<float>{1, 1});
  copy.fill_(2);
  CHECK(original.to_vector<float>() == std::vector<float>{1, 1});
  CHECK(original.is_same_object(shared));
  CHECK_FALSE(original.is_same_object(copy));
}

TEST_CASE("is_same_object compares storage, offset, shape, strides and dtype", "[tensor]") {
  const Tensor t = Tensor::zeros({4, 2});
  CHECK(t.slice(1, 3).is_same_object(t.slice(1, 3)));
  CHECK_FALSE(t.slice(1, 3).is_same_object(t.slice(0, 2)));
  CHECK_FALSE(t.slice(0, 2).is_same_object(t));
  CHECK_FALSE(t.reshape({2, 4}).is_same_object(t));
  CHECK(t.reshape({4, 2}).is_same_object(t));
  CHECK_FALSE(Tensor::empty({0}).is_same_object(Tensor::empty({0})));
  const Tensor square = Tensor::zeros({2, 2});
  float* const data = static_cast<float*>(square.data());
  CHECK_FALSE(Tensor::view(data, {2, 2}, DType::f32, "CPU:0").is_same_object(square));
}

TEST_CASE("slice takes rows as a view", "[tensor]") {
  const Tensor t = Tensor::arange(12).reshape({4, 3});
  Tensor middle = t.slice(1, 3);
  CHECK(middle.shape() == Shape(2, 3));
  CHECK(middle.is_contiguous());
  CHECK(middle.to_vector<std::int32_t>() == Ints{3, 4, 5, 6, 7, 8});
  middle.fill_(0);
  CHECK(t.to_vector<std::int32_t>() == Ints{0, 1, 2, 0, 0, 0, 0, 0, 0, 9, 10, 11});
  CHECK(t.slice(4, 4).shape() == Shape(0, 3));
  CHECK(Tensor::zeros({3, 0}).slice(1, 3).shape() == Shape(2, 0));
  CHECK_THROWS_MATCHES(t.slice(2, 5), InvalidArgument, says("[2, 5)", "axis 0", "[4, 3] int32", "<= 4"));
  CHECK_THROWS_MATCHES(t.slice(-1, 2), InvalidArgument, says("[-1, 2)", "[4, 3] int32"));
  CHECK_THROWS_MATCHES(t.slice(3, 2), InvalidArgument, says("[3, 2)", "[4, 3] int32"));
  CHECK_THROWS_MATCHES(Tensor::scalar(1).slice(0, 1), InvalidArgument, says("slice", "rank 0"));
}

TEST_CASE("narrow takes indices of any axis as a view", "[tensor]") {
  const Tensor t = Tensor::arange(12).reshape({4, 3});
  Tensor column = t.narrow(1, 1, 2);
  CHECK(column.shape() == Shape(4, 1));
  CHECK_FALSE(column.is_contiguous());
  CHECK(column.to_vector<std::int32_t>() == Ints{1, 4, 7, 10});
  CHECK(t.narrow(-1, 0, 2).to_vector<std::int32_t>() == Ints{0, 1, 3, 4, 6, 7, 9, 10});
  CHECK(column.slice(1, 3).to_vector<std::int32_t>() == Ints{4, 7});
  column.fill_(0);
  CHECK(t.to_vector<std::int32_t>() == Ints{0, 0, 2, 3, 0, 5, 6, 0, 8, 9, 0, 11});
  CHECK_THROWS_MATCHES(t.narrow(2, 0, 1), InvalidArgument, says("axis 2", "rank 2"));
  CHECK_THROWS_MATCHES(t.narrow(1, 0, 4), InvalidArgument, says("[0, 4)", "axis 1", "<= 3"));
}

TEST_CASE("reshape keeps the elements, as a view where they are contiguous", "[tensor]") {
  const Tensor t = Tensor::arange(6);
  Tensor matrix = t.reshape({2, 3});
  matrix.fill_(1);
  CHECK(t.to_vector<std::int32_t>() == Ints(6, 1));
  const Tensor grid = Tensor::arange(6).reshape({2, 3});
  Tensor flat = grid.narrow(1, 0, 2).reshape({4});
  CHECK(flat.to_vector<std::int32_t>() == Ints{0, 1, 3, 4});
  flat.fill_(9);
  CHECK(grid.to_vector<std::int32_t>() == Ints{0, 1, 2, 3, 4, 5});
  CHECK(Tensor::scalar(3).reshape({1, 1}).shape() == Shape(1, 1));
  CHECK_THROWS_MATCHES(t.reshape({4}), InvalidArgument,
                       says("reshape", "[6] int32", "6 elements", "[4] has 4"));
}

TEST_CASE("views keep the storage alive", "[tensor]") {
  const std::int64_t before = memory_stats("CPU:6").in_use_bytes;
  Tensor row;
  {
    const Tensor t = Tensor::arange(1000, DType::i32, "CPU:6").reshape({10, 100});
    row = t.slice(9, 10);
  }
  CHECK(memory_stats("CPU:6").in_use_bytes > before);
  CHECK(row.to_vector<std::int32_t>().back() == 999);
  row = Tensor();
  CHECK(memory_stats("CPU:6").in_use_bytes == before);
}

TEST_CASE("a tensor knows the stream that frees it, if there is one", "[tensor]") {
  const Stream own("CPU:1"), other("CPU:1");
  Tensor memory, none;
  {
    const StreamScope scope(own);
    memory = Tensor::zeros({2}, DType::f32, "CPU:1");
    none = Tensor::zeros({0}, DType::f32, "CPU:1");
  }
  CHECK(memory.stream() == own);
  CHECK(memory.slice(0, 1).stream() == own);
  memory.set_stream(other);
  none.set_stream(other);
  CHECK(memory.stream() == other);
  CHECK(none.stream() == other);

  Tensor view = Tensor::view(memory.view().data, {2}, DType::f32, "CPU:1");
  CHECK(view.stream() == std::nullopt);
  view.set_stream(other);
  CHECK(view.stream() == std::nullopt);
}

TEST_CASE("P40 a tensor in a static variable lets the program end", "[tensor]") {
  static const Tensor tensor = Tensor::ones({1000});
  static const Stream stream("CPU:0");
  CHECK(tensor.size() == 1000);  // the rest is the exit status of this program
}

TEST_CASE("describe names shape, dtype and device", "[tensor]") {
  CHECK(describe(Tensor::zeros({128, 64}, DType::f32, "CPU:3")) == "[128, 64] float32 on CPU:3");
  CHECK(describe(Tensor::scalar(true)) == "[] bool on CPU:0");
}

TEST_CASE("the host cannot address a device's tensor", "[tensor]") {
  LazyDevice device;
  const StreamScope scope(default_stream(device));
  const Tensor t = Tensor::zeros({2}, DType::f32, "GPU:0");
  CHECK_THROWS_MATCHES(t.data(), InvalidArgument, says("data", "[2] float32 on GPU:0", "host"));
  CHECK(t.view().data != nullptr);
}

TEST_CASE("threads may read one tensor together", "[tensor]") {
  const Tensor t = Tensor::arange(1000);
  std::array<std::int64_t, 4> sums{};
  {
    std::vector<std::jthread> threads;
    for (std::int64_t& sum : sums) {
      threads.emplace_back([&sum, &t] {
        const Tensor mine = t.slice(0, 1000) + t.narrow(0, 0, 1000);
        for (const std::int32_t value : mine.to_vector<std::int32_t>()) sum += value;
      });
    }
  }
  for (const std::int64_t sum : sums) CHECK(sum == 2 * test::triangular(1000));
}

TEST_CASE("an error names the call that was made, not one beneath it", "[tensor]") {
  const Tensor t = Tensor::ones({2});
  const auto operation = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const InvalidArgument& error) {
      return error.context().operation;
    }
    return std::string("no error");
  };
  CHECK(operation([] { static_cast<void>(Tensor::full({2}, 300, DType::u8)); }) == "Tensor::full");
  CHECK(operation([] { Tensor::zeros({2}, DType::u8).fill_(300); }) == "fill_");
  CHECK(operation([&] { static_cast<void>(t.slice(0, 5)); }) == "Tensor::slice");
  CHECK(operation([&] { static_cast<void>(t.narrow(0, 0, 5)); }) == "Tensor::narrow");
  CHECK(operation([&] { static_cast<void>(t.slice(0, 1).item<double>()); }) == "Tensor::item");
  CHECK(operation([&] { static_cast<void>(t.to_vector<double>()); }) == "Tensor::to_vector");
  CHECK(operation([&] { static_cast<void>(sum(t, 4)); }) == "sum");
  CHECK(operation([&] { static_cast<void>(mean(t, 4)); }) == "mean");
  CHECK(operation([&] { static_cast<void>(max(t, 4)); }) == "max");
  CHECK(operation([&] { static_cast<void>(min(t, 4)); }) == "min");
  CHECK(operation([&] { static_cast<void>(product(t, 4)); }) == "product");
  CHECK(operation([&] { static_cast<void>(reduce_axes(ReduceOp::sum, t, 4, DType::f32)); }) == "reduce_axes");
}
