#include "cuda/faults/fault_parts.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/lockstep.hpp>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using Values = std::vector<std::vector<float>>;
using Variables = std::vector<Variable>;

std::vector<Device> gpus() { return {"GPU:0", "GPU:1"}; }

void expect(bool is_so, const std::string& what) {
  if (!is_so) throw std::logic_error(what);
}

void expect_all(const Tensor& tensor, float value, const char* what) {
  const auto size = static_cast<std::size_t>(tensor.size());
  expect(tensor.cast(DType::f32).to_vector<float>() == std::vector<float>(size, value), what);
}

void expect_all(const std::vector<PerReplica<Tensor>>& values, float value, const char* what) {
  for (const PerReplica<Tensor>& replicas : values)
    for (const Tensor& tensor : replicas) expect_all(tensor, value, what);
}

float number_of(const ReplicaContext& ctx) { return static_cast<float>(ctx.replica_id_in_sync_group() + 1); }

/// Throws where the strategy says that it cannot be used.
void reduce(Strategy& strategy) {
  const auto sums = strategy.run(
      [](ReplicaContext& ctx) { return ctx.all_reduce(ReduceOp::sum, Tensor::full({100}, number_of(ctx))); });
  for (const Tensor& sum : sums) expect_all(sum, 3, "a wrong sum");
}

/// The components of all variables.
Values read(Strategy& strategy, const Variables& variables) {
  Values values;
  for (const Variable& variable : variables)
    for (const Tensor& component : strategy.local_results(variable))
      values.push_back(component.cast(DType::f32).to_vector<float>());
  return values;
}

bool is_usable(Strategy& strategy) {
  try {
    reduce(strategy);
    return true;
  } catch (const Error& error) {
    std::printf("afterwards: %s\n", error.what());
    return false;
  }
}

/// Makes a step. One that throws has left the variables as they were, and can be made again, or the strategy
/// says that it cannot be used.
template <class Step>
void attempt(Strategy& strategy, const Variables& variables, const Step& step) {
  const Values before = read(strategy, variables);
  try {
    step();
  } catch (const Error& error) {
    if (!is_usable(strategy)) throw;
    expect(read(strategy, variables) == before,
           std::string("a step has failed and changed a variable: ") + error.what());
    try {
      step();
    } catch (const Unsupported& refused) {  // GPUs whose trial has failed are no peers
      std::printf("afterwards: %s\n", refused.what());
    } catch (const Error& again) {
      expect(false, std::string("a step cannot be made again: ") + again.what() + " after: " + error.what());
    }
    throw;
  }
}

/// fn(number) on each GPU, with numbers from 1.
template <class F>
PerReplica<Tensor> on_each(const F& fn) {
  std::vector<Tensor> tensors;
  for (const Device& device : gpus()) {
    const DeviceScope scope(device);
    tensors.push_back(fn(static_cast<float>(tensors.size() + 1)));
  }
  return PerReplica<Tensor>(std::move(tensors));
}

/// Optimizers, whose steps are one kernel on each GPU, with clipping and without.
void optimizers() {
  MirroredStrategy strategy(gpus());
  const auto scope = strategy.scope();
  const Variables weights = {Variable(Tensor::ones({8, 4})), Variable(Tensor::ones({5}))};
  optim::Adam adam({.learning_rate = 0.5, .global_clip_norm = 1});
  optim::Momentum momentum({.learning_rate = 0.5, .nesterov = true});
  adam.build(weights);
  for (optim::Optimizer* const optimizer :
       {static_cast<optim::Optimizer*>(&adam), static_cast<optim::Optimizer*>(&momentum)})
    for (int step = 0; step < 2; ++step) {
      Variables state = weights;
      for (const auto& [name, variable] : optimizer->variables()) state.push_back(variable);
      attempt(strategy, state, [&] {
        strategy.run([&](ReplicaContext& ctx) {
          optimizer->apply_gradients({{Tensor::full({8, 4}, number_of(ctx)), weights[0]},
                                      {Tensor::full({5}, number_of(ctx)), weights[1]}});
        });
      });
      attempt(strategy, state, [&] {
        optimizer->apply_reduced_gradients(
            {{Tensor::full({8, 4}, 1.0f), weights[0]}, {Tensor::full({5}, 1.0f), weights[1]}});
      });
    }
  attempt(strategy, weights, [&] { Variable(weights[0]).assign_add(Tensor::ones({8, 4})); });
  const Values values = read(strategy, weights);
  expect(values[0] == values[1] && values[2] == values[3], "components that differ");
}

