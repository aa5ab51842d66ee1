#include <lockstep/lockstep.hpp>

#define JOIN_WORDS(a, b) a##b
#define JOIN(a, b) JOIN_WORDS(a, b)

namespace ls = lockstep;

// The sum of `value` over two replicas. Runs `between` in the scope of the strategy.
extern "C" float JOIN(NAME, _sum)(float value, void (*between)()) {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  if (between) between();
  const auto sums = strategy.run([&](ls::ReplicaContext& context) {
    return context.all_reduce(ls::ReduceOp::sum, ls::Tensor::full({1}, value));
  });
  return strategy.reduce(ls::ReduceOp::mean, sums, /*axis=*/0).item<float>();
}

extern "C" bool JOIN(NAME, _has_strategy)() { return ls::has_strategy(); }

extern "C" const void* JOIN(NAME, _address)() { return reinterpret_cast<const void*>(&ls::has_strategy); }
