// An engine with its own allocator, streams, kernels and NCCL communicators, all of which it keeps. lockstep
// averages its gradients on a separate stream, and the engine's next kernels wait for the average with an
// event.
#include <cstddef>
#include <iostream>
#include <memory>
#include <vector>

#include <cuda_runtime.h>

#include <lockstep/cuda/interop.hpp>
#include <lockstep/lockstep.hpp>

#include "engine.hpp"
#include "kernels.hpp"

namespace ls = lockstep;

namespace {

using engine::check;

constexpr int kCount = 1000;
constexpr int kSteps = 40;

// The engine's state on one GPU, which is the current one while this is made.
class Replica {
 public:
  explicit Replica(int index) : device(ls::DeviceKind::gpu, index), ready(device), averaged(device) {
    check(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    check(cudaStreamCreateWithFlags(&communication, cudaStreamNonBlocking));
    check(cudaMemsetAsync(weights, 0, kCount * sizeof(float), compute));
  }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;
  ~Replica() {
    cudaSetDevice(device.index());
    for (const cudaStream_t stream : {compute, communication}) {
      cudaStreamSynchronize(stream);
      cudaStreamDestroy(stream);
    }
  }

  // What lockstep sees: the engine's memory, and its stream.
  ls::Tensor gradient_tensor() const { return ls::Tensor::view(gradients, {kCount}, ls::DType::f32, device); }
  ls::StreamRef communication_ref() const { return ls::Stream::borrow(communication, device); }

  ls::Device device;
  cudaStream_t compute = nullptr, communication = nullptr;
  engine::Arena arena{4 * kCount * sizeof(float)};
  float* weights = arena.allocate(kCount);
  float* gradients = arena.allocate(kCount);
  ls::Event ready, averaged;
};

}  // namespace

int main() {
  int num_gpus = 0;
  check(cudaGetDeviceCount(&num_gpus));
#if ENGINE_HAS_NCCL
  const engine::Communicators communicators(num_gpus);
  ls::Communicator communicator = ls::Communicator::adopt(communicators.handles);
#else
  std::vector<ls::Device> devices;
  for (int i = 0; i < num_gpus; ++i) devices.emplace_back(ls::DeviceKind::gpu, i);
  ls::Communicator communicator = ls::Communicator::create(devices);
#endif

  std::vector<std::unique_ptr<Replica>> replicas;
  std::vector<ls::TensorView> gradients;
  std::vector<ls::StreamRef> streams;
  for (int i = 0; i < num_gpus; ++i) {
    check(cudaSetDevice(i));
    replicas.push_back(std::make_unique<Replica>(i));
    gradients.push_back(replicas.back()->gradient_tensor().view());
    streams.push_back(replicas.back()->communication_ref());
  }

  for (int step = 0; step < kSteps; ++step) {
    for (const auto& replica : replicas) {
      check(cudaSetDevice(replica->device.index()));
      // Every replica pulls the weights to a different number, so that on average they move to the middle of
      // these numbers.
      const auto target = static_cast<float>(replica->device.index());
      enqueue_gradients(replica->weights, target, replica->gradients, kCount, replica->compute);
      replica->ready.record(ls::Stream::borrow(replica->compute, replica->device));
      replica->communication_ref().wait(replica->ready);
    }
    communicator.all_reduce(ls::ReduceOp::mean, gradients, gradients, streams);
    for (const auto& replica : replicas) {
      replica->averaged.record(replica->communication_ref());
      check(cudaSetDevice(replica->device.index()));
      check(cudaStreamWaitEvent(replica->compute, ls::cuda::native_event(replica->averaged), 0));
      enqueue_update(replica->weights, replica->gradients, 0.5f, kCount, replica->compute);
    }
  }

  bool right = true;
  const float middle = static_cast<float>(num_gpus - 1) / 2;
  for (const auto& replica : replicas) {
    std::vector<float> weights(kCount);
    check(cudaSetDevice(replica->device.index()));
    check(cudaMemcpyAsync(weights.data(), replica->weights, kCount * sizeof(float), cudaMemcpyDeviceToHost,
                          replica->compute));
    check(cudaStreamSynchronize(replica->compute));
    std::cout << replica->device << ": " << weights.front() << '\n';
    for (const float weight : weights) right = right && weight > middle - 1e-3f && weight < middle + 1e-3f;
  }
  return right ? 0 : 1;
}
