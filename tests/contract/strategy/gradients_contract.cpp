#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <lockstep/lockstep.hpp>

#include "support/captured_stderr.hpp"
#include "support/components.hpp"
#include "support/expected.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Gradients on their way to optimizers: what is refused, clipping, accumulation.
namespace lockstep::test {

using Catch::Matchers::WithinRel;
using optim::SGD;

TEST_CASE("replicas that disagree are told, and nothing changes", "[strategy][optim]") {
  Replicas strategy(3);
  const auto scope = strategy.scope();
  Variable w(Tensor::scalar(1.0f), {.name = "w"}), b(Tensor::scalar(1.0f), {.name = "b"});
  SGD optimizer({.learning_rate = 0.5}), other;
  const auto apply = [&](auto fn) {
    strategy.run([&](ReplicaContext& ctx) { fn(ctx.replica_id_in_sync_group() == 2); });
  };
  const auto one = [] { return Tensor::scalar(1.0f); };
  using Maybe = std::optional<Tensor>;
  REQUIRE_THROWS_MATCHES(
      apply([&](bool last) {
        optimizer.apply_gradients({{last ? Maybe() : one(), w}, {one(), b}});
      }),
      CollectiveMismatch,
      says("apply_gradients: the gradient of the variable 'w' is nothing on replica 2, [] float32",
           "on replica 0"));
  REQUIRE_THROWS_MATCHES(apply([&](bool last) {
                           optimizer.apply_gradients({{last ? one() : Maybe(), w}, {one(), b}});
                         }),
                         CollectiveMismatch, says("'w' is [] float32", "on replica 2, nothing on replica 0"));
  REQUIRE_THROWS_MATCHES(apply([&](bool last) {
                           if (last)
                             optimizer.apply_gradients({{one(), w}});
                           else
                             optimizer.apply_gradients({{one(), w}, {one(), b}});
                         }),
                         CollectiveMismatch, says("replica 2 gave 1 gradients, replica 0 2"));
  REQUIRE_THROWS_MATCHES(apply([&](bool last) {
                           optimizer.apply_gradients({{one(), last ? b : w}, {one(), last ? w : b}});
                         }),
                         CollectiveMismatch,
                         says("gradient 0 is for the variable 'b' on replica 2, for 'w' on replica 0"));
  REQUIRE_THROWS_MATCHES(apply([&](bool last) {
                           (last ? other : optimizer).apply_gradients({{one(), w}});
                         }),
                         CollectiveMismatch, says("replica 2 calls another optimizer than replica 0"));
  REQUIRE_THROWS_MATCHES(
      apply([&](bool last) {
        optimizer.apply_gradients({{last ? Tensor::zeros({2}) : one(), w}});
      }),
      InvalidArgument,
      says("the gradient of the variable 'w' on replica 2 is [2] float32", "the variable [] float32"));
  REQUIRE_THROWS_MATCHES(apply([&](bool last) {
                           if (!last) optimizer.apply_gradients({{one(), w}});
                         }),
                         ContextError, says("apply_gradients", "replica 2", "returned without"));
  REQUIRE(optimizer.variables().empty());
  REQUIRE(same_everywhere<float>(w) == 1);
  REQUIRE(same_everywhere<float>(b) == 1);
  apply([&](bool) { optimizer.apply_gradients({{one(), w}}); });
  REQUIRE(same_everywhere<float>(w) == -0.5f);
  REQUIRE(steps(optimizer) == 1);
}

TEST_CASE("an empty Tensor for a gradient is refused, naming variable and replica", "[strategy][optim]") {
  Replicas strategy(2);
  Variable w = strategy.make_variable(Tensor::scalar(1.0f), {.name = "w"});
  SGD optimizer({.learning_rate = 0.5});
  REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{Tensor(), w}}), InvalidArgument,
                         says("apply_gradients", "gradient of the variable 'w'", "empty", "std::nullopt"));
  REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{IndexedSlices{}, w}}), InvalidArgument,
                         says("gradient of the variable 'w'", "empty"));
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    const bool first = ctx.replica_id_in_sync_group() == 0;
    optimizer.apply_gradients({{first ? Tensor::scalar(1.0f) : Tensor(), w}});
  }),
                         InvalidArgument, says("gradient of the variable 'w' on replica 1", "empty"));
  REQUIRE(components<float>(w) == std::vector<std::vector<float>>(2, {1}));
}

