#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include <gloo/context.h>
#include <gloo/transport/device.h>

namespace lockstep::engines {

/// A Gloo context of connections between each two processes. Unlike Gloo's own, another thread can end its
/// start.
class FullMesh final : public gloo::Context {
 public:
  /// The addresses of a process, of equal size: one for each other process, by number.
  using Addresses = std::vector<char>;

  /// Listens. @param limit  of Gloo's context: connections are made within five times that.
  FullMesh(int process, int num_processes, std::shared_ptr<gloo::transport::Device> device,
           std::chrono::milliseconds limit);

  Addresses own_addresses();
  /// Connects with all, in the order of their numbers. @throws Gloo's exceptions, and those of addresses_of
  /// @return false: it was abandoned.
  bool connect(const std::function<Addresses(int process)>& addresses_of);
  /// Ends connect(), and closes all connections. Any thread.
  void abandon() noexcept;

 private:
  std::atomic<bool> is_abandoned_{false};
};

}  // namespace lockstep::engines
