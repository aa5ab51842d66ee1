#include "communicators/launch_order.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include <catch2/catch_test_macros.hpp>

namespace lockstep::test {
namespace {

using cuda::LaunchOrder;
using namespace std::chrono_literals;

/// Starts a call in its own thread, which is left behind if the call never returns.
std::future<void> start(std::function<void()> call) {
  std::packaged_task<void()> task(std::move(call));
  std::future<void> result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

bool returns(const std::future<void>& call) { return call.wait_for(20s) == std::future_status::ready; }

}  // namespace

TEST_CASE("the ranks of a collective start together and go on together", "[cuda]") {
  const auto order = std::make_shared<LaunchOrder>(2);
  std::atomic<bool> has_started{false}, has_gone_on{false};
  const std::future<void> first = start([&, order] {
    LaunchOrder::Turn turn(*order, 1);
    has_started = true;
    turn.end();
    has_gone_on = true;
  });
  REQUIRE(first.wait_for(50ms) == std::future_status::timeout);
  REQUIRE(!has_started);
  LaunchOrder::Turn turn(*order, 1);
  REQUIRE(first.wait_for(50ms) == std::future_status::timeout);
  REQUIRE(!has_gone_on);
  turn.end();
  REQUIRE(returns(first));
  REQUIRE(has_gone_on);
}

TEST_CASE("a rank that comes after its communicator has failed keeps no other communicator waiting",
          "[cuda]") {
  const auto failed = std::make_shared<LaunchOrder>(2), other = std::make_shared<LaunchOrder>(2);
  failed->abandon();
  { const LaunchOrder::Turn late(*failed, 1); }
  REQUIRE(returns(start([other] { const LaunchOrder::Turn turn(*other, 2); })));
}

TEST_CASE("a communicator that fails does not wait for another's turn", "[cuda]") {
  const auto failed = std::make_shared<LaunchOrder>(2), other = std::make_shared<LaunchOrder>(2);
  auto held = std::make_unique<LaunchOrder::Turn>(*other, 2);
  const std::future<void> first = start([failed] { const LaunchOrder::Turn turn(*failed, 1); });
  const std::future<void> second = start([failed] { const LaunchOrder::Turn turn(*failed, 1); });
  REQUIRE(returns(start([failed] { failed->abandon(); })));
  held.reset();
  REQUIRE(returns(first));
  REQUIRE(returns(second));
  REQUIRE(returns(start([other] { const LaunchOrder::Turn turn(*other, 2); })));
}

}  // namespace lockstep::test