TEST_CASE("dense on one replica, sparse on another is a mismatch", "[strategy][optim]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable w(Tensor::zeros({2, 1}), {.name = "w"});
  SGD optimizer;
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == 0)
      optimizer.apply_gradients({{Tensor::zeros({2, 1}), w}});
    else
      optimizer.apply_gradients(
          {{IndexedSlices{Tensor::zeros({1, 1}), Tensor::from<std::int64_t>({0}, {1}), {2, 1}}, w}});
  }),
                         CollectiveMismatch,
                         says("'w' is sparse rows of [2, 1] float32 on replica 1", "on replica 0"));
}

TEST_CASE("errors in replica functions: what apply_gradients refuses", "[strategy][optim]") {
  Replicas strategy(2);
  Variable outside(Tensor::scalar(1.0f), {.name = "outside"});
  const auto scope = strategy.scope();
  Variable w(Tensor::scalar(1.0f), {.name = "w"});
  const auto one = [] { return Tensor::scalar(1.0f); };
  SGD optimizer;
  const auto per_replica = scalars<float>({1, 2});
  REQUIRE_THROWS_MATCHES(
      strategy.run([&] {
        optimizer.apply_gradients({{per_replica, w}});
      }),
      InvalidArgument,
      says("the gradient of the variable 'w' on replica 0 is a per-replica value with 2", "Pass it to run"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] {
    optimizer.apply_gradients({{std::nullopt, w}});
  }),
                         InvalidArgument, says("no gradient for any of the variables 'w'"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] {
    optimizer.apply_gradients({{one(), w}, {one(), w}});
  }),
                         InvalidArgument, says("'w' is listed twice"));
  REQUIRE_THROWS_MATCHES(
      strategy.run([&] {
        optimizer.apply_gradients({{one(), outside}});
      }),
      InvalidArgument,
      says("'outside' in MirroredStrategy", "made by another strategy, the default strategy"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { optimizer.build({w}); }), ContextError,
                         says("build", "inside replica"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { optimizer.set_learning_rate(1); }), ContextError,
                         says("set_learning_rate of SGD on replica"));
  REQUIRE_THROWS_MATCHES(strategy.extended().update(w,
                                                    [&](Tensor&) {
                                                      optimizer.apply_gradients({{one(), w}});
                                                    }),
                         ContextError, says("apply_gradients of SGD in a function given to update"));
  strategy.run([&] { optimizer.apply_gradients({}); });
  REQUIRE(optimizer.variables().empty());
  // A mirrored value takes part with its component, and merge functions are cross-replica context.
  const auto mirrored = strategy.extended().broadcast_to(Tensor::scalar(1.0f));
  optimizer.set_learning_rate(0.25);
  strategy.run([&](ReplicaContext& ctx) {
    optimizer.apply_gradients({{mirrored, w}});
    ctx.merge_call([&](Strategy&) { optimizer.apply_gradients({{Tensor::scalar(1.0f), w}}); });
  });
  REQUIRE(same_everywhere<float>(w) == 0.25f);
  REQUIRE(same_everywhere<float>(outside) == 1);
}

TEST_CASE("a gradient that is nothing on all replicas is left out, with a warning", "[strategy][optim]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable w(Tensor::scalar(1.0f), {.name = "w"}), b(Tensor::scalar(1.0f), {.name = "b"});
  SGD optimizer({.learning_rate = 0.5});
  const std::string warning = captured_stderr([&] {
    for (int i = 0; i < 2; ++i)
      strategy.run([&] { optimizer.apply_gradients({{Tensor::scalar(0.5f), w}, {std::nullopt, b}}); });
  });
  REQUIRE(warning.find("no gradient for the variables 'b'") != std::string::npos);
  REQUIRE(warning.find("no gradient") == warning.rfind("no gradient"));
  REQUIRE(same_everywhere<float>(w) == 0);
  REQUIRE(same_everywhere<float>(b) == 1);
}

