#include <cstdint>
#include <cstring>
#include <iostream>
#include <optional>

#include <dlfcn.h>

#include <lockstep/lockstep.hpp>

#include "dlpack/abi.hpp"

/// `lockstep_static_tensors lent|taken`: P40 a tensor that is lent, or taken, in a static variable goes back
/// after the devices were released, and the program ends with status 0 and without output. A taken one then
/// makes no call of CUDA's, as its streams are gone.

namespace ls = lockstep;

#ifndef LOCKSTEP_TEST_DEVICE_KIND
#define LOCKSTEP_TEST_DEVICE_KIND "CPU"
#endif

namespace {

alignas(256) float memory[4];  // nobody uses it, so a GPU's tensor may have its address
std::int64_t extent = 4, stride = 1;
DLManagedTensorVersioned managed{};
int num_ends = 0;
int num_taken = 0;
int num_calls = 0;

struct AfterTensors {
  ~AfterTensors() {
    if (num_ends != num_taken) std::cerr << "the deleter was called " << num_ends << " times\n";
    if (num_taken > 0 && num_calls > 0) std::cerr << "the deleter came after " << num_calls << " calls\n";
  }
} after_tensors;  // destroyed last

ls::dlpack::Managed lent;
std::optional<ls::Tensor> taken;

struct BeforeTensors {
  ~BeforeTensors() {
    using Hook = int (*)(const char*, int);
    const auto on_call = reinterpret_cast<void (*)(Hook)>(::dlsym(RTLD_DEFAULT, "vgpu_on_call"));
    if (on_call != nullptr) on_call([](const char*, int) { return ++num_calls, 0; });
  }
} before_tensors;  // destroyed first

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const ls::Device device(LOCKSTEP_TEST_DEVICE_KIND ":0");
  const ls::StreamRef stream = ls::current_stream(device);
  const ls::Tensor ones = ls::Tensor::ones({4}, ls::DType::f32, device);
  if (std::strcmp(argv[1], "lent") == 0) {
    lent = ls::dlpack::to(ones, stream);
  } else {
    const bool is_gpu = device.kind() == ls::DeviceKind::gpu;
    managed.version = {1, 1};
    managed.deleter = [](DLManagedTensorVersioned*) { ++num_ends; };
    managed.dl_tensor = {memory, {is_gpu ? kDLCUDA : kDLCPU, 0}, 1, {2, 32, 1}, &extent, &stride, 0};
    taken = ls::dlpack::from(ls::dlpack::Managed(&managed), stream);
    num_taken = 1;
  }
  return ones.to_vector<float>()[3] == 1.0f ? 0 : 1;
}
