#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>
#include <lockstep/update_ops.hpp>

#include "support/communicator_group.hpp"
#include "support/dtypes.hpp"
#include "support/operands.hpp"

/// Work on many tensors at once gives what one by one gives. There are more tensors than one launch takes.
namespace lockstep::test {
namespace {

constexpr int kMany = 135;

/// Empty, odd, and beyond what a block goes through.
std::int64_t size_of_tensor(int k) {
  constexpr std::int64_t kSizes[] = {1, 3, 64, 0, 129, 17, 4099, 31, 1025};
  return kSizes[k % 9];
}

int value_at(int k, int rank, std::int64_t i) { return static_cast<int>((i + 3 * rank + k) % 4); }

/// Some tensors on every rank: inputs, and outputs of another length.
template <class T>
struct Batch {
  /// @param offset_bytes  of every second tensor.
  Batch(const CommunicatorGroup& group, int num_tensors, std::int64_t num_inputs, std::int64_t num_outputs,
        std::size_t offset_bytes) {
    for (int k = 0; k < num_tensors; ++k) {
      std::vector<std::vector<T>> given, blank;
      for (int rank = 0; rank < group.size(); ++rank) {
        given.push_back(elements<T>(num_inputs * size_of_tensor(k),
                                    [&](std::int64_t i) { return value_at(k, rank, i); }));
        blank.push_back(elements<T>(num_outputs * size_of_tensor(k), [](std::int64_t) { return 7; }));
      }
      const std::size_t offset = k % 2 == 0 ? 0 : offset_bytes;
      inputs.emplace_back(group, given, offset);
      outputs.emplace_back(group, blank, offset);
    }
  }

  void add_to(std::vector<RankViews>& views) const {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const auto in = inputs[k].views(), out = outputs[k].views();
      for (std::size_t rank = 0; rank < views.size(); ++rank) {
        views[rank].inputs.push_back(in[rank]);
        views[rank].outputs.push_back(out[rank]);
      }
    }
  }

  /// How many elements of outputs are not `expected(k, rank, i)`, or have written beside them.
  template <class F>
  int num_wrong(int num_ranks, const F& expected) const {
    int wrong = 0;
    for (int k = 0; k < static_cast<int>(outputs.size()); ++k) {
      for (int rank = 0; rank < num_ranks; ++rank) {
        const auto& output = outputs[static_cast<std::size_t>(k)][rank];
        const std::vector<T> values = output.values();
        for (std::size_t i = 0; i < values.size(); ++i)
          wrong += values[i] != static_cast<T>(expected(k, rank, static_cast<std::int64_t>(i)));
        wrong += !output.guards_intact();
      }
    }
    return wrong;
  }

  std::deque<RankBuffers<T>> inputs, outputs;
};

float reduced(ReduceOp op, int k, int num_ranks, std::int64_t i) {
  float result = op == ReduceOp::product ? 1.0f : op == ReduceOp::min ? 9.0f : 0.0f;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto value = static_cast<float>(value_at(k, rank, i));
    if (op == ReduceOp::min)
      result = std::min(result, value);
    else if (op == ReduceOp::max)
      result = std::max(result, value);
    else
      result = op == ReduceOp::product ? result * value : result + value;
  }
  return op == ReduceOp::mean ? result / static_cast<float>(num_ranks) : result;
}

}  // namespace

TEST_CASE("many tensors of several dtypes are reduced as one batch", "[communicator][many]") {
  const int n = GENERATE(1, 2, 3, 4);
  const ReduceOp op =
      GENERATE(ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max, ReduceOp::product);
  const Drive drive = n % 2 == 0 ? Drive::one_thread : Drive::thread_per_replica;
  CommunicatorGroup group(n);
  const Batch<float> floats(group, kMany, 1, 1, 4);
  const Batch<f16> halves(group, 8, 1, 1, 2);
  const Batch<bf16> brains(group, 8, 1, 1, 2);
  const Batch<double> doubles(group, 8, 1, 1, 8);
  const Batch<std::int16_t> shorts(group, op == ReduceOp::mean ? 0 : 8, 1, 1, 2);
  std::vector<RankViews> views(static_cast<std::size_t>(n));
  floats.add_to(views);
  halves.add_to(views);
  brains.add_to(views);
  doubles.add_to(views);
  shorts.add_to(views);
  group.run(drive, views,
            [&](std::span<const RankBatch> batches) { group.communicator().all_reduce(op, batches); });
  const auto expected = [&](int k, int, std::int64_t i) { return reduced(op, k, n, i); };
  CAPTURE(n, op);
  CHECK(floats.num_wrong(n, expected) == 0);
  CHECK(halves.num_wrong(n, expected) == 0);
  CHECK(brains.num_wrong(n, expected) == 0);
  CHECK(shorts.num_wrong(n, expected) == 0);
  CHECK(doubles.num_wrong(n, [&](int k, int, std::int64_t i) {
    return op == ReduceOp::mean ? static_cast<double>(reduced(ReduceOp::sum, k, n, i)) / n
                                : static_cast<double>(reduced(op, k, n, i));
  }) == 0);
}

