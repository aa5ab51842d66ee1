#pragma once

#include <algorithm>
#include <cstddef>

namespace lockstep::cuda {

/// What one launch of kernels/multi takes.
inline constexpr int kMostItems = 128;
inline constexpr int kMostPointers = 1024;

/// The launches for so many items of so many arrays each.
constexpr int num_tables(std::size_t num_items, std::size_t num_arrays) {
  const std::size_t most = std::min<std::size_t>(kMostItems, kMostPointers / num_arrays);
  return static_cast<int>((num_items + most - 1) / most);
}

}  // namespace lockstep::cuda
