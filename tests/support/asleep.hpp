#pragma once

#include <fstream>
#include <string>
#include <thread>

#include <unistd.h>

namespace lockstep::test {

/// Whether a thread of this process waits in the kernel.
inline bool is_asleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string number, name, state;
  file >> number >> name >> state;
  return state == "S";
}

inline void wait_until_asleep(pid_t thread) {
  while (!is_asleep(thread)) std::this_thread::yield();
}

}  // namespace lockstep::test
