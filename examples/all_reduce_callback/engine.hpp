// The header of a small inference engine, which knows nothing of lockstep. As in ggml, one thread drives all
// ranks. Each rank multiplies by its columns of a matrix, and a callback adds up what they have.
#pragma once

#include <cstdint>
#include <vector>

namespace engine {

// What one rank has, and after the callback the sum over all ranks.
struct Part {
  float* data;
  std::int64_t count;
  void* stream;  // the rank's CUDA stream; not used on the host
};

struct AllReduce {
  void* (*init)(bool on_gpus, int num_ranks);            // null: it cannot be had
  bool (*all_reduce)(void* context, const Part* parts);  // one part for each rank; false: nothing was done
  void (*free)(void* context);
};

constexpr int kRows = 1000;
constexpr int kColumns = 96;
constexpr int kLayers = 5;

// The rows of layer * (row + column), multiplied by the ones in the rank's columns.
inline std::vector<float> multiply(int layer, int rank, int num_ranks) {
  std::vector<float> result(kRows);
  for (int row = 0; row < kRows; ++row)
    for (int column = rank; column < kColumns; column += num_ranks)
      result[static_cast<std::size_t>(row)] += static_cast<float>(layer * (row + column));
  return result;
}

}  // namespace engine
