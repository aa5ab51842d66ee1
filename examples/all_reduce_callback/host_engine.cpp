// The engine on the host.
#include <cstddef>
#include <iostream>
#include <vector>

#include "lockstep_all_reduce.hpp"

int main() {
  constexpr int kRanks = 4;
  const engine::AllReduce& callback = lockstep_all_reduce;
  void* const context = callback.init(/*on_gpus=*/false, kRanks);
  if (context == nullptr) return 1;
  bool right = true;
  for (int layer = 1; layer <= engine::kLayers; ++layer) {
    std::vector<std::vector<float>> results;
    std::vector<engine::Part> parts;
    for (int rank = 0; rank < kRanks; ++rank) results.push_back(engine::multiply(layer, rank, kRanks));
    for (std::vector<float>& result : results) parts.push_back({result.data(), engine::kRows, nullptr});
    right = callback.all_reduce(context, parts.data()) && right;
    for (const std::vector<float>& result : results) right = right && result == engine::multiply(layer, 0, 1);
  }
  callback.free(context);
  std::cout << engine::kLayers << " layers on " << kRanks << " ranks: " << (right ? "right" : "wrong")
            << '\n';
  return right ? 0 : 1;
}