TEST_CASE("many tensors are reduced in place and to a root as one batch", "[communicator][many]") {
  const int n = GENERATE(2, 3);
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::mean, ReduceOp::max);
  CommunicatorGroup group(n);
  const Batch<float> in_place(group, kMany, 1, 1, 4), to_root(group, kMany, 1, 1, 4);
  std::vector<RankViews> views(static_cast<std::size_t>(n)), root_views(static_cast<std::size_t>(n));
  in_place.add_to(views);
  for (RankViews& one : views) one.inputs = one.outputs;
  to_root.add_to(root_views);
  for (std::size_t rank = 0; rank + 1 < root_views.size(); ++rank) root_views[rank].outputs.clear();
  group.run(Drive::one_thread, views,
            [&](std::span<const RankBatch> batches) { group.communicator().all_reduce(op, batches); });
  group.run(Drive::thread_per_replica, root_views,
            [&](std::span<const RankBatch> batches) { group.communicator().reduce(op, n - 1, batches); });
  CAPTURE(n, op);
  CHECK(in_place.num_wrong(n, [&](int, int, std::int64_t) { return op == ReduceOp::sum ? 7 * n : 7; }) == 0);
  CHECK(to_root.num_wrong(n, [&](int k, int rank, std::int64_t i) {
    return rank == n - 1 ? reduced(op, k, n, i) : 7.0f;
  }) == 0);
}

TEST_CASE("many tensors are exchanged as one batch", "[communicator][many]") {
  const int n = GENERATE(1, 2, 3, 4);
  const std::size_t offset_bytes = GENERATE(1, 4);
  CommunicatorGroup group(n);
  const auto run = [&](std::int64_t num_inputs, std::int64_t num_outputs, const auto& call,
                       const auto& expected) {
    const Batch<std::uint8_t> bytes(group, kMany, num_inputs, num_outputs, offset_bytes);
    std::vector<RankViews> views(static_cast<std::size_t>(n));
    bytes.add_to(views);
    group.run(Drive::one_thread, views, call);
    CHECK(bytes.num_wrong(n, expected) == 0);
  };
  CAPTURE(n, offset_bytes);
  Communicator& communicator = group.communicator();
  run(
      1, n, [&](std::span<const RankBatch> batches) { communicator.all_gather(batches); },
      [](int k, int, std::int64_t i) {
        return value_at(k, static_cast<int>(i / size_of_tensor(k)), i % size_of_tensor(k));
      });
  run(
      n, n, [&](std::span<const RankBatch> batches) { communicator.all_to_all(batches); },
      [](int k, int rank, std::int64_t i) {
        const std::int64_t size = size_of_tensor(k);
        return value_at(k, static_cast<int>(i / size), rank * size + i % size);
      });
  run(
      n, 1, [&](std::span<const RankBatch> batches) { communicator.reduce_scatter(ReduceOp::max, batches); },
      [&](int k, int rank, std::int64_t i) {
        return reduced(ReduceOp::max, k, n, rank * size_of_tensor(k) + i);
      });
}

TEMPLATE_LIST_TEST_CASE("updates of many variables have the bits of single ones", "[model_kernels][many]",
                        FloatingTypes) {
  using T = TestType;
  struct Variables {
    Variables() {
      for (int k = 0; k < kMany; ++k) {
        const auto made = [&](int seed) {
          return operand<T>(elements<T>(size_of_tensor(k) + 1,
                                        [&](std::int64_t i) {
                                          return static_cast<float>((i * 7 + k * 3 + seed) % 13) / 8.0f;
                                        }),
                            k % 2 == 0 ? 0 : kOddOffset<T>);
        };
        variables.push_back(made(0));
        gradients.push_back(made(5));
        firsts.push_back(made(1));
        seconds.push_back(made(2));
      }
    }
    backend::UpdateTensors at(std::size_t k, int num_slots) const {
      return {variables[k].view(), gradients[k].view(), num_slots > 0 ? firsts[k].view() : TensorView(),
              num_slots > 1 ? seconds[k].view() : TensorView()};
    }
    std::deque<GuardedBuffer<T>> variables, gradients, firsts, seconds;
  };
  const Variables together, single;
  const backend::UpdateParameters parameters{.learning_rate = 0.3,
                                             .momentum = 0.9,
                                             .nesterov = true,
                                             .weight_decay = 0.1,
                                             .beta1 = 0.9,
                                             .beta2 = 0.99,
                                             .epsilon = 1e-3,
                                             .step = 3};
  const auto stream = test_stream().handle();
  const auto list_of = [&](int num_slots) {
    std::vector<backend::UpdateTensors> list;
    for (std::size_t k = 0; k < kMany; ++k) list.push_back(together.at(k, num_slots));
    return list;
  };
  test_kernels().sgd_updates(list_of(0), parameters, stream);
  test_kernels().sgd_updates(list_of(1), parameters, stream);
  test_kernels().adam_updates(list_of(2), parameters, stream);
  for (std::size_t k = 0; k < kMany; ++k) {
    const auto [variable, gradient, first, second] = single.at(k, 2);
    test_kernels().sgd_update(variable, TensorView(), gradient, parameters, stream);
    test_kernels().sgd_update(variable, first, gradient, parameters, stream);
    test_kernels().adam_update(variable, first, second, gradient, parameters, stream);
  }
  int wrong = 0;
  for (std::size_t k = 0; k < kMany; ++k) {
    wrong += !same(together.variables[k].values(), single.variables[k].values());
    wrong += !same(together.firsts[k].values(), single.firsts[k].values());
    wrong += !same(together.seconds[k].values(), single.seconds[k].values());
    wrong += !together.variables[k].guards_intact() + !together.firsts[k].guards_intact();
  }
  CHECK(wrong == 0);
}

