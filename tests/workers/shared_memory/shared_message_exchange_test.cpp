#include "workers/shared_memory/shared_message_exchange.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "support/process_team.hpp"
#include "support/replicas.hpp"
#include "support/socket_group.hpp"

using namespace lockstep;
using test::SocketGroup;
using test::SocketStar;

namespace {

const auto kNever = [] { return false; };

std::vector<std::byte> message_of(int worker, int round, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(worker * 31 + round));
  return bytes;
}
// Different for each worker: empty, short, a whole slot, a byte more, several.
std::size_t size_of_message(int worker, int round) {
  constexpr std::size_t kSizes[] = {64, 0, 1, 100, 16376, 16377, 60, 80'000, 16000};
  return kSizes[static_cast<std::size_t>(worker * 5 + round) % std::size(kSizes)];
}

void exchange_rounds(detail::MessageExchange& exchange, int worker, int num_workers, int num_rounds) {
  for (int round = 0; round < num_rounds; ++round) {
    exchange.post(message_of(worker, round, size_of_message(worker, round)));
    if (!exchange.wait(kNever, {})) throw Error("the wait was stopped");
    for (int other = 0; other < num_workers; ++other)
      if (!std::ranges::equal(exchange.message(other),
                              message_of(other, round, size_of_message(other, round))))
        throw Error("round " + std::to_string(round) + ": another message of " + std::to_string(other));
  }
}

// A segment for workers that are threads.
std::shared_ptr<detail::SharedSegment> segment_for(int num_workers) {
  const SocketStar star(1);
  SocketGroup alone(star, 0);
  const std::vector<std::size_t> parts(static_cast<std::size_t>(num_workers),
                                       detail::SharedMessageExchange::bytes_per_worker());
  return std::make_shared<detail::SharedSegment>(alone, "a test", parts);
}

}  // namespace

TEST_CASE("workers' processes exchange messages of all sizes", "[host]") {
  const int num_workers = GENERATE(1, 2, 4);
  const SocketStar star(num_workers);
  test::ProcessTeam team(num_workers, [&](int worker) {
    SocketGroup group(star, worker);
    exchange_rounds(*detail::make_shared_message_exchange(group), worker, num_workers, 3000);
  });
  CHECK(team.wait_for_all() == std::vector<std::string>(static_cast<std::size_t>(num_workers)));
}

TEST_CASE("workers that are threads exchange messages of all sizes", "[host]") {
  const int num_workers = GENERATE(2, 3);
  const auto segment = segment_for(num_workers);
  test::on_replicas(num_workers, [&](int worker) {
    detail::SharedMessageExchange exchange(segment, worker);
    exchange_rounds(exchange, worker, num_workers, 1000);
  });
}

TEST_CASE("waiting for messages ends at the deadline or when it is to stop, and can be resumed", "[host]") {
  const auto segment = segment_for(2);
  detail::SharedMessageExchange first(segment, 0), second(segment, 1);
  const std::vector<std::byte> message = message_of(0, 0, GENERATE(10u, 10'000u));
  first.post(message);
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  CHECK_FALSE(first.wait(kNever, soon));
  CHECK(std::chrono::steady_clock::now() >= soon);
  CHECK_FALSE(first.wait([] { return true; }, {}));

  std::atomic<bool> stop = false;
  std::atomic<int> num_looks = 0;
  std::jthread interrupter([&] {
    while (num_looks < 1) std::this_thread::yield();
    first.interrupt();  // in vain
    while (num_looks < 2) std::this_thread::yield();
    stop = true;
    first.interrupt();
  });
  CHECK_FALSE(first.wait([&] { return ++num_looks, stop.load(); }, {}));
  interrupter.join();
  CHECK(num_looks == 3);

  second.post(message);
  test::on_replicas(2, [&](int worker) { (worker == 0 ? first : second).wait(kNever, {}); });
  CHECK(std::ranges::equal(first.message(1), message));
  CHECK(std::ranges::equal(second.message(0), message));
}

TEST_CASE("a worker that is killed leaves the others waiting until they are interrupted", "[host]") {
  const SocketStar star(2), meeting(2);
  test::ProcessTeam team(2, [&](int worker) {
    SocketGroup group(star, worker);
    const auto exchange = detail::make_shared_message_exchange(group);
    exchange_rounds(*exchange, worker, 2, 100);
    if (worker == 0) {
      SocketGroup(meeting, 1).all_gather("worker 1 can be killed", "");
      exchange->post({});
      std::atomic<bool> is_lost = false;
      std::jthread interrupter([&] {
        SocketGroup(meeting, 1).all_gather("worker 1 is dead", "");
        is_lost = true;
        exchange->interrupt();
      });
      if (exchange->wait([&] { return is_lost.load(); }, {})) throw Error("a dead worker's message");
    } else {
      ::pause();
    }
  });
  SocketGroup here(meeting, 0);
  here.all_gather("", "");
  ::kill(team.id(1), SIGKILL);
  CHECK(team.wait(1) == "signal 9");
  here.all_gather("", "");
  CHECK(team.wait(0) == "");
}
