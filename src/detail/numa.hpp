#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace lockstep::detail {

/// The machine's cores and NUMA nodes according to hwloc: each node's memory is nearer to its own cores. With
/// one node, or without the right to bind, calls that bind do nothing. Thread-safe.
class Numa {
 public:
  /// This machine, examined once.
  static const Numa& machine();
  /// A synthetic machine of hwloc, such as "node:2 core:4 pu:1"; nothing can be bound to it.
  explicit Numa(const std::string& synthetic);
  ~Numa();

  int num_nodes() const noexcept;
  /// The node of object k if objects are assigned to the nodes in turn; -1 with one node.
  int node_of(int k) const noexcept { return num_nodes() < 2 ? -1 : k % num_nodes(); }

  /// Restricts the calling thread to those of the node's cores that it may use. -1: does nothing.
  /// @return whether the thread is bound now.
  bool bind_thread(int node) const noexcept;
  /// The index of the calling thread's current core among those that it may use; 0 if it is unknown.
  int core() const noexcept;
  /// Binds the calling thread to the k-th (modulo their number) of the cores that it may use.
  /// @return whether the thread is bound now.
  bool bind_to_core(int k) const noexcept;
  /// Moves the thread to that core; the scheduler may move it again. Otherwise threads that are started
  /// together may share a core for long while another core is idle.
  bool move_to_core(int k) const noexcept;
  /// Makes the pages of untouched memory come from the node. -1: does nothing. @return whether they will.
  bool bind_memory(void* data, std::size_t size_bytes, int node) const noexcept;

 private:
  Numa();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::detail
