#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#include "options.hpp"

namespace lockstep::bench {

enum class PlacementKind : std::uint8_t { out_of_place, in_place };

/// One rank's device, stream and buffers, as large as the largest size.
struct Replica {
  int rank = 0;
  int group = 0;          ///< Index into the groups.
  int rank_in_group = 0;  ///< The rank its communicator knows.
  Device device;
  Stream stream{device};
  std::byte* send = nullptr;
  std::byte* receive = nullptr;

  /// Allocates and writes the buffers; called by the thread that drives the rank, so that the pages are near
  /// it.
  void allocate(std::int64_t size_bytes);
  /// Where the buffers begin in what was allocated.
  void place(std::int64_t offset_bytes);
  /// Where the collective's input is read.
  std::byte* input(PlacementKind placement) const {
    return placement == PlacementKind::in_place ? receive : send;
  }
  std::int64_t allocated_bytes() const {
    return send_storage.defined() ? send_storage.nbytes() + receive_storage.nbytes() : 0;
  }

  Tensor send_storage{}, receive_storage{};
};

/// Ranks that communicate with each other: all, or those of one colour of NCCL_TESTS_SPLIT.
struct Group {
  int color = 0;
  std::vector<int> ranks;
  Communicator communicator;
};

std::vector<Group> make_groups(const Options& options);
/// @param groups  by ascending colour.
std::vector<Replica> make_replicas(const Options& options, const std::vector<Group>& groups);

/// What the allocations of all replicas may hold, in bytes per buffer: the memory that is free, less a
/// reserve, divided by the number of buffers. nccl-tests' rule, but that host replicas share one memory.
std::int64_t largest_buffer_bytes(int num_ranks, std::int64_t free_bytes);

}  // namespace lockstep::bench
