#include <memory>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "cluster/worker_group.hpp"
#include "strategy/runtime/strategy_state.hpp"
#include "support/world.hpp"

/// Strategies that nobody joins, as nobody wants to, or MPI has started their workers.
namespace lockstep::test {
namespace {

/// Whether MPI has started the workers, if there are several.
bool is_launched(const Strategy& strategy) {
  const auto& group = detail::StrategyState::of(strategy).config().workers;
  return group != nullptr && group->is_launched();
}

}  // namespace

TEST_CASE("all workers know that nobody waits to join, and go on as they were", "[workers]") {
  const std::unique_ptr<Strategy> strategy = world().make_strategy();
  auto* const workers = dynamic_cast<MultiWorkerMirroredStrategy*>(strategy.get());
  if (workers == nullptr) return;  // one process
  for (int i = 0; i < 3; ++i) {
    int number = 0;
    std::unique_ptr<Strategy> grown;
    const Thrown asking = thrown_by([&] { number = workers->num_waiting(); });
    const Thrown growing = thrown_by([&] { grown = workers->grow(); });
    CHECK(number == 0);
    CHECK(grown == nullptr);
    if (is_launched(*strategy)) {
      CHECK(asking.is<Unsupported>());
      CHECK(asking.has("num_waiting: MPI has started the workers, and connects nobody else with them."));
      CHECK(growing.is<Unsupported>());
      CHECK(growing.has("grow: MPI has started the workers"));
      const Thrown joining =
          thrown_by([] { static_cast<void>(MultiWorkerMirroredStrategy::join("127.0.0.1:1")); });
      CHECK(joining.is<Unsupported>());
      CHECK(joining.has("Joining the workers: MPI has started this process"));
    } else {
      CHECK_FALSE(asking);
      CHECK_FALSE(growing);
    }
    CHECK(is_usable(*strategy));
  }
}

TEST_CASE("a worker that does not ask who waits is told so, as are the others", "[workers]") {
  const World& w = world();
  if (w.num_workers == 1 || is_launched(w.strategy)) return;
  auto* const workers = dynamic_cast<MultiWorkerMirroredStrategy*>(&w.strategy);
  const Thrown thrown = thrown_once(w.strategy, [&] {
    if (w.worker == 0)
      static_cast<void>(w.strategy.make_variable(Tensor::scalar(0.0f)));
    else
      static_cast<void>(workers->num_waiting());
  });
  CAPTURE(thrown.text);
  CHECK(thrown.is<CollectiveMismatch>());
  CHECK(thrown.has("num_waiting"));
}

}  // namespace lockstep::test
