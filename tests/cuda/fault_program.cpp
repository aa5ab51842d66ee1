#include <cstdio>
#include <exception>
#include <string>
#include <typeinfo>

#include <cuda_runtime_api.h>

#include <lockstep/lockstep.hpp>

/// A small program whose CUDA, NCCL and cuBLAS calls are made to fail one by one (fault_injection.sh):
/// whatever fails must end in one of the library's exceptions, with the caller's current device as it was.
///
/// Says "untouched" when nothing failed, else which exception came. Exit status 1: another exception, a wrong
/// result, or another current device.

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
  ls::MirroredStrategy strategy({"GPU:0", "GPU:1"});
  const auto scope = strategy.scope();
  ls::Variable weights(ls::Tensor::ones({8, 4}), {.aggregation = ls::VariableAggregation::mean});
  const auto losses = strategy.run([&](ls::ReplicaContext& ctx) {
    const ls::Tensor x = ls::Tensor::full({3, 8}, static_cast<float>(ctx.replica_id_in_sync_group()));
    const ls::Tensor y = ls::matmul(x, weights.value());
    ls::Tensor gradient = ctx.all_reduce(ls::ReduceOp::mean, ls::matmul(x, y, true, false));
    ctx.all_reduce(ls::ReduceOp::max, y);
    weights.assign_sub(gradient * 0.1f);
    return ls::reduce_axes(ls::ReduceOp::sum, y, 0, ls::DType::f32);
  });
  const ls::Tensor total = strategy.reduce(ls::ReduceOp::sum, losses);
  if (total.to_vector<float>() != std::vector<float>(4, 24)) throw std::logic_error("wrong result");
  strategy.extended().broadcast_to(total).size();
  const ls::PinnedBuffer pinned(4096, "GPU:1");
  exchange();
}

}  // namespace

int main() {
  int status = 0;
  try {
    step();
    std::puts("untouched");
  } catch (const ls::Error& error) {
    std::printf("%s: %s\n", typeid(error).name(), error.what());
  } catch (const std::exception& error) {
    std::printf("FAULT: not one of the library's exceptions: %s: %s\n", typeid(error).name(), error.what());
    status = 1;
  }
  int current = -1;
  cudaGetLastError();
  if (cudaGetDevice(&current) != cudaSuccess || current != 0) {
    std::printf("FAULT: the current device is %d\n", current);
    status = 1;
  }
  return status;
}
