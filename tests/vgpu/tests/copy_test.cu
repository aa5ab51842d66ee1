// Copies, symbols, kernel parameters, peers.
#include <algorithm>

#include "check.hpp"
#include "kernels.hpp"

static __device__ int device_number = 3;
static __constant__ int table[4] = {10, 20, 30, 40};
static __managed__ int managed_number = 7;

static __global__ void read_symbols(int* out) {
  out[0] = device_number;
  out[1] = table[2];
  out[2] = managed_number;
  managed_number = 99;
}
struct Big {
  char bytes[100];
  double number;
};
static __global__ void big_parameter(Big big, double* out) { *out = big.number + big.bytes[99]; }

TEST_CASE("copies of every shape and direction") {
  // 2D and 3D.
  constexpr std::size_t width = 30, height = 7;
  char* device = nullptr;
  std::size_t pitch = 0;
  OK(cudaMallocPitch(&device, &pitch, width, height));
  CHECK((pitch >= width && pitch % 32 == 0));
  std::vector<char> host(width * height), back(width * height);
  for (std::size_t index = 0; index < host.size(); ++index) host[index] = static_cast<char>(index);
  OK(cudaMemcpy2D(device, pitch, host.data(), width, width, height, cudaMemcpyHostToDevice));
  OK(cudaMemcpy2D(back.data(), width, device, pitch, width, height, cudaMemcpyDeviceToHost));
  CHECK(host == back);
  OK(cudaMemset2D(device, pitch, 1, 10, height));
  OK(cudaMemcpy2D(back.data(), width, device, pitch, width, height, cudaMemcpyDeviceToHost));
  CHECK((back[9] == 1 && back[10] == 10 && back[width] == 1));
  EXPECT(cudaMemcpy2D(device, width - 1, host.data(), width, width, height, cudaMemcpyHostToDevice),
         cudaErrorInvalidPitchValue);
  OK(cudaFree(device));
  cudaPitchedPtr volume;
  OK(cudaMalloc3D(&volume, make_cudaExtent(16, 4, 3)));
  std::vector<char> cube(16 * 4 * 3, 7), cube_back(cube.size());
  cudaMemcpy3DParms parameters{};
  parameters.srcPtr = make_cudaPitchedPtr(cube.data(), 16, 16, 4);
  parameters.dstPtr = volume;
  parameters.extent = make_cudaExtent(16, 4, 3);
  parameters.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&parameters));
  parameters.srcPtr = volume;
  parameters.dstPtr = make_cudaPitchedPtr(cube_back.data(), 16, 16, 4);
  parameters.kind = cudaMemcpyDeviceToHost;
  OK(cudaMemcpy3D(&parameters));
  CHECK(cube == cube_back);
  OK(cudaFree(volume.ptr));
  // Wrong directions.
  int *a = nullptr, *b = nullptr;
  OK(cudaMalloc(&a, bytes));
  OK(cudaMalloc(&b, bytes));
  std::vector<int> values(count, 3);
  EXPECT(cudaMemcpy(a, values.data(), bytes, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT(cudaMemcpy(values.data(), a, bytes, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT(cudaMemcpy(a, b, bytes, static_cast<cudaMemcpyKind>(17)), cudaErrorInvalidMemcpyDirection);
  (void)cudaGetLastError();
  OK(cudaMemcpy(a, values.data(), bytes, cudaMemcpyDefault));
  OK(cudaMemcpy(b, a, bytes, cudaMemcpyDefault));
  CHECK(all(fetch(b, count), 3));
  // A pageable source may be changed right after the call; a pinned one may not.
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaMemcpyAsync(a, values.data(), bytes, cudaMemcpyHostToDevice, stream));
  std::fill(values.begin(), values.end(), 8);
  OK(cudaStreamSynchronize(stream));
  CHECK(all(fetch(a, count), 3));
  int* pinned = nullptr;
  OK(cudaMallocHost(&pinned, bytes));
  std::fill(pinned, pinned + count, 5);
  OK(cudaMemcpyAsync(a, pinned, bytes, cudaMemcpyHostToDevice, stream));
  std::fill(pinned, pinned + count, 6);  // too early
  OK(cudaStreamSynchronize(stream));
  CHECK(all(fetch(a, count), 6));
  // To pageable memory: done at return. To pinned memory: not before synchronisation.
  std::fill(values.begin(), values.end(), 0);
  OK(cudaMemcpyAsync(values.data(), a, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK(all(values, 6));
  std::fill(pinned, pinned + count, 0);
  OK(cudaMemcpyAsync(pinned, a, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK(pinned[0] == 0);
  OK(cudaStreamSynchronize(stream));
  CHECK(pinned[0] == 6);
  OK(cudaFreeHost(pinned));
  // Symbols, kernel parameters.
  int five = 5;
  OK(cudaMemcpyToSymbol(device_number, &five, sizeof five));
  read_symbols<<<1, 1>>>(a);
  CHECK(cudaGetLastError() == cudaSuccess);
  const auto symbols = fetch(a, 3);
  CHECK((symbols[0] == 5 && symbols[1] == 30 && symbols[2] == 7 && managed_number == 99));
  OK(cudaSetDevice(1));  // every device has its own copy
  int number = 0;
  OK(cudaMemcpyFromSymbol(&number, device_number, sizeof number));
  CHECK(number == 3);
  void* address = nullptr;
  OK(cudaGetSymbolAddress(&address, device_number));
  CHECK(address != nullptr);
  OK(cudaSetDevice(0));
  Big big{};
  big.bytes[99] = 2;
  big.number = 0.5;
  double* out = nullptr;
  OK(cudaMalloc(&out, sizeof(double)));
  big_parameter<<<1, 1>>>(big, out);
  CHECK(fetch(out, 1)[0] == 2.5);
  // Peers.
  OK(cudaSetDevice(1));
  int* other = nullptr;
  OK(cudaMalloc(&other, bytes));
  OK(cudaMemcpyPeer(other, 1, a, 0, bytes));
  CHECK(fetch(other, 3)[1] == 30);
  EXPECT(cudaMemcpyPeer(other, 0, a, 0, bytes), cudaErrorInvalidValue);
  int can = 0;
  OK(cudaDeviceCanAccessPeer(&can, 1, 0));
  CHECK(can == 1);
  OK(cudaDeviceEnablePeerAccess(0, 0));
  EXPECT(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
  copy<<<4, 256>>>(other, a, count);
  OK(cudaDeviceSynchronize());
  OK(cudaFree(other));
  OK(cudaSetDevice(0));
  OK(cudaFree(a));
  OK(cudaFree(b));
  OK(cudaFree(out));
  OK(cudaStreamDestroy(stream));
}