/// Batches of many tensors of several dtypes, which are packed, or go by one kernel.
void batches() {
  constexpr int kTensors = 9;
  MirroredStrategy strategy(gpus());
  const auto make = [](float value) {
    std::vector<Tensor> tensors;
    for (int k = 0; k < kTensors; ++k) {
      const DType dtype = k % 3 == 0 ? DType::f32 : k % 3 == 1 ? DType::i32 : DType::bf16;
      tensors.push_back(Tensor::full({1 + 50 * k}, value, dtype));
    }
    return tensors;
  };
  for (const auto implementation :
       {CommunicationImplementation::automatic, CommunicationImplementation::nccl})
    attempt(strategy, {}, [&] {
      const auto sums = strategy.run([&](ReplicaContext& ctx) {
        return ctx.all_reduce(ReduceOp::sum, make(number_of(ctx)), {.implementation = implementation});
      });
      expect_all(sums, 3, "a wrong sum in a batch");
    });
  std::vector<std::pair<ReduceValue, Destination>> pairs;
  for (std::size_t k = 0; k < kTensors; ++k)
    pairs.emplace_back(on_each([&](float number) { return make(number)[k]; }), Destination(gpus()[k % 2]));
  attempt(strategy, {}, [&] {
    for (const Mirrored<Tensor>& mean : strategy.extended().batch_reduce_to(ReduceOp::mean, pairs))
      for (const Tensor& component : mean) expect_all(component, 1.5f, "a wrong mean of a batch");
  });
  attempt(strategy, {}, [&] {
    auto work = strategy.extended().start_batch_reduce_to(ReduceOp::max, pairs);
    for (const Mirrored<Tensor>& greatest : work.wait())
      for (const Tensor& component : greatest) expect_all(component, 2, "a wrong maximum of a batch");
  });
}

/// Memory that streams keep, beyond what they may keep, and that a lack of memory takes from them.
void stream_cache() {
  ::setenv("LOCKSTEP_STREAM_CACHE_BYTES", "16384", 1);
  MirroredStrategy strategy(gpus());
  for (int round = 0; round < 3; ++round)
    attempt(strategy, {}, [&] {
      strategy.run([&](ReplicaContext& ctx) {
        const Stream stream(ctx.device());
        for (const bool is_own : {false, true}) {
          std::optional<StreamScope> scope;
          if (is_own) scope.emplace(stream);
          std::vector<Tensor> tensors;
          for (const std::int64_t size : {100, 100, 1'000, 3'000, 5'000, 300'000})
            tensors.push_back(Tensor::full({size}, number_of(ctx)));
          for (const Tensor& tensor : tensors) {
            const float value = sum(tensor).item<float>();
            expect(value == number_of(ctx) * static_cast<float>(tensor.size()), "wrong memory");
          }
        }
      });
    });
}

