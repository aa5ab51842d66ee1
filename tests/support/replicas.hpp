#pragma once

#include <exception>
#include <thread>
#include <vector>

namespace lockstep::test {

/// Calls f(replica) on one thread for each of n replicas, waits for all, and rethrows the lowest one's
/// exception. Assert on the main thread only: let f return nothing, and check afterwards what it left.
template <class F>
void on_replicas(int n, F&& f) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(n));
  {
    std::vector<std::jthread> threads;
    for (int replica = 0; replica < n; ++replica) {
      threads.emplace_back([&, replica] {
        try {
          f(replica);
        } catch (...) {
          errors[static_cast<std::size_t>(replica)] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace lockstep::test
