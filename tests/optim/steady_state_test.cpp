// Optimizers take nothing from the heap in steady state.
#include "support/steady_state.hpp"

#include <cstdint>
#include <memory>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;
namespace optim = ls::optim;
using ls::ReplicaContext;
using ls::Tensor;
using ls::test::allocations_in_run;
using ls::test::allocations_of;

namespace {

std::unique_ptr<optim::Optimizer> make_optimizer(int kind, double clip_norm) {
  switch (kind) {
    case 0: return std::make_unique<optim::SGD>(optim::SGDOptions{.global_clip_norm = clip_norm});
    case 1: return std::make_unique<optim::Momentum>(optim::MomentumOptions{.global_clip_norm = clip_norm});
    case 2: return std::make_unique<optim::Adam>(optim::AdamOptions{.global_clip_norm = clip_norm});
    default: return std::make_unique<optim::AdamW>(optim::AdamWOptions{.global_clip_norm = clip_norm});
  }
}

}  // namespace

TEST_CASE("apply_gradients allocates nothing in steady state", "[optim][host]") {
  const int n = GENERATE(1, 2, 3);
  const bool is_central = GENERATE(false, true);
  const int kind = GENERATE(0, 1, 2, 3);
  const double clip_norm = GENERATE(0.0, 1.0);
  const std::int64_t rows = GENERATE(2, 20'000);  // on this thread, or on the replicas'
  const std::unique_ptr<ls::Strategy> strategy = ls::test::host_or_central(n, is_central);
  const auto optimizer = make_optimizer(kind, clip_norm);
  const auto scope = strategy->scope();
  const ls::Variable w(Tensor::ones({rows, 3})), b(Tensor::ones({5}));
  const auto gradients_of = [&](const Tensor& dw, const Tensor& db) {
    return std::vector<optim::GradientAndVariable>{{dw, w}, {db, b}};
  };
  const auto outside = gradients_of(Tensor::ones({rows, 3}), Tensor::ones({5}));
  std::vector<std::vector<optim::GradientAndVariable>> inside(static_cast<std::size_t>(n));
  strategy->run([&](ReplicaContext& context) {
    inside[static_cast<std::size_t>(context.local_index())] =
        gradients_of(Tensor::ones({rows, 3}), Tensor::ones({5}));
  });
  const auto mine = [&](const ReplicaContext& context) -> const auto& {
    return inside[static_cast<std::size_t>(context.local_index())];
  };
  CAPTURE(n, is_central, kind, clip_norm, rows);
  CHECK(allocations_in_run(*strategy,
                           [&](ReplicaContext& context) { optimizer->apply_gradients(mine(context)); }) == 0);
  CHECK(allocations_in_run(*strategy, [&](ReplicaContext& context) {
          optimizer->apply_reduced_gradients(mine(context));
        }) == 0);
  CHECK(allocations_of([&] { optimizer->apply_gradients(outside); }) == 0);
  // A list that the caller makes for the call is its own: one std::vector.
  CHECK(allocations_in_run(
            *strategy,
            [&](ReplicaContext& context) {
              optimizer->apply_gradients({{mine(context)[0].gradient, w}, {mine(context)[1].gradient, b}});
            },
            n * ls::test::kSteps) == n * ls::test::kSteps);
}
