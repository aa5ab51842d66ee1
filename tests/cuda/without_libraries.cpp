// On GPUs without NCCL and cuBLAS, which this program hides: what needs them says so, the rest works. With an
// argument NCCL is there, and a strategy of two GPUs says that.
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

#include <dlfcn.h>

#include <lockstep/lockstep.hpp>

using namespace lockstep;

static bool hides = true;

extern "C" void* dlopen(const char* file, int mode) noexcept {
  const auto loader = reinterpret_cast<decltype(&::dlopen)>(::dlsym(RTLD_NEXT, "dlopen"));
  const std::string name = file != nullptr ? file : "";
  if (!hides || (name.find("libnccl") == std::string::npos && name.find("libcublas") == std::string::npos))
    return loader(file, mode);
  return loader(("/hidden/" + name).c_str(), mode);
}

namespace {

template <class F>
void expect_unsupported(const F& f, std::initializer_list<const char*> parts) {
  std::string message = "no error";
  try {
    f();
  } catch (const Unsupported& error) {
    message = error.what();
  }
  for (const char* part : parts) {
    if (message.find(part) != std::string::npos) continue;
    std::fprintf(stderr, "\"%s\" does not say \"%s\"\n", message.c_str(), part);
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Device gpu("GPU:0");
  const auto two_gpus = [] { MirroredStrategy strategy({Device("GPU:0"), Device("GPU:1")}); };
  if (argc > 1) {
    hides = false;
    expect_unsupported(two_gpus, {argv[1], "built with NCCL 2.", "2.24"});
    return 0;
  }
  for (int i = 0; i < 2; ++i)
    expect_unsupported(two_gpus, {"several GPUs needs NCCL", "not loaded", "libnccl.so.2", "/libnccl.so.2",
                                  "Install NCCL", "LD_LIBRARY_PATH"});
  const Tensor ones = Tensor::ones({2, 2}, DType::f32, gpu);
  expect_unsupported([&] { static_cast<void>(matmul(ones, ones)); },
                     {"matmul on GPUs needs cuBLAS", "libcublas.so.", "Install"});

  OneDeviceStrategy strategy(gpu);
  const auto sums =
      strategy.run([&](ReplicaContext& ctx) { return ctx.all_reduce(ReduceOp::sum, ones + ones); });
  return sums[0].to_vector<float>() == std::vector<float>(4, 2) ? 0 : 1;
}
