#include "collectives/collective.hpp"

#include <algorithm>
#include <array>

#include "collectives/table.hpp"

namespace lockstep::bench {
namespace {

constexpr std::array kTable{&kAllReduce};

}  // namespace

std::span<const Collective* const> all_collectives() { return kTable; }

std::span<const std::string_view> collective_names() {
  static const auto names = [] {
    std::array<std::string_view, kTable.size()> result;
    std::ranges::transform(kTable, result.begin(), &Collective::name);
    return result;
  }();
  return names;
}

const Collective& find_collective(std::string_view name) {
  return **std::ranges::find(kTable, name, &Collective::name);
}

}  // namespace lockstep::bench
