#include <cstdio>

#include <lockstep/lockstep.hpp>

int main() {
  const lockstep::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  std::printf("lockstep %s, %d replicas\n", LOCKSTEP_VERSION_STRING, int(strategy.num_replicas_in_sync()));
  return strategy.num_replicas_in_sync() == 2 ? 0 : 1;
}