TEST_CASE("a replica that fails before its apply_gradients releases the others", "[strategy][optim]") {
  Replicas strategy(3);
  const auto scope = strategy.scope();
  Variable w(Tensor::scalar(1.0f));
  SGD optimizer({.learning_rate = 1});
  const auto step = [&](int failing) {
    strategy.run([&](ReplicaContext& ctx) {
      if (ctx.replica_id_in_sync_group() == failing) throw std::runtime_error("no gradient today");
      optimizer.apply_gradients({{Tensor::scalar(1.0f), w}});
    });
  };
  for (const int failing : {0, 2})
    REQUIRE_THROWS_MATCHES(step(failing), std::runtime_error, says("no gradient today"));
  REQUIRE(same_everywhere<float>(w) == 1);
  step(-1);
  REQUIRE(same_everywhere<float>(w) == -2);
  REQUIRE(steps(optimizer) == 1);
}

TEST_CASE("gradients are clipped after the reduction, by one norm", "[strategy][optim]") {
  const int n = GENERATE(from_range(TestBackend::replica_counts()));
  for (const std::int64_t rows : {1, 300}) {
    CAPTURE(n, rows);
    Replicas strategy(n);
    const auto scope = strategy.scope();
    Variable w(Tensor::zeros({rows, 257})), b(Tensor::zeros({}));
    SGD optimizer({.learning_rate = 1, .global_clip_norm = 0.7});
    const auto step = [&](double size) {
      strategy.run([&](ReplicaContext& ctx) {
        const double g = size * (ctx.replica_id_in_sync_group() + 1);
        optimizer.apply_gradients({{filled<float>({rows, 257}, g), w}, {filled<float>({}, 2 * g), b}});
      });
    };
    step(3);
    const double sum = 3.0 * n * (n + 1) / 2;
    const double norm = sum * std::sqrt(static_cast<double>(rows) * 257 + 4);
    REQUIRE_THAT(same_everywhere<float>(w),
                 WithinRel(-sum * 0.7 / norm, 1e-5));  // squares are added in float
    REQUIRE_THAT(same_everywhere<float>(b), WithinRel(-2 * sum * 0.7 / norm, 1e-5));
    w.assign(0);
    b.assign(0);
    step(1.0 / 65536);  // short enough
    REQUIRE(same_everywhere<float>(w) == -static_cast<float>(triangular(n + 1)) / 65536);
    REQUIRE(same_everywhere<float>(b) == -static_cast<float>(2 * triangular(n + 1)) / 65536);
  }
}

TEST_CASE("gradients that are no numbers become NaN everywhere when they are clipped", "[strategy][optim]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable w(Tensor::zeros({2})), b(Tensor::zeros({}));
  SGD optimizer({.learning_rate = 1, .global_clip_norm = 1});
  strategy.run([&] {
    optimizer.apply_gradients(
        {{Tensor::full({2}, std::numeric_limits<float>::infinity()), w}, {Tensor::scalar(1.0f), b}});
  });
  for (const Variable& variable : {w, b})
    for (const auto& component : components<float>(variable)) REQUIRE(std::isnan(component[0]));
}

TEST_CASE("clipping leaves the caller's gradients as they are", "[strategy][optim]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable w(Tensor::zeros({2}));
  SGD optimizer({.learning_rate = 1, .global_clip_norm = 5});
  const auto g = strategy.extended().broadcast_to(Tensor::from<float>({6, 8}, {2}));
  optimizer.apply_gradients({{g, w}});
  for (const auto& component : components<float>(w)) REQUIRE(component == std::vector<float>{-3, -4});
  for (const Tensor& part : g) REQUIRE(part.to_vector<float>() == std::vector<float>{6, 8});
}

