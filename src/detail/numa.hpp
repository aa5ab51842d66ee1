#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace lockstep::detail {

/// The machine's cores and NUMA nodes, as hwloc tells them: memory is nearer to some cores than to others.
/// With one node, or where nothing can be bound, nodes mean nothing. Thread-safe.
class Numa {
 public:
  /// This machine; looked at once.
  static const Numa& machine();
  /// A machine that hwloc makes up, "node:2 core:4 pu:1"; nothing can be bound to it.
  explicit Numa(const std::string& synthetic);
  ~Numa();

  int num_nodes() const noexcept;
  /// The node for the k-th of things that are dealt out to the nodes in turn; -1 with one node.
  int node_of(int k) const noexcept { return num_nodes() < 2 ? -1 : k % num_nodes(); }

  /// Keeps the calling thread on the node's cores, of those that it may use. -1: nothing.
  /// @return whether it is bound now.
  bool bind_thread(int node) const noexcept;
  /// The place of the core that the calling thread is on among those that it may use; 0 if that is not known.
  int core() const noexcept;
  /// Keeps the calling thread on the k-th of the cores that it may use, counted in turn.
  /// @return whether it is bound now.
  bool bind_to_core(int k) const noexcept;
  /// Moves it there; the scheduler may move it on. Threads that are started together may else share a core
  /// for long, while another is idle.
  bool move_to_core(int k) const noexcept;
  /// Has the pages of untouched memory taken from the node. -1: nothing. @return whether they will be.
  bool bind_memory(void* data, std::size_t size_bytes, int node) const noexcept;

 private:
  Numa();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::detail
