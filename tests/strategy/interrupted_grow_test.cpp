// Workers and those who join them, of which one fails or ends on the way.
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/error.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "cluster/worker_group.hpp"
#include "support/elastic_workers.hpp"
#include "support/sent_messages.hpp"
#include "support/temporary_directory.hpp"
#include "support/worker_processes.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using namespace detail::control;
using Catch::Matchers::ContainsSubstring;
using test::addresses;
using test::check_passed;
using test::join;
using test::kPassed;
using test::say;
using test::SentMessages;
using test::start;
using test::sum;
using test::TemporaryDirectory;
using test::worker_options;
using test::WorkerProcesses;
using test::Workers;

namespace {

WorkerOptions within(std::chrono::milliseconds limit) {
  WorkerOptions options = worker_options();
  options.start_timeout = limit;
  return options;
}

void await(Workers& strategy, int num_waiting) {
  while (strategy.num_waiting() < num_waiting) std::this_thread::sleep_for(1ms);
}

/// Tries until they are so many.
std::unique_ptr<Workers> grow_from(std::unique_ptr<Workers> strategy) {
  std::unique_ptr<Workers> grown;
  while (grown == nullptr) grown = strategy->grow();
  return grown;
}

}  // namespace

TEST_CASE("an invitation that fails on the chief fails on all, and they can try again", "[workers][host]") {
  WorkerProcesses workers(4, [](int worker) {
    if (worker >= 2) return sum(*join(worker), 1) == 4 ? kPassed : 1;
    std::unique_ptr<Workers> strategy = start(worker, 2);
    await(*strategy, 2);
    try {
      std::atomic<int> num_invited{0};
      const SentMessages fails([&](const Message& message) {
        if (std::holds_alternative<Invited>(message) && ++num_invited == 2) throw std::bad_alloc();
      });
      static_cast<void>(strategy->grow());
      return 2;
    } catch (const std::bad_alloc&) {
      if (worker != 0) return 4;
    } catch (const CollectiveAborted& error) {
      say(error.what());
      if (worker == 0) return 5;
    }
    if (sum(*strategy, 1) != 2) return 6;
    await(*strategy, 2);  // they are counted again once they know that they are sent away
    return sum(*grow_from(std::move(strategy)), 1) == 4 ? kPassed : 7;
  });
  const auto results = workers.wait();
  check_passed(results);
  CHECK_THAT(results[1].output, ContainsSubstring("MultiWorkerMirroredStrategy::grow, call 1: worker 0 ("));
  CHECK_THAT(results[1].output, ContainsSubstring("bad_alloc"));
}

TEST_CASE("who ends on its way into the cluster costs the others one start", "[workers][host]") {
  // It ends where it would send this; or it lives, and gives up.
  const std::string last =
      GENERATE("", "hello", "that all have made the place where workers meet", "the number of replicas",
               "that all have made MultiWorkerMirroredStrategy");
  CAPTURE(last);
  WorkerProcesses workers(4, [&](int worker) {
    if (worker == 2) {
      std::atomic<int> num_sent{-1};  // the first Join is that of the wait
      const SentMessages ends([&](const Message& message) {
        const Gather* const gather = std::get_if<Gather>(&message);
        const bool is_last = gather == nullptr
                                 ? last == "hello" && std::holds_alternative<Join>(message) && ++num_sent == 1
                                 : gather->what == last;
        if (is_last) std::raise(SIGKILL);
      });
      if (last != "") return sum(*join(worker), 1) == 4 ? 1 : 2;
      auto invitation = detail::WorkerGroup::wait_to_join(addresses()[0], addresses()[2], {}, {});
      return kPassed;  // its link ends
    }
    if (worker == 3) return sum(*join(worker), 1) == 3 ? kPassed : 1;
    std::unique_ptr<Workers> strategy = start(worker, 2);
    await(*strategy, 2);
    const auto begin = std::chrono::steady_clock::now();
    if (strategy->grow() != nullptr) return 2;
    if (std::chrono::steady_clock::now() - begin > 20s) return 4;  // of a minute
    if (sum(*strategy, 1) != 2) return 5;
    return sum(*grow_from(std::move(strategy)), 1) == 3 ? kPassed : 6;
  });
  const auto results = workers.wait();
  for (int worker = 0; worker < 4; ++worker) {
    const test::WorkerResult& result = results[static_cast<std::size_t>(worker)];
    CAPTURE(worker, result.output);
    CHECK(result.status == (worker == 2 && last != "" ? -SIGKILL : kPassed));
  }
  CHECK_THAT(results[0].output,
             ContainsSubstring("grow: nobody joins now, and the workers go on as they were"));
}

TEST_CASE(
    "where the chief ends among its last answers, who was told is in the cluster, and who was not is not",
    "[workers][host]") {
  const int num_told = GENERATE(0, 1, 2);  // of worker 1, and of worker 2, which joins
  CAPTURE(num_told);
  WorkerProcesses workers(3, [&](int worker) {
    const auto options = within(worker == 2 ? 10s : 5s);
    if (worker == 0) {
      std::atomic<bool> is_near{false};
      std::atomic<int> num_answers{0};
      const SentMessages ends([&](const Message& message) {
        const Gathered* const gathered = std::get_if<Gathered>(&message);
        if (gathered == nullptr || gathered->all.size() != 3) return;
        if (gathered->all[0] == "t1") is_near = true;  // replicas; the next empty texts are the last
        if (!is_near || gathered->all[0] != "t") return;
        if (num_answers == num_told) std::raise(SIGKILL);
        ++num_answers;
      });
      const std::unique_ptr<Workers> strategy = start(worker, 2, options);
      await(*strategy, 1);
      const auto grown = strategy->grow();
      while (num_answers < 2) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(100ms);  // the last one is sent
      return std::raise(SIGKILL);
    }
    std::unique_ptr<Workers> strategy;
    try {
      if (worker == 1) {
        strategy = start(worker, 2, options);
        await(*strategy, 1);
        if (auto grown = strategy->grow()) strategy = std::move(grown);
      } else {
        strategy = join(worker, options);
      }
      say("replicas " + std::to_string(strategy->num_replicas_in_sync()));
      sum(*strategy, 1);
      return 1;
    } catch (const PeerLost& error) {
      say(std::string("lost: ") + error.what());
    } catch (const CollectiveTimeout& error) {
      say(std::string("timeout: ") + error.what());
      return worker == 2 && num_told < 2 ? kPassed : 2;
    }
    try {
      strategy = strategy->shrink();
    } catch (const CollectiveTimeout& error) {  // worker 2 does not come
      say(std::string("timeout: ") + error.what());
      return worker == 1 && num_told == 1 ? kPassed : 4;
    }
    return sum(*strategy, 1) == (num_told == 2 ? 2 : 1) ? kPassed : 5;
  });
  const auto results = workers.wait();
  const std::string chief = "worker 0 (" + workers.addresses()[0] + ")";
  for (int worker = 0; worker < 3; ++worker) {
    const std::string& output = results[static_cast<std::size_t>(worker)].output;
    CAPTURE(worker, output);
    CHECK(results[static_cast<std::size_t>(worker)].status == (worker == 0 ? -SIGKILL : kPassed));
    if (worker == 0) continue;
    const bool is_told = worker <= num_told;
    CHECK((output.find("replicas 3") != output.npos) == is_told);
    if (worker == 1 || is_told)
      CHECK_THAT(output, ContainsSubstring("lost: ") && ContainsSubstring(chief + " was lost"));
    else
      CHECK_THAT(output,
                 ContainsSubstring("timeout: ") && ContainsSubstring(chief + " could not be reached"));
  }
}
