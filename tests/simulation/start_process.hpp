#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "simulation/connections_of_process.hpp"
#include "simulation/system/network.hpp"
#include "simulation/system/system.hpp"

namespace lockstep::simulation {

/// Starts a process on the host that calls f, leaves its clusters, and ends. What f throws, and a descriptor
/// that it leaves open, is a failure.
inline Process& start_process(System& system, std::string host, std::function<void()> f) {
  Process& process = system.add_process(std::move(host));
  auto* const given = new std::function<void()>(std::move(f));  // a killed process does not give it back
  system.start_thread(
      process,
      [](void* argument) -> void* {
        System& own = *System::current();
        try {
          const std::unique_ptr<std::function<void()>> main(static_cast<std::function<void()>*>(argument));
          (*main)();
          leave_connections();
        } catch (const std::exception& error) {
          own.fail("process " + std::to_string(own.process().number) + " has thrown " + error.what());
        }
        if (const auto left = Network::current().num_descriptors(own.process()) + own.process().files.size();
            left > 0)
          own.fail("process " + std::to_string(own.process().number) + " has left " + std::to_string(left) +
                   " descriptors open");
        return nullptr;
      },
      given, nullptr);
  return process;
}

/// Waits until the process has ended, or for so long. @return whether it has.
inline bool await_end(System& system, const Process& process, Time limit) {
  const Time end = system.now() + limit;
  while (!system.has_ended(process) && system.now() < end) system.sleep_until(system.now() + kMillisecond);
  return system.has_ended(process);
}

}  // namespace lockstep::simulation
