#include "replica.hpp"

#include <algorithm>
#include <map>

namespace lockstep::bench {

void Replica::allocate(std::int64_t size_bytes) {
  send_storage = Tensor::zeros(Shape(size_bytes), DType::u8, device);
  receive_storage = Tensor::zeros(Shape(size_bytes), DType::u8, device);
}

void Replica::place(std::int64_t offset_bytes) {
  send = static_cast<std::byte*>(send_storage.data()) + offset_bytes;
  receive = static_cast<std::byte*>(receive_storage.data()) + offset_bytes;
}

std::vector<Group> make_groups(const Options& options) {
  std::map<int, std::vector<int>> ranks_by_color;
  for (int rank = 0; rank < options.num_ranks(); ++rank)
    ranks_by_color[options.split.color(rank)].push_back(rank);

  std::vector<Group> groups;
  for (auto& [color, ranks] : ranks_by_color) {
    std::vector<Device> devices;
    for (const int rank : ranks) devices.emplace_back(DeviceKind::cpu, options.first_device + rank);
    groups.push_back({color, ranks, Communicator::create(devices)});
  }
  return groups;
}

std::vector<Replica> make_replicas(const Options& options, const std::vector<Group>& groups) {
  std::vector<Replica> replicas;
  for (int rank = 0; rank < options.num_ranks(); ++rank) {
    const auto group =
        std::ranges::find_if(groups, [&](const Group& g) { return std::ranges::count(g.ranks, rank) > 0; });
    const auto position = std::ranges::find(group->ranks, rank) - group->ranks.begin();
    replicas.push_back({.rank = rank,
                        .group = static_cast<int>(group - groups.begin()),
                        .rank_in_group = static_cast<int>(position),
                        .device = group->communicator.devices()[static_cast<std::size_t>(position)]});
  }
  return replicas;
}

std::int64_t largest_buffer_bytes(int num_ranks, std::int64_t free_bytes) {
  constexpr std::int64_t kMostReserve = std::int64_t{4} << 30;
  return (free_bytes - std::min(free_bytes / 16, kMostReserve)) / (2 * num_ranks);
}

}  // namespace lockstep::bench
