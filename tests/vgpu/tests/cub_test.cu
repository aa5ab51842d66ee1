// CUB's device-wide algorithms on several virtual devices, with NCCL between them.
#include <cub/cub.cuh>
#include <thread>

#include <nccl.h>
#include <thrust/iterator/transform_iterator.h>

#include "check.hpp"

#define NCCL(call) EXPECT(call, ncclSuccess)

struct Squares {
  __host__ __device__ double operator()(int value) const { return static_cast<double>(value) * value; }
};

// Reductions on every device: concurrently in streams, sizes that take one and two passes.
TEST_CASE("CUB reduces on every device") {
  int devices = 0;
  OK(cudaGetDeviceCount(&devices));
  for (std::size_t size : {std::size_t{1}, std::size_t{1000}, std::size_t{300007}}) {
    std::vector<cudaStream_t> streams(devices);
    std::vector<int*> data(devices), out(devices);
    std::vector<long long> wanted(devices);
    std::vector<void*> scratch(devices, nullptr);
    for (int d = 0; d < devices; ++d) {
      OK(cudaSetDevice(d));
      OK(cudaStreamCreateWithFlags(&streams[d], cudaStreamNonBlocking));
      std::vector<int> host(size);
      for (std::size_t i = 0; i < size; ++i) wanted[d] += host[i] = static_cast<int>((i * 7919 + d) % 1000);
      OK(cudaMalloc(&data[d], size * sizeof(int)));
      OK(cudaMalloc(&out[d], sizeof(int)));
      OK(cudaMemcpyAsync(data[d], host.data(), size * sizeof(int), cudaMemcpyHostToDevice, streams[d]));
      std::size_t bytes = 0;
      OK(cub::DeviceReduce::Sum(nullptr, bytes, data[d], out[d], size, streams[d]));
      OK(cudaMalloc(&scratch[d], bytes));
      OK(cub::DeviceReduce::Sum(scratch[d], bytes, data[d], out[d], size, streams[d]));
    }
    for (int d = 0; d < devices; ++d) {
      OK(cudaSetDevice(d));
      OK(cudaStreamSynchronize(streams[d]));
      CHECK(fetch(out[d], 1)[0] == wanted[d]);
      OK(cudaFree(data[d]));
      OK(cudaFree(out[d]));
      OK(cudaFree(scratch[d]));
      OK(cudaStreamDestroy(streams[d]));
    }
  }
}

TEST_CASE("CUB reduces segments") {
  int devices = 0;
  OK(cudaGetDeviceCount(&devices));
  for (int d = 0; d < devices; ++d) {
    OK(cudaSetDevice(d));
    constexpr int segments = 37;
    std::vector<int> offsets{0};
    for (int s = 0; s < segments; ++s) offsets.push_back(offsets.back() + (s * 131 + d) % 900);
    std::vector<int> host(offsets.back());
    std::vector<double> wanted(segments);
    for (int s = 0; s < segments; ++s)
      for (int i = offsets[s]; i < offsets[s + 1]; ++i)
        wanted[s] += static_cast<double>(host[i] = i % 100) * (i % 100);
    int* data = upload(host);
    int* where = upload(offsets);
    double* out = nullptr;
    OK(cudaMalloc(&out, segments * sizeof(double)));
    auto input = thrust::make_transform_iterator(data, Squares{});
    std::size_t bytes = 0;
    void* scratch = nullptr;
    OK(cub::DeviceSegmentedReduce::Sum(scratch, bytes, input, out, segments, where, where + 1));
    OK(cudaMalloc(&scratch, bytes ? bytes : 1));
    OK(cub::DeviceSegmentedReduce::Sum(scratch, bytes, input, out, segments, where, where + 1));
    CHECK(fetch(out, segments) == wanted);
    for (void* pointer :
         {static_cast<void*>(data), static_cast<void*>(where), static_cast<void*>(out), scratch})
      OK(cudaFree(pointer));
  }
}

// Local sums by CUB, global ones by NCCL, a thread per device.
TEST_CASE("CUB sums on each device and NCCL over all") {
  int devices = 0;
  OK(cudaGetDeviceCount(&devices));
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  std::vector<long long> results(devices);
  constexpr std::size_t size = 50000;
  for (int d = 0; d < devices; ++d)
    threads.emplace_back([&, d] {
      cudaSetDevice(d);
      ncclComm_t comm;
      cudaStream_t stream;
      if (ncclCommInitRank(&comm, devices, id, d) != ncclSuccess || cudaStreamCreate(&stream) != cudaSuccess)
        return;
      std::vector<long long> host(size);
      for (std::size_t i = 0; i < size; ++i) host[i] = static_cast<long long>(i % 10) + d;
      long long *data, *sum;
      void* scratch = nullptr;
      std::size_t bytes = 0;
      cudaMalloc(&data, size * sizeof *data);
      cudaMalloc(&sum, sizeof *sum);
      cudaMemcpyAsync(data, host.data(), size * sizeof *data, cudaMemcpyHostToDevice, stream);
      cub::DeviceReduce::Sum(scratch, bytes, data, sum, size, stream);
      cudaMalloc(&scratch, bytes);
      for (int round = 0; round < 3; ++round) {
        cub::DeviceReduce::Sum(scratch, bytes, data, sum, size, stream);
        ncclAllReduce(sum, sum, 1, ncclInt64, ncclSum, comm, stream);
      }
      cudaMemcpyAsync(&results[d], sum, sizeof *sum, cudaMemcpyDeviceToHost, stream);
      cudaStreamSynchronize(stream);
      cudaFree(data);
      cudaFree(sum);
      cudaFree(scratch);
      cudaStreamDestroy(stream);
      ncclCommDestroy(comm);
    });
  for (auto& thread : threads) thread.join();
  long long wanted = 0;
  for (int d = 0; d < devices; ++d) wanted += 5000 * 45 + static_cast<long long>(size) * d;
  for (int d = 0; d < devices; ++d) CHECK(results[d] == wanted);
}
