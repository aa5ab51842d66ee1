// A program that uses the host alone, for a machine without a driver, NCCL and cuBLAS: hidden.sh runs it as
// there.
#include <cstdio>

#include <dlfcn.h>

#include <lockstep/lockstep.hpp>

using namespace lockstep;

int main() {
  for (const char* name : {"libcuda.so.1", "libnccl.so.2", "libcublas.so.13"}) {
    if (::dlopen(name, RTLD_NOW) == nullptr) continue;
    std::printf("skipped: %s cannot be hidden, it is where the loader always looks\n", name);
    return 77;
  }
  if (!DeviceManager::instance().devices(DeviceKind::gpu).empty()) return 1;
  DeviceManager::instance().set_virtual_devices("CPU:0", 2);
  MirroredStrategy strategy;
  const auto sums = strategy.run([](ReplicaContext& ctx) {
    return ctx.all_reduce(ReduceOp::sum, static_cast<float>(ctx.replica_id_in_sync_group() + 1));
  });
  if (sums.size() != 2 || sums[1].item<float>() != 3) return 1;
  std::printf("two replicas on the host\n");
}
