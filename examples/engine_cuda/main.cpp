// An engine with its own GPU memory, streams and kernels. lockstep averages its gradients on a separate
// stream, and the engine's next kernels wait for the average with an event.
#include <cstddef>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include <lockstep/cuda/interop.hpp>
#include <lockstep/lockstep.hpp>

#include "kernels.hpp"

namespace ls = lockstep;

namespace {

constexpr int kCount = 1000;
constexpr int kSteps = 40;

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

// The engine's state on one GPU.
class Replica {
 public:
  explicit Replica(int index)
      : device(ls::DeviceKind::gpu, index), communication(device), ready(device), averaged(device) {
    check(cudaSetDevice(index));
    check(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    check(cudaMalloc(&weights, kCount * sizeof(float)));
    check(cudaMalloc(&gradients, kCount * sizeof(float)));
    check(cudaMemsetAsync(weights, 0, kCount * sizeof(float), compute));
  }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;
  ~Replica() {
    cudaSetDevice(device.index());
    cudaStreamSynchronize(compute);
    cudaFree(gradients);
    cudaFree(weights);
    cudaStreamDestroy(compute);
  }

  ls::TensorView gradient_view() const {
    return ls::Tensor::view(gradients, {kCount}, ls::DType::f32, device).view();
  }

  ls::Device device;
  cudaStream_t compute = nullptr;
  float* weights = nullptr;
  float* gradients = nullptr;
  ls::Stream communication;
  ls::Event ready, averaged;
};

}  // namespace

int main() {
  int num_gpus = 0;
  check(cudaGetDeviceCount(&num_gpus));
  std::vector<ls::Device> devices;
  for (int i = 0; i < num_gpus; ++i) devices.emplace_back(ls::DeviceKind::gpu, i);
  ls::Communicator communicator = ls::Communicator::create(devices);

  std::vector<std::unique_ptr<Replica>> replicas;
  std::vector<ls::TensorView> gradients;
  std::vector<ls::StreamRef> streams;
  for (int i = 0; i < num_gpus; ++i) {
    replicas.push_back(std::make_unique<Replica>(i));
    gradients.push_back(replicas.back()->gradient_view());
    streams.push_back(replicas.back()->communication);
  }

  for (int step = 0; step < kSteps; ++step) {
    for (const auto& replica : replicas) {
      check(cudaSetDevice(replica->device.index()));
      // Every replica pulls the weights to a different number, so that on average they move to the middle of
      // these numbers.
      const auto target = static_cast<float>(replica->device.index());
      enqueue_gradients(replica->weights, target, replica->gradients, kCount, replica->compute);
      replica->ready.record(ls::Stream::borrow(replica->compute, replica->device));
      replica->communication.wait(replica->ready);
    }
    communicator.all_reduce(ls::ReduceOp::mean, gradients, gradients, streams);
    for (const auto& replica : replicas) {
      replica->averaged.record(replica->communication);
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