/// The library's own all-reduces between GPUs, in one shot, in two, and in pieces.
void peers() {
  using enum CommunicationImplementation;
  MirroredStrategy strategy(gpus());
  for (const CommunicationOptions& options :
       {CommunicationOptions{}, CommunicationOptions{.deterministic = true},
        CommunicationOptions{.implementation = peer}})
    attempt(strategy, {}, [&] {
      const auto results = strategy.run([&](ReplicaContext& ctx) {
        std::vector<Tensor> all;
        for (const DType dtype : {DType::f32, DType::bf16})
          for (const std::int64_t size : {1, 1'000})
            all.push_back(
                ctx.all_reduce(ReduceOp::sum, Tensor::full({size}, number_of(ctx), dtype), options));
        if (options.implementation == peer)
          all.push_back(ctx.all_reduce(ReduceOp::sum, Tensor::full({150'000}, number_of(ctx)), options));
        return all;
      });
      expect_all(results, 3, "a wrong sum between peers");
    });
  auto traced = strategy.function([&](ReplicaContext& ctx, const Tensor& x) {
    return ctx.all_reduce(ReduceOp::mean, x + number_of(ctx));
  });
  const auto x = on_each([](float) { return Tensor::ones({300}); });
  for (int call = 0; call < 3; ++call)
    attempt(strategy, {}, [&] {
      for (const Tensor& mean : traced(x)) expect_all(mean, 2.5f, "a wrong mean of a graph");
    });
}

/// Time limits on devices: of collectives, and of graphs that have them.
void watch() {
  MirroredStrategy strategy(gpus(), {.timeout = 60s});
  for (int call = 0; call < 2; ++call) attempt(strategy, {}, [&] { reduce(strategy); });
  auto traced = strategy.function(
      [](ReplicaContext& ctx, const Tensor& x) { return ctx.all_reduce(ReduceOp::sum, x * number_of(ctx)); });
  const auto x = on_each([](float) { return Tensor::ones({50}); });
  for (int call = 0; call < 4; ++call)
    attempt(strategy, {}, [&] {
      for (const Tensor& sum : traced(x)) expect_all(sum, 3, "a wrong sum of a graph with a limit");
    });
  auto communicator = Communicator::create(gpus());
  const std::vector<Tensor> ones = {x[0], x[1]};
  std::vector<Tensor> sums;
  std::vector<StreamRef> streams;
  std::vector<TensorView> inputs, outputs;
  for (const Tensor& one : ones) {
    sums.push_back(Tensor::zeros({50}, DType::f32, one.device()));
    streams.push_back(current_stream(one.device()));
    inputs.push_back(one.view());
    outputs.push_back(sums.back().view());
  }
  communicator.all_reduce(ReduceOp::sum, inputs, outputs, streams, {.timeout = 60s});
  for (const Tensor& sum : sums) expect_all(sum, 2, "a wrong sum with a limit");
}

/// Packs in memory that NCCL knows on all GPUs, which grows.
void windows() {
  MirroredStrategy strategy(gpus(), {.implementation = CommunicationImplementation::nccl,
                                     .communicator = {.symmetric_windows = true}});
  for (const std::int64_t size : {100, 400'000, 1'000})
    attempt(strategy, {}, [&] {
      const auto results = strategy.run([&](ReplicaContext& ctx) {
        PackedReduction packs(ctx, ReduceOp::sum);
        packs.add(Tensor::full({size}, number_of(ctx), DType::f64));
        packs.add(Tensor::full({10}, number_of(ctx), DType::f64));
        return packs.wait();
      });
      expect_all(results, 3, "a wrong sum of a window");
    });
}

/// Steps that are captured and launched, with variables and an optimizer in them.
void functions() {
  MirroredStrategy strategy(gpus());
  const auto scope = strategy.scope();
  Variable weights(Tensor::ones({8, 4}));
  Variable count(Tensor::scalar(0.0f), {.synchronization = VariableSynchronization::on_read,
                                        .aggregation = VariableAggregation::sum});
  optim::Momentum optimizer({.learning_rate = 0.5});
  optimizer.build({weights});
  Variables state = {weights, count};
  for (const auto& [name, variable] : optimizer.variables()) state.push_back(variable);
  for (const bool takes_addresses : {false, true}) {
    auto step = strategy.function(
        [&](ReplicaContext& ctx, const Tensor& x) {
          const Tensor y = matmul(x, weights.value());
          optimizer.apply_gradients({{matmul(x, y, true, false), weights}});
          count.assign_add(sum(x));
          return ctx.all_reduce(ReduceOp::mean, sum(y));
        },
        {.takes_addresses = takes_addresses});
    for (const std::int64_t rows : {1, 2}) {
      const auto x = on_each([&](float number) { return Tensor::full({rows, 8}, number / 16); });
      for (int call = 0; call < 4; ++call) {
        std::optional<PerReplica<Tensor>> means;
        // The first call is a run, which keeps what its functions have written.
        attempt(strategy, call == 0 ? Variables() : state, [&] { means = step(x); });
        expect((*means)[0].to_vector<float>() == (*means)[1].to_vector<float>(), "results that differ");
      }
    }
  }
  const Values values = read(strategy, {weights});
  expect(values[0] == values[1], "components that differ");
}

// Sends and receives between GPUs, and on one GPU.
void exchange() {
  auto communicator = Communicator::create(gpus());
  std::vector<Tensor> inputs, outputs;
  std::vector<TensorView> sent, received;
  std::vector<StreamRef> streams;
  for (const Device& device : gpus()) {
    const auto value = static_cast<float>(device.index());
    inputs.push_back(Tensor::full({2, 3}, value, DType::f32, device));
    outputs.push_back(Tensor::zeros({2, 3}, DType::f32, device));
    sent.push_back(inputs.back().view());
    received.push_back(outputs.back().view());
    streams.push_back(current_stream(device));
  }
  communicator.all_to_all(sent, received, streams);
  const std::vector<float> expected = {0, 0, 0, 1, 1, 1};
  for (const Tensor& output : outputs) expect(output.to_vector<float>() == expected, "wrong exchange");
}

/// A step of everything, in one run.
void step() {
  MirroredStrategy strategy(gpus(), {.communicator = {.symmetric_windows = true}});
  const auto scope = strategy.scope();
  Variable weights(Tensor::ones({8, 4}), {.aggregation = VariableAggregation::mean});
  const auto losses = strategy.run([&](ReplicaContext& ctx) {
    const Tensor x = Tensor::full({3, 8}, static_cast<float>(ctx.replica_id_in_sync_group()));
    const Tensor y = matmul(x, weights.value());
    Tensor gradient = ctx.all_reduce(ReduceOp::mean, matmul(x, y, true, false));
    static_cast<void>(ctx.all_reduce(ReduceOp::max, y));
    PackedReduction packs(ctx, ReduceOp::sum, {.implementation = CommunicationImplementation::nccl});
    packs.add(x);
    packs.add(y);
    packs.wait();
    weights.assign_sub(gradient * 0.1f);
    return reduce_axes(ReduceOp::sum, y, 0, DType::f32);
  });
  const Tensor total = strategy.reduce(ReduceOp::sum, losses);
  expect_all(total, 24, "wrong result");
  static_cast<void>(strategy.extended().broadcast_to(total).size());
  auto traced = strategy.function(
      [&](ReplicaContext& ctx, const Tensor& x) { return ctx.all_reduce(ReduceOp::sum, sum(x) * 2.0f); });
  for (int call = 0; call < 4; ++call)
    expect(traced(losses)[1].item<float>() == 192, "wrong result of a graph");
  const PinnedBuffer pinned(4096, "GPU:1");
  exchange();
}

constexpr FaultPart kParts[] = {{"step", step},          {"optimizers", optimizers}, {"batches", batches},
                                {"cache", stream_cache}, {"peers", peers},           {"watch", watch},
                                {"windows", windows},    {"functions", functions}};

}  // namespace

std::span<const FaultPart> fault_parts() { return kParts; }

void reduce_anew() {
  MirroredStrategy strategy(gpus());
  reduce(strategy);
}

}  // namespace lockstep::test