TEST_CASE("an optimizer gives many variables the bits of single updates", "[optimizer][many]") {
  const Device device = TestBackend::device(0);
  OneDeviceStrategy strategy(device);
  std::vector<Variable> variables;
  std::vector<Tensor> values, gradients, moments[2];
  for (int k = 0; k < kMany; ++k) {
    // The dtypes are mixed, and the gradient of some is a view.
    const DType dtype = k % 3 == 0 ? DType::f64 : DType::f32;
    const Shape shape(size_of_tensor(k) + 1);
    Tensor value = Tensor::full(shape, 0.5 + k, dtype, device);
    values.push_back(value.clone());
    variables.push_back(strategy.make_variable(value));
    gradients.push_back(Tensor::full(shape, 0.25 * k, dtype, device));
    for (auto& moment : moments) moment.push_back(Tensor::zeros(shape, dtype, device));
  }
  optim::Adam adam({.learning_rate = 0.1});
  for (std::int64_t step = 1; step <= 2; ++step) {
    std::vector<optim::GradientAndVariable> list;
    for (std::size_t k = 0; k < kMany; ++k) {
      list.push_back({gradients[k], variables[k]});
      adam_update_(values[k], gradients[k], moments[0][k], moments[1][k], step, {.learning_rate = 0.1});
    }
    adam.apply_gradients(list);
  }
  int wrong = 0;
  for (std::size_t k = 0; k < kMany; ++k) {
    const Tensor difference = sum(variables[k].value() - values[k]);
    wrong += difference.cast(DType::f64).item<double>() != 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("many gradients are clipped by their norm", "[optimizer][many]") {
  const Device device = TestBackend::device(0);
  std::vector<Tensor> gradients;
  double squares = 0;
  for (int k = 0; k < kMany; ++k) {
    const DType dtype = k % 5 == 0 ? DType::f64 : k % 5 == 1 ? DType::f16 : DType::f32;
    gradients.push_back(Tensor::full(Shape(size_of_tensor(k)), 0.5, dtype, device));
    squares += 0.25 * static_cast<double>(size_of_tensor(k));
  }
  const auto [half, norm] = optim::clip_by_global_norm(gradients, std::sqrt(squares) / 2);
  CHECK(std::abs(norm.item<double>() - std::sqrt(squares)) < 1e-9 * std::sqrt(squares));
  CHECK(optim::global_norm(gradients).item<double>() == norm.item<double>());
  const auto [same_bits, _] = optim::clip_by_global_norm(gradients, 2 * std::sqrt(squares));
  int wrong = 0;
  for (std::size_t k = 0; k < kMany; ++k) {
    if (gradients[k].size() == 0) continue;
    CHECK(half[k].dtype() == gradients[k].dtype());
    const double tolerance = half[k].dtype() == DType::f16 ? 1e-3 : 1e-6;
    wrong += !(std::abs(half[k].slice(0, 1).cast(DType::f64).item<double>() - 0.25) < tolerance);
    wrong += same_bits[k].slice(0, 1).cast(DType::f64).item<double>() != 0.5;
    wrong += gradients[k].slice(0, 1).cast(DType::f64).item<double>() != 0.5;
  }
  CHECK(wrong == 0);

  gradients[7] = Tensor::full(Shape(31), std::numeric_limits<double>::infinity(), DType::f32, device);
  const auto [nan, infinite] = optim::clip_by_global_norm(gradients, 1);
  CHECK(std::isinf(infinite.item<double>()));
  CHECK(std::isnan(nan[2].slice(0, 1).cast(DType::f64).item<double>()));
  CHECK(optim::global_norm({Tensor::zeros(Shape(0), DType::f32, device)}).item<double>() == 0);
}

}  // namespace lockstep::test
