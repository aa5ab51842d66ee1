#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#include "options/options.hpp"
#include "processes/processes.hpp"
#include "strategy/runtime/replica_groups.hpp"

namespace lockstep::bench {

enum class PlacementKind : std::uint8_t { out_of_place, in_place };

/// One rank's place among the ranks of all processes, and its buffers.
struct RankBuffers {
  int rank = 0;
  int group = 0;          ///< Index into the groups.
  int rank_in_group = 0;  ///< The rank its communicator knows.
  std::byte* send = nullptr;
  std::byte* receive = nullptr;
};

/// One rank of this process: its device, stream and buffers, as large as the largest size.
struct Replica : RankBuffers {
  Replica(const RankBuffers& place, const Device& on) : RankBuffers(place), device(on) {}

  Device device;
  Stream stream{device};

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
  std::vector<int> ranks;                          ///< Of all processes.
  std::shared_ptr<detail::WorkerGroup> workers{};  ///< The ranks' processes; null: all are in one.
  std::optional<detail::ReplicaGroup> local{};     ///< The ranks of this process; none: it has none.

  int num_ranks() const { return static_cast<int>(ranks.size()); }
  /// @pre this process has a rank.
  Communicator& communicator() { return local->communicator(); }
};

/// By ascending colour. All processes make theirs together.
std::vector<Group> make_groups(const Options& options, const Processes& processes);
/// The places of all ranks of all processes, without buffers.
std::vector<RankBuffers> make_places(const std::vector<Group>& groups);
/// @param places  of all ranks. @return this process's.
std::vector<Replica> make_replicas(const Options& options, const std::vector<RankBuffers>& places);

/// Splits the first rank's GPU into as many devices as --virtual says; without it does nothing. @pre No
/// device has been used.
/// @throws NotFound  there is no such device.
void split_device(const Options& options);

/// The devices of this process's ranks.
std::vector<Device> make_devices(const Options& options);
/// @throws OptionError  in all processes: some lack devices of their ranks; names these processes and
/// devices.
void require_devices(const Options& options, const Processes& processes);

/// The memory for buffers: how much is free, and how many ranks share it. All host replicas of a host share
/// theirs, and so do virtual devices of one GPU; else it is the memory of the GPU that has the least.
struct SharedMemory {
  std::int64_t free_bytes = 0;
  int num_ranks = 1;
  int buffers_per_rank = 2;  ///< The host's floor of several processes has two more.
};
/// The memory of the process that has the least for each rank. @throws NotFound  there is no such device.
SharedMemory find_memory(const Options& options, const Processes& processes);

/// The bytes that each buffer may have: the free memory, less a reserve, divided by the number of buffers.
/// This is nccl-tests' rule, except that replicas may share one memory.
std::int64_t largest_buffer_bytes(const SharedMemory& memory);

}  // namespace lockstep::bench
