#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend/graph_backend.hpp>

#include "measure/replica.hpp"

namespace lockstep::bench {

/// What the threads of this process enqueue on their ranks' streams, captured to be launched again: a graph
/// for each GPU (-G). One thread begins and ends the capture, while the others wait; in between all enqueue.
class CapturedCalls {
 public:
  /// Begins the capture. @param replicas  of this process; they outlive this.
  explicit CapturedCalls(std::span<const Replica> replicas);
  /// Drops a capture that has not ended. @pre on the thread that began it
  ~CapturedCalls();
  CapturedCalls(const CapturedCalls&) = delete;
  CapturedCalls& operator=(const CapturedCalls&) = delete;

  void end();
  /// Launches the graphs of these replicas, which one thread drives.
  void launch(std::span<const Replica> replicas) const;

 private:
  struct Gpu {
    int hardware;
    std::vector<const Replica*> replicas;  // several, if they are virtual devices; the first one's stream leads
    std::unique_ptr<backend::Graph> graph{};
  };
  std::vector<Gpu> gpus_;
  bool is_capturing_ = false;
};

}  // namespace lockstep::bench
