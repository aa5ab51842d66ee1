#include "measure/floor_arena.hpp"

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::bench {
namespace {

constexpr std::size_t kPage = 4096;

// @return the processes' group.
backend::ProcessGroup& on_one_host(const Processes& processes) {
  LOCKSTEP_EXPECTS(
      processes.are_on_one_host(), Unsupported,
      "--floor: the processes are on several hosts, and the floor is a loop over memory that they "
      "share. Start all of them on one host, or leave --floor out.");
  return processes.group();
}

}  // namespace

FloorArena::FloorArena(const Processes& processes, int num_ranks_per_process, std::int64_t size_bytes)
    : ranks_per_process_(static_cast<std::size_t>(num_ranks_per_process)),
      buffer_bytes_((static_cast<std::size_t>(size_bytes) + kPage - 1) / kPage * kPage),
      segment_(
          on_one_host(processes), "--floor",
          std::vector(static_cast<std::size_t>(processes.count()), 2 * ranks_per_process_ * buffer_bytes_)) {}

void FloorArena::place(std::vector<RankBuffers>& ranks, std::int64_t offset_bytes) const {
  for (RankBuffers& buffers : ranks) {
    const auto rank = static_cast<std::size_t>(buffers.rank);
    std::byte* const own = segment_.part(static_cast<int>(rank / ranks_per_process_)).data() +
                           2 * (rank % ranks_per_process_) * buffer_bytes_ + offset_bytes;
    buffers.send = own;
    buffers.receive = own + buffer_bytes_;
  }
}

}  // namespace lockstep::bench
