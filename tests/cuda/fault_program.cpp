#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include <cuda_runtime_api.h>

#include <lockstep/lockstep.hpp>

/// A small program whose CUDA, NCCL and cuBLAS calls are made to fail one by one (fault_injection.sh):
/// whatever fails must end in one of the library's exceptions, with the caller's current device as it was.
/// Afterwards a new strategy on the same GPUs reduces, unless the exception has said that a device is lost.
///
/// Says "untouched" when nothing failed, else which exception came. Exit status 1: another exception, a wrong
/// result, another current device, or no strategy after a failure.

namespace ls = lockstep;

namespace {

// Sends and receives between GPUs, and on one GPU.
void exchange() {
  const std::vector<ls::Device> devices = {"GPU:0", "GPU:1"};
  auto communicator = ls::Communicator::create(devices);
  std::vector<ls::Tensor> inputs, outputs;
  std::vector<ls::TensorView> sent, received;
  std::vector<ls::StreamRef> streams;
  for (const ls::Device& device : devices) {
    const auto value = static_cast<float>(device.index());
    inputs.push_back(ls::Tensor::full({2, 3}, value, ls::DType::f32, device));
    outputs.push_back(ls::Tensor::zeros({2, 3}, ls::DType::f32, device));
    sent.push_back(inputs.back().view());
    received.push_back(outputs.back().view());
    streams.push_back(ls::current_stream(device));
  }
  communicator.all_to_all(sent, received, streams);
  const std::vector<float> expected = {0, 0, 0, 1, 1, 1};
  for (const ls::Tensor& output : outputs)
    if (output.to_vector<float>() != expected) throw std::logic_error("wrong exchange");
}

void step() {
  ls::MirroredStrategy strategy({"GPU:0", "GPU:1"}, {.communicator = {.symmetric_windows = true}});
  const auto scope = strategy.scope();
  ls::Variable weights(ls::Tensor::ones({8, 4}), {.aggregation = ls::VariableAggregation::mean});
  const auto losses = strategy.run([&](ls::ReplicaContext& ctx) {
    const ls::Tensor x = ls::Tensor::full({3, 8}, static_cast<float>(ctx.replica_id_in_sync_group()));
    const ls::Tensor y = ls::matmul(x, weights.value());
    ls::Tensor gradient = ctx.all_reduce(ls::ReduceOp::mean, ls::matmul(x, y, true, false));
    static_cast<void>(ctx.all_reduce(ls::ReduceOp::max, y));
    ls::PackedReduction packs(ctx, ls::ReduceOp::sum,
                              {.implementation = ls::CommunicationImplementation::nccl});
    packs.add(x);
    packs.add(y);
    packs.wait();
    weights.assign_sub(gradient * 0.1f);
    return ls::reduce_axes(ls::ReduceOp::sum, y, 0, ls::DType::f32);
  });
  const ls::Tensor total = strategy.reduce(ls::ReduceOp::sum, losses);
  if (total.to_vector<float>() != std::vector<float>(4, 24)) throw std::logic_error("wrong result");
  static_cast<void>(strategy.extended().broadcast_to(total).size());
  auto traced = strategy.function([&](ls::ReplicaContext& ctx, const ls::Tensor& x) {
    return ctx.all_reduce(ls::ReduceOp::sum, ls::sum(x) * 2.0f);
  });
  for (int call = 0; call < 4; ++call)
    if (traced(losses)[1].item<float>() != 192) throw std::logic_error("wrong result of a graph");
  const ls::PinnedBuffer pinned(4096, "GPU:1");
  exchange();
}

// What a program does that goes on after a failure.
void reduce_anew() {
  ls::MirroredStrategy strategy({"GPU:0", "GPU:1"});
  const auto sums = strategy.run([](ls::ReplicaContext& ctx) {
    const auto value = static_cast<float>(ctx.replica_id_in_sync_group() + 1);
    return ctx.all_reduce(ls::ReduceOp::sum, ls::Tensor::full({100}, value));
  });
  for (const ls::Tensor& sum : sums)
    if (sum.to_vector<float>() != std::vector<float>(100, 3)) throw std::logic_error("wrong sum");
}

enum class Outcome { untouched, failed, device_lost, fault };

Outcome fault(const std::string& what) {
  std::printf("FAULT: %s\n", what.c_str());
  return Outcome::fault;
}

Outcome outcome_of(void (*part)()) {
  try {
    part();
  } catch (const ls::Error& error) {
    std::printf("%s: %s\n", typeid(error).name(), error.what());
    const auto* const device_error = dynamic_cast<const ls::DeviceError*>(&error);
    const bool is_lost = device_error != nullptr && device_error->is_fatal();
    const bool says_so = std::string_view(error.what()).find("cannot be used again") != std::string::npos;
    if (is_lost != says_so) return fault("the message and is_fatal() do not agree");
    return is_lost ? Outcome::device_lost : Outcome::failed;
  } catch (const std::exception& error) {
    return fault(std::string("not one of the library's exceptions: ") + typeid(error).name() + ": " +
                 error.what());
  }
  return Outcome::untouched;
}

Outcome attempt(void (*part)()) {
  const Outcome outcome = outcome_of(part);
  int current = -1;
  cudaGetLastError();
  if (cudaGetDevice(&current) != cudaSuccess || current != 0)
    return fault("the current device is " + std::to_string(current));
  return outcome;
}

}  // namespace

int main() {
  const Outcome first = attempt(step);
  Outcome last = first;
  if (first == Outcome::untouched || first == Outcome::failed) last = attempt(reduce_anew);
  if (first == Outcome::untouched && last == Outcome::untouched) std::puts("untouched");
  if (first == Outcome::untouched && last == Outcome::failed) last = attempt(reduce_anew);
  if (last == Outcome::failed) fault("a new strategy on the same GPUs fails");
  return last == Outcome::failed || last == Outcome::fault ? 1 : 0;
}
