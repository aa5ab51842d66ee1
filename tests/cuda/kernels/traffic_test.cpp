// What kernels move and how they move it, counted on a virtual GPU. A limit that is not near 1 is what the
// kernel does today: lower it when the kernel is better.
#include "cuda/kernels/traffic.hpp"

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/collectives/communicator.hpp>

#include "support/operands.hpp"

namespace lockstep::test {
namespace {

constexpr int kRanks = 4;
constexpr std::int64_t kSize = std::int64_t{1} << 16;

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// One operand for each of the virtual devices.
std::vector<Operand> on_all_ranks(DType dtype, std::int64_t count, std::int64_t offset_bytes) {
  std::vector<Operand> operands;
  for (int rank = 0; rank < kRanks; ++rank) operands.emplace_back(dtype, Shape(count), offset_bytes, rank);
  return operands;
}

std::vector<StreamRef> streams() {
  std::vector<StreamRef> streams;
  for (const Device& device : TestBackend::devices(kRanks)) streams.push_back(current_stream(device));
  return streams;
}

std::vector<TensorView> both(std::vector<TensorView> a, const std::vector<TensorView>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// An array of `count` elements that begins `offset_bytes` after a boundary.
struct Case {
  DType dtype;
  std::int64_t count, offset_bytes;
};

}  // namespace

TEST_CASE("combining virtual devices' values moves each sector once", "[traffic]") {
  Communicator communicator = Communicator::create(TestBackend::devices(kRanks));
  for (const auto& [dtype, count, offset_bytes] : std::vector<Case>{
           {DType::f32, kSize, 0},
           {DType::f32, kSize + 3, 0},
           {DType::f32, 1, 0},
           {DType::f32, 100, 4},
           {DType::f32, kSize, 4},
           {DType::f32, kSize, 1},
           {DType::f64, kSize / 2, 0},
           {DType::f64, kSize / 2, 8},
           {DType::bf16, 2 * kSize, 0},
           {DType::bf16, 2 * kSize + 1, 2},
           {DType::f8e4m3, 4 * kSize, 0},
           {DType::f8e4m3, 4 * kSize, 1},
       }) {
    const auto inputs = on_all_ranks(dtype, count, offset_bytes),
               outputs = on_all_ranks(dtype, count, offset_bytes);
    check_work(text("all_reduce of ", count, " ", dtype, " + ", offset_bytes, " bytes"),
               both(views_of(inputs), views_of(outputs)), [&] {
                 communicator.all_reduce(ReduceOp::sum, views_of(inputs), views_of(outputs), streams());
               });
  }
}

TEST_CASE("combining values at addresses that disagree moves each sector once", "[traffic]") {
  Communicator communicator = Communicator::create(TestBackend::devices(kRanks));
  std::vector<Operand> operands;
  for (int rank = 0; rank < kRanks; ++rank) operands.emplace_back(DType::f32, Shape(kSize), 4 * rank, rank);
  const auto outputs = on_all_ranks(DType::f32, kSize, 8);
  check_work(
      text("all_reduce of ", kSize, " float32 at any addresses"), both(views_of(operands), views_of(outputs)),
      [&] { communicator.all_reduce(ReduceOp::sum, views_of(operands), views_of(outputs), streams()); });
}

TEST_CASE("copying to all virtual devices moves each sector once", "[traffic]") {
  Communicator communicator = Communicator::create(TestBackend::devices(kRanks));
  for (const auto& [dtype, count, offset_bytes] : std::vector<Case>{
           {DType::f32, kSize, 0},
           {DType::f32, kSize + 1, 0},
           {DType::u8, 4 * kSize + 1, 0},
           {DType::u8, 3, 0},
           {DType::f32, kSize, 4},
           {DType::u8, 4 * kSize, 1},
       }) {
    const Operand input(dtype, Shape(count), offset_bytes);
    const auto outputs = on_all_ranks(dtype, count, offset_bytes);
    check_work(text("broadcast of ", count, " ", dtype, " + ", offset_bytes, " bytes"),
               both({input.view()}, views_of(outputs)),
               [&] { communicator.broadcast(input.view(), views_of(outputs), 0, streams()); });
  }
  const Operand source(DType::f32, Shape(kSize));
  std::vector<Operand> anywhere;
  for (int rank = 0; rank < kRanks; ++rank) anywhere.emplace_back(DType::f32, Shape(kSize), 4 * rank, rank);
  check_work(text("broadcast of ", kSize, " float32 to any addresses"),
             both({source.view()}, views_of(anywhere)),
             [&] { communicator.broadcast(source.view(), views_of(anywhere), 0, streams()); });
  // A part's place in the output is a multiple of its size.
  for (const auto& [dtype, count, offset_bytes] : std::vector<Case>{
           {DType::f32, kSize / 4, 0},
           {DType::f32, kSize / 4 + 1, 0},
           {DType::u8, kSize + 1, 0},
           {DType::f32, kSize / 4, 4},
       }) {
    const auto inputs = on_all_ranks(dtype, count, offset_bytes),
               outputs = on_all_ranks(dtype, kRanks * count, offset_bytes);
    check_work(text("all_gather of ", count, " ", dtype, " + ", offset_bytes, " bytes"),
               both(views_of(inputs), views_of(outputs)),
               [&] { communicator.all_gather(views_of(inputs), views_of(outputs), streams()); });
  }
}

TEST_CASE("axis reductions move each sector once", "[traffic]") {
  struct Reduction {
    DType dtype;
    backend::AxisExtents extents;
    std::int64_t offset_bytes = 0;
    double divisor = 1;
  };
  const auto stream = test_stream().handle();
  for (const auto& [dtype, extents, offset_bytes, divisor] : std::vector<Reduction>{
           {DType::f32, {1, 16 * kSize, 1}},
           {DType::f32, {1024, 1024, 1}},
           {DType::f32, {256, 1001, 1}},
           {DType::f32, {kSize, 4, 1}},
           {DType::f32, {kSize, 3, 1}},
           {DType::f32, {64, 64, 64}},
           {DType::f32, {1, 1024, 1024}},
           {DType::f32, {1, 4096, 63}},
           {DType::f32, {4096, 64, 3}},
           {DType::bf16, {256, 1024, 1}},
           {DType::bf16, {64, 64, 64}},
           {DType::u8, {64, 64, 256}},
           {DType::f32, {1, 16 * kSize + 1, 1}, 4},
           {DType::f32, {2048, 257, 1}},
           {DType::f32, {kSize, 10, 1}},
           {DType::bf16, {256, 1001, 1}},
           {DType::u8, {256, 3001, 1}, 1},
           {DType::f32, {4096, 8, 4}},
           {DType::f32, {16, 511, 63}},
           {DType::f32, {8, 64, 1001}},
           {DType::f32, {64, 8, 1024}, 0, 8},
           {DType::bf16, {64, 64, 64}, 0, 64},
       }) {
    const auto [outer, axis, inner] = extents;
    const Operand in(dtype, Shape(outer, axis, inner), offset_bytes), out(dtype, Shape(outer, inner));
    const std::string place = offset_bytes == 0 ? "" : text(" + ", offset_bytes, " bytes");
    check_work(text(divisor == 1 ? "sum" : "mean", " of ", dtype, " ", in.view().shape, place),
               {in.view(), out.view()}, [&, extents = extents, divisor = divisor] {
                 test_kernels().reduce_axis(ReduceOp::sum, out.view(), in.view(), extents, divisor, stream);
               });
  }
}

TEST_CASE("elementwise work moves each sector once", "[traffic]") {
  const auto stream = test_stream().handle();
  auto& kernels = test_kernels();
  for (const auto& [dtype, count, offset_bytes] : std::vector<Case>{
           {DType::f32, 4 * kSize, 0},
           {DType::f32, 4 * kSize + 3, 0},
           {DType::f32, 4 * kSize, 4},
           {DType::bf16, 8 * kSize, 0},
           {DType::bf16, 8 * kSize, 2},
       }) {
    const Shape shape(count);
    const Operand a(dtype, shape, offset_bytes), b(dtype, shape, offset_bytes),
        out(dtype, shape, offset_bytes);
    const Operand flags(DType::boolean, shape, offset_bytes);
    const std::string operands = text(" of ", count, " ", dtype, " + ", offset_bytes, " bytes");
    check_work("add" + operands, {a.view(), b.view(), out.view()},
               [&] { kernels.binary(backend::BinaryOp::add, out.view(), a.view(), b.view(), stream); });
    check_work("negate" + operands, {a.view(), out.view()},
               [&] { kernels.unary(backend::UnaryOp::negate, out.view(), a.view(), stream); });
    check_work("divide" + operands, {a.view(), out.view()},
               [&] { kernels.divide(out.view(), a.view(), 3, stream); });
    check_work("fill" + operands, {out.view()}, [&] { kernels.fill(out.view(), 1.0, stream); });
    check_work("equal" + operands, {a.view(), b.view(), flags.view()},
               [&] { kernels.binary(backend::BinaryOp::equal, flags.view(), a.view(), b.view(), stream); });
  }
  for (const Shape& shape : {Shape(256, 1024), Shape(256, 1001), Shape(4096, 1001), Shape(4096, 10)}) {
    const Operand a(DType::f32, shape), row(DType::f32, Shape(shape[1])), out(DType::f32, shape);
    check_work(text("add_row of ", shape), {a.view(), row.view(), out.view()},
               [&] { kernels.add_row(out.view(), a.view(), row.view(), stream); });
  }
}

TEST_CASE("optimizers move each sector once", "[traffic]") {
  const auto stream = test_stream().handle();
  auto& kernels = test_kernels();
  const backend::UpdateParameters parameters{
      .learning_rate = 0.1, .momentum = 0.9, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-7};
  for (const auto& [dtype, count, offset_bytes] : std::vector<Case>{
           {DType::f32, kSize, 0},
           {DType::f32, kSize + 3, 0},
           {DType::f32, kSize, 4},
           {DType::bf16, 2 * kSize, 0},
       }) {
    const Shape shape(count);
    const Operand variable(dtype, shape, offset_bytes), gradient(dtype, shape, offset_bytes),
        first(dtype, shape, offset_bytes), second(dtype, shape, offset_bytes);
    const TensorView w = variable.view(), g = gradient.view(), m = first.view(), v = second.view();
    const std::string operands = text(" of ", count, " ", dtype, " + ", offset_bytes, " bytes");
    check_work("SGD" + operands, {w, w, g},
               [&] { kernels.sgd_update(w, TensorView(), g, parameters, stream); });
    check_work("momentum" + operands, {w, w, m, m, g},
               [&] { kernels.sgd_update(w, m, g, parameters, stream); });
    check_work("Adam" + operands, {w, w, m, m, v, v, g},
               [&] { kernels.adam_update(w, m, v, g, parameters, stream); });
  }
}

TEST_CASE("argmax and softmax move each sector once", "[traffic]") {
  struct Matrix {
    std::int64_t rows, columns;
  };
  const auto stream = test_stream().handle();
  auto& kernels = test_kernels();
  for (const auto& [rows, columns] :
       std::vector<Matrix>{{128, 1024}, {128, 1001}, {4096, 10}, {1, kSize}, {1, 16 * kSize}}) {
    const Operand in(DType::f32, Shape(rows, columns)), out(DType::i64, Shape(rows));
    check_work(text("argmax of the rows of [", rows, ", ", columns, "]"), {in.view(), out.view()},
               [&, extents = backend::AxisExtents{rows, columns, 1}] {
                 kernels.argmax(out.view(), in.view(), extents, stream);
               });
  }
  for (const auto& [rows, columns] :
       std::vector<Matrix>{{1024, 128}, {16384, 10}, {kSize, 10}, {256, 1001}}) {
    const Operand in(DType::f32, Shape(rows, columns)), out(DType::i64, Shape(columns));
    check_work(text("argmax of the columns of [", rows, ", ", columns, "]"), {in.view(), out.view()},
               [&, extents = backend::AxisExtents{1, rows, columns}] {
                 kernels.argmax(out.view(), in.view(), extents, stream);
               });
  }
  for (const auto& [rows, columns] : std::vector<Matrix>{
           {128, 1024}, {128, 1001}, {4096, 10}, {16, 4096}, {16, 5000}, {4, 50257}, {2, 100000}}) {
    const Operand logits(DType::f32, Shape(rows, columns)), gradient(DType::f32, Shape(rows, columns)),
        loss(DType::f32, Shape(rows)), labels(DType::i64, Shape(rows));
    check_work(text("softmax_cross_entropy of [", rows, ", ", columns, "]"),
               {logits.view(), gradient.view(), loss.view(), labels.view()}, [&] {
                 kernels.softmax_cross_entropy(loss.view(), gradient.view(), logits.view(), labels.view(),
                                               stream);
               });
    const Operand is_in(DType::boolean, Shape(rows));
    check_work(text("in_top_k of [", rows, ", ", columns, "]"), {logits.view(), labels.view(), is_in.view()},
               [&] { kernels.in_top_k(is_in.view(), logits.view(), labels.view(), 5, stream); });
  }
}

TEST_CASE("copies between layouts and types move each sector once", "[traffic]") {
  const auto stream = test_stream().handle();
  auto& kernels = test_kernels();
  const Shape square(256, 256);
  struct Copy {
    const char* what;
    DType from, to;
  };
  for (const auto& [what, from, to] : std::vector<Copy>{
           {"transpose", DType::f32, DType::f32},
           {"transpose", DType::bf16, DType::bf16},
           {"half of each row", DType::f32, DType::f32},
           {"half of each row", DType::u8, DType::u8},
           {"every other element", DType::f32, DType::f32},
           {"every other element", DType::u8, DType::u8},
           {"convert", DType::f32, DType::bf16},
           {"convert", DType::f32, DType::f8e4m3},
           {"convert", DType::i32, DType::f32},
           {"convert", DType::u8, DType::f32},
           {"convert", DType::i64, DType::f32},
           {"half of each row", DType::f32, DType::bf16},
       }) {
    const std::string name = what;
    const Operand whole(from, square), result(to, square);
    TensorView in = whole.view(), out = result.view();
    if (name == "transpose") {
      std::swap(in.strides[0], in.strides[1]);
    } else if (name != "convert") {
      in.shape = Shape(256, 128);
      if (name == "every other element") in.strides[1] = 2;
      out = TensorView(out.data, in.shape, to, out.device);
    }
    check_work(text(what, " of ", from, " to ", to), {in, out}, [&] { kernels.copy(out, in, stream); });
  }
}

}  // namespace lockstep::test