TEST_CASE("accumulated gradients are reduced in every n-th step", "[strategy][optim]") {
  const int n = GENERATE(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto scope = strategy.scope();
  Variable w(Tensor::zeros({3}));
  SGD optimizer({.learning_rate = 0.5});
  optim::GradientAccumulator accumulator(3);
  float expected = 0;
  for (int step = 0; step < 9; ++step) {
    strategy.run([&](ReplicaContext& ctx) {
      const Tensor g = Tensor::full({3}, static_cast<float>(ctx.replica_id_in_sync_group() + step));
      if (const auto total = accumulator.add({{g, w}})) optimizer.apply_gradients(*total);
    });
    if (step % 3 == 2) expected -= 0.5f * static_cast<float>(3 * triangular(n) + n * (3 * step - 3));
    REQUIRE(same_everywhere<float>(w) == expected);
  }
  REQUIRE(steps(optimizer) == 3);
}

TEST_CASE("a silent step needs no other replica", "[strategy][optim]") {
  Replicas strategy(3);
  const auto scope = strategy.scope();
  Variable w(Tensor::scalar(0.0f));
  SGD optimizer({.learning_rate = 1});
  optim::GradientAccumulator accumulator(2);
  // Replica 1 is through with its silent step before the others begin theirs, which they do one by one.
  std::atomic<int> turn{0};
  const std::vector<int> order{2, 0, 1};  // replica r's place
  const auto one_by_one = [&](ReplicaContext& ctx, auto fn) {
    const int mine = order[static_cast<std::size_t>(ctx.replica_id_in_sync_group())];
    for (int now; (now = turn.load()) != mine;) turn.wait(now);
    fn();
    turn.store(mine + 1);
    turn.notify_all();
  };
  std::atomic<int> totals{0};
  strategy.run([&](ReplicaContext& ctx) {
    one_by_one(ctx, [&] {
      if (accumulator.add({{Tensor::scalar(1.0f), w}})) ++totals;
    });
  });
  REQUIRE(totals == 0);
  strategy.run([&] {
    if (const auto total = accumulator.add({{Tensor::scalar(2.0f), w}})) optimizer.apply_gradients(*total);
  });
  REQUIRE(same_everywhere<float>(w) == -9);
  // Nor does it tell them: a replica that adds alone meets nobody.
  strategy.run([&](ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == 0) accumulator.add({{Tensor::scalar(1.0f), w}});
  });
  REQUIRE_THROWS_MATCHES(strategy.run([&] {
    if (const auto total = accumulator.add({{Tensor::scalar(2.0f), w}})) optimizer.apply_gradients(*total);
  }),
                         ContextError, says("apply_gradients", "returned without"));
  accumulator.reset();
  for (int i = 0; i < 2; ++i)
    strategy.run([&] {
      if (const auto total = accumulator.add({{Tensor::scalar(1.0f), w}})) optimizer.apply_gradients(*total);
    });
  REQUIRE(same_everywhere<float>(w) == -15);
}

TEST_CASE("iterations that were restored are honoured on all replicas", "[strategy][optim]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable w(Tensor::scalar(0.0));
  optim::Adam optimizer({.learning_rate = optim::LearningRate::piecewise_constant({100}, {1, 0.5})});
  optimizer.build({w});
  optimizer.iterations().assign(100);
  REQUIRE(optimizer.learning_rate() == 0.5);
  for (int i = 0; i < 2; ++i) strategy.run([&] { optimizer.apply_gradients({{Tensor::scalar(1.0), w}}); });
  REQUIRE(steps(optimizer) == 102);
  double expected = 0, m = 0, v = 0;
  for (int t = 101; t <= 102; ++t) {
    m = 0.9 * m + 0.1 * 2;
    v = 0.999 * v + 0.001 * 4;
    expected -= 0.5 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
  }
  REQUIRE_THAT(same_everywhere<double>(w), WithinRel(expected, 1e-12));
}

}  // namespace lockstep::test
