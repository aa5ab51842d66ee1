#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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

  // Access to the buffers by the host, after all that the stream has to do.
  bool is_on_host() const noexcept { return device.kind() == DeviceKind::cpu; }
  void write(std::byte* to, std::span<const std::byte> bytes) const;
  void read(const std::byte* from, std::span<std::byte> bytes) const;
  /// Within the device's memory, on the stream.
  void copy(std::byte* to, const std::byte* from, std::int64_t size_bytes) const;
  void fill_with_garbage(std::byte* to, std::int64_t size_bytes) const;
  void fill_with_ones(std::byte* to, std::int64_t count, DType dtype) const;

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

/// Splits the GPU that is the first rank's device into as many as --virtual says; nothing without it. Before
/// any device is used.
/// @throws NotFound  there is no such device.
void split_device(const Options& options);

/// The devices of ranks 0, 1, ...
std::vector<Device> make_devices(const Options& options);

/// Memory for buffers: what is free, and how many ranks share it. All host replicas do, and virtual devices
/// of one GPU; else the GPU with the least.
struct SharedMemory {
  std::int64_t free_bytes = 0;
  int num_ranks = 1;
};
/// @throws NotFound  there is no such device.
SharedMemory find_memory(const std::vector<Device>& devices);

/// What the allocations of all replicas may hold, in bytes per buffer: the memory that is free, less a
/// reserve, divided by the number of buffers. nccl-tests' rule, but that replicas may share one memory.
std::int64_t largest_buffer_bytes(const SharedMemory& memory);

}  // namespace lockstep::bench
