#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#include "options/options.hpp"

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

  /// Allocates and writes the buffers. The thread that drives the rank calls it, so that the pages are near
  /// the thread.
  void allocate(std::int64_t size_bytes);
  /// The buffers' offset in their allocations.
  void place(std::int64_t offset_bytes);

  // The host accesses the buffers after all work of the stream.
  bool is_on_host() const noexcept { return device.kind() == DeviceKind::cpu; }
  void write(std::byte* to, std::span<const std::byte> bytes) const;
  void read(const std::byte* from, std::span<std::byte> bytes) const;
  /// Copies within the device's memory, on the stream.
  void copy(std::byte* to, const std::byte* from, std::int64_t size_bytes) const;
  void fill_with_garbage(std::byte* to, std::int64_t size_bytes) const;
  void fill_with_ones(std::byte* to, std::int64_t count, DType dtype) const;

  std::int64_t allocated_bytes() const {
    return send_storage.defined() ? send_storage.nbytes() + receive_storage.nbytes() : 0;
  }

  Tensor send_storage{}, receive_storage{};
};

/// Ranks that communicate with each other: all ranks, or those of one colour of NCCL_TESTS_SPLIT.
struct Group {
  int color = 0;
  std::vector<int> ranks;
  Communicator communicator;
};

std::vector<Group> make_groups(const Options& options);
/// @param groups  by ascending colour.
std::vector<Replica> make_replicas(const Options& options, const std::vector<Group>& groups);

/// Splits the first rank's GPU into as many devices as --virtual says; without it does nothing. @pre No
/// device has been used.
/// @throws NotFound  there is no such device.
void split_device(const Options& options);

/// The devices of ranks 0, 1, ...
std::vector<Device> make_devices(const Options& options);

/// The memory for buffers: how much is free, and how many ranks share it. All host replicas share theirs, and
/// so do virtual devices of one GPU; else it is the memory of the GPU that has the least.
struct SharedMemory {
  std::int64_t free_bytes = 0;
  int num_ranks = 1;
};
/// @throws NotFound  there is no such device.
SharedMemory find_memory(const std::vector<Device>& devices);

/// The bytes that each buffer may have: the free memory, less a reserve, divided by the number of buffers.
/// This is nccl-tests' rule, except that replicas may share one memory.
std::int64_t largest_buffer_bytes(const SharedMemory& memory);

}  // namespace lockstep::bench
