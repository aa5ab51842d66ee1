#include "collectives/collective.hpp"

#include <algorithm>
#include <array>

#include "collectives/table.hpp"

namespace lockstep::bench {
namespace {

constexpr std::array kTable{&kAllReduce, &kReduce,  &kBroadcast, &kAllGather, &kReduceScatter,
                            &kGather,    &kScatter, &kAllToAll,  &kAllToAllV, &kSendRecv};

}  // namespace

std::int64_t part_of(std::int64_t elements, int num_ranks, std::int64_t element_bytes) {
  constexpr std::int64_t kAlignment = 16;
  const std::int64_t multiple = kAlignment / element_bytes;
  return elements / num_ranks / multiple * multiple;
}

std::span<const Collective* const> all_collectives() { return kTable; }

const Collective* find_collective(std::string_view name) {
  const auto found = std::ranges::find(kTable, name, &Collective::name);
  return found == kTable.end() ? nullptr : *found;
}

}  // namespace lockstep::bench
