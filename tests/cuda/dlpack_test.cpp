#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/lockstep.hpp>

#include "cuda/capture.hpp"
#include "support/call_hook.hpp"
#include "support/loan.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {
namespace {

Tensor view_of(const DLTensor& lent, const Device& device) {
  return Tensor::view(lent.data, {lent.shape[0]}, DType::i32, device);
}

}  // namespace

TEST_CASE("a tensor is lent, taken and given back by four events, without a copy", "[cuda][dlpack]") {
  const Device device = TestBackend::device();
  const Stream consumer(device);
  const Tensor tensor = Tensor::full({1 << 20}, 7, DType::i32, device);
  std::map<std::string, int, std::less<>> calls;
  {
    const CallHook hook([&](std::string_view name, bool is_over) {
      if (!is_over) ++calls[std::string(name)];
      return 0;
    });
    const Tensor taken = dlpack::from(dlpack::to(tensor, consumer), consumer);
  }
  for (const char* const once_each :
       {"cudaEventCreate", "cudaEventRecord", "cudaStreamWaitEvent", "cudaEventDestroy"})
    CHECK(calls[once_each] == 4);
  for (const auto& [name, number] : calls) {
    INFO(name << ": " << number);
    for (const char* const work : {"cudaMem", "cudaLaunch", "cudaMalloc", "cudaFree", "Synchronize"})
      CHECK(name.find(work) == std::string::npos);
  }
}

TEST_CASE("an engine lends memory of its own, which it uses on a stream of its own", "[cuda][dlpack]") {
  const Device device = TestBackend::device();
  constexpr std::int64_t kCount = 1000;
  constexpr std::size_t kBytes = kCount * sizeof(std::int32_t);
  void* memory = nullptr;
  cudaStream_t native = nullptr;
  REQUIRE(cudaSetDevice(TestBackend::open().ordinal()) == cudaSuccess);
  REQUIRE(cudaMalloc(&memory, kBytes) == cudaSuccess);
  REQUIRE(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(memory, 1, kBytes, native) == cudaSuccess);
  {
    const StreamRef stream = Stream::borrow(native, device);
    Loan<DLManagedTensorVersioned> loan(Tensor::view(memory, {kCount}, DType::i32, device).view());
    dlpack::from(loan.give(), stream).add_(1);
    CHECK(loan.num_ends == 1);
  }
  std::vector<std::int32_t> values(kCount);
  REQUIRE(cudaMemcpyAsync(values.data(), memory, kBytes, cudaMemcpyDeviceToHost, native) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(native) == cudaSuccess);
  CHECK(values == std::vector<std::int32_t>(kCount, 0x01010102));
  REQUIRE(cudaFree(memory) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(native) == cudaSuccess);
}

TEST_CASE("memory of a GPU is taken on the virtual device of the stream, and on no other GPU",
          "[cuda][dlpack]") {
  const Device second = TestBackend::device(1);
  const Tensor tensor = Tensor::full({100}, 3, DType::i32, TestBackend::device(0));
  const StreamRef stream = current_stream(second);
  if (TestBackend::open(0).ordinal() == TestBackend::open(1).ordinal()) {
    const Tensor taken = dlpack::from(dlpack::to(tensor, stream), stream);
    CHECK(taken.device() == second);
    CHECK(taken.to_vector<std::int32_t>() == std::vector<std::int32_t>(100, 3));
  } else {
    CHECK_THROWS_AS(dlpack::from(dlpack::to(tensor, stream), stream), InvalidArgument);
  }
}

TEST_CASE("a deleter that is called in a capture of the consumer's leaves the capture valid",
          "[cuda][dlpack]") {
  const Device device = TestBackend::device();
  const Stream consumer(device);
  const Tensor tensor = Tensor::full({1000}, 5, DType::i32, device);
  Tensor result = Tensor::zeros({1000}, DType::i32, device);
  result.copy_(tensor);  // the first call, outside the capture
  current_stream(device).synchronize();
  dlpack::Managed managed = dlpack::to(tensor, consumer);
  result.fill_(0);
  current_stream(device).synchronize();
  Capture capture({consumer});
  {
    const StreamScope scope(consumer);
    result.copy_(view_of(managed->dl_tensor, device));
  }
  managed.reset();
  capture.end();
  CHECK_FALSE(tensor.is_shared());
  capture.launch();
  CHECK(result.to_vector<std::int32_t>() == std::vector<std::int32_t>(1000, 5));
}

TEST_CASE("a deleter that is called in a capture of the tensor's stream waits for the consumer",
          "[cuda][dlpack]") {
  const Device device = TestBackend::device();
  const Stream producer(device), consumer(device);
  Tensor tensor, seen;
  dlpack::Managed managed;
  {
    const StreamScope scope(producer);
    tensor = Tensor::full({1000}, 5, DType::i32, device);
    managed = dlpack::to(tensor, consumer);
  }
  {
    const StreamScope scope(consumer);
    seen = view_of(managed->dl_tensor, device).clone();
  }
  Capture capture({producer});
  managed.reset();
  CHECK(consumer.is_complete());
  {
    const StreamScope scope(producer);
    tensor.fill_(6);
  }
  capture.end();
  capture.launch();
  const StreamScope scope(consumer);
  CHECK(seen.to_vector<std::int32_t>() == std::vector<std::int32_t>(1000, 5));
}

}  // namespace lockstep::test
