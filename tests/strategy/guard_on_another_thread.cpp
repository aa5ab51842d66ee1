#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>
#include <thread>

#include <lockstep/lockstep.hpp>

/// guard_on_another_thread GUARD: makes a guard of that type, which another thread destroys. That must end
/// the program, as the guard would count for ever on the thread that made it.

namespace ls = lockstep;

namespace {

template <class Guard, class... Args>
void destroy_elsewhere(Args&&... args) {
  auto guard = std::make_unique<Guard>(args...);
  std::thread([&] { guard.reset(); }).join();
}

}  // namespace

int main(int, char** argv) {
  std::set_terminate([] {
    std::fputs("the program ends\n", stderr);
    std::_Exit(3);
  });
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const std::string_view name = argv[1];
  if (name == "StrategyScope") destroy_elsewhere<ls::StrategyScope>(strategy);
  if (name == "ColocationScope")
    destroy_elsewhere<ls::ColocationScope>(strategy, strategy.extended().worker_devices());
  if (name == "LogicalDeviceScope") destroy_elsewhere<ls::LogicalDeviceScope>(strategy, 0);
  if (name == "DeviceScope") destroy_elsewhere<ls::DeviceScope>(ls::Device("CPU:1"));
  if (name == "StreamScope") destroy_elsewhere<ls::StreamScope>(ls::current_stream("CPU:1"));
  if (name == "sync_on_read") destroy_elsewhere<ls::sync_on_read>();
  return 0;
}
