#include "workers/worker_meeting.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/memory_exchange.hpp"
#include "support/replicas.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using detail::CallHistory;
using detail::WorkerMeeting;
using test::on_replicas;
using test::says;

namespace {

std::span<const std::byte> bytes_of(const int& value) { return std::as_bytes(std::span(&value, 1)); }

std::shared_ptr<backend::Loss> loss(const std::string& cause) {
  return std::make_shared<backend::Loss>(cause);
}

int value_of(std::span<const std::byte> bytes) {
  int value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// Workers that are threads, with what a connection between them would report.
class Workers {
 public:
  explicit Workers(int num_workers) {
    auto room = std::make_shared<test::ExchangeRoom>(num_workers);
    std::vector<std::string> labels;
    for (int w = 0; w < num_workers; ++w)
      labels.push_back("worker " + std::to_string(w) + " (host:" + std::to_string(2222 + w) + ")");
    for (int w = 0; w < num_workers; ++w)
      meetings_.push_back(
          std::make_unique<WorkerMeeting>(labels, w, std::make_unique<test::MemoryExchange>(room, w)));
  }

  int size() const { return static_cast<int>(meetings_.size()); }
  WorkerMeeting& operator[](int worker) { return *meetings_[static_cast<std::size_t>(worker)]; }

  void fail(int worker, const std::string& text) {
    (*this)[worker].fail(std::make_exception_ptr(std::runtime_error(text)),
                         [&](std::uint64_t epoch, std::uint64_t num_rounds, const std::string& said) {
                           for (int w = 0; w < size(); ++w)
                             if (w != worker) (*this)[w].report_failure(worker, epoch, num_rounds, said);
                         });
  }
  /// Meets, and returns what it threw; "" for nothing.
  std::string outcome(int worker, const std::string& operation, std::chrono::milliseconds timeout = 0ms) {
    try {
      (*this)[worker].meet(operation, bytes_of(worker), timeout);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::vector<std::unique_ptr<WorkerMeeting>> meetings_;
};

/// No message comes: an engine has failed.
class FailingExchange final : public detail::MessageExchange {
 public:
  std::function<void()> before_it_fails = [] {};

  void post(std::span<const std::byte>) override {}
  bool wait(detail::FunctionRef<bool()>, backend::Deadline) override {
    before_it_fails();
    throw CollectiveAborted("all_gather: process 0 is lost.");
  }
  std::span<const std::byte> message(int) const override { return {}; }
  void interrupt() noexcept override {}
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("every worker gets every worker's message, call by call") {
  Workers workers(3);
  std::atomic<int> wrong{0};
  on_replicas(3, [&](int w) {
    for (int call = 0; call < 200; ++call) {
      const int mine = 1000 * call + w;
      workers[w].meet("all_reduce(sum)", bytes_of(mine), 0ms);
      for (int other = 0; other < 3; ++other)
        if (value_of(workers[w].message(other)) != 1000 * call + other) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("workers that make different calls get an error that names both, and go on") {
  Workers workers(2);
  std::string texts[2];
  on_replicas(2, [&](int w) {
    texts[w] = workers.outcome(w, w == 0 ? "all_reduce(sum)" : "broadcast");
    workers[w].begin_call();
    if (!workers.outcome(w, "all_gather").empty()) texts[w] = "the next call failed";
  });
  CHECK(has(
      texts[0],
      "broadcast, call 0: worker 1 (host:2223) calls it where worker 0 (host:2222) calls all_reduce(sum)"));
  CHECK(texts[0] == texts[1]);
}

TEST_CASE("workers that make different calls are told what both are calls of") {
  Workers workers(2);
  std::string texts[2];
  const bool both_say = GENERATE(true, false);
  on_replicas(2, [&](int w) {
    const std::string operation = w == 0 ? "all_reduce(sum)" : "broadcast";
    const auto describe = [&] {
      return CallHistory::text("1", {{.call = 6, .operation = "gather", .label = w == 0 ? "a" : "b"},
                                     {.call = 7, .operation = operation, .operands = "[4] int8"}});
    };
    try {
      if (both_say || w == 0)
        workers[w].meet(operation, bytes_of(w), 0ms, describe);
      else
        workers[w].meet(operation, bytes_of(w), 0ms);
    } catch (const CollectiveMismatch& error) {
      texts[w] = error.what();
    }
  });
  CHECK(has(texts[0],
            both_say ? "calls all_reduce(sum). worker 1 (host:2223): broadcast of [4] int8; worker 0 "
                       "(host:2222): all_reduce(sum) of [4] int8. The first recorded call that differs: call "
                       "6: worker 1 (host:2223): gather, 'b'; worker 0 (host:2222): gather, 'a'. Make the"
                     : "worker 1 (host:2223): a call of another kind; worker 0"));
  CHECK(texts[0] == texts[1]);
}

TEST_CASE("a worker that has ended its run is named to those that wait in it") {
  Workers workers(2);
  std::string texts[2];
  on_replicas(2, [&](int w) {
    workers[w].begin_call();
    workers[w].begin_run();
    workers.outcome(w, "all_reduce(sum)");
    if (w == 1) workers[w].begin_run();
    texts[w] = workers.outcome(w, "all_reduce(sum)");
  });
  CHECK(has(texts[0],
            "worker 1 (host:2223) makes it as call 0 of its run 2, where worker 0 (host:2222) makes "
            "all_reduce(sum) as call 1 of its run 1"));
  CHECK(texts[0] == texts[1]);
}

TEST_CASE("a worker's failure releases those that wait for it, with its text, and the next call works") {
  Workers workers(3);
  std::string first[3], second[3];
  on_replicas(3, [&](int w) {
    workers[w].begin_call();
    workers[w].begin_run();
    workers.outcome(w, "all_reduce(sum)");
    if (w == 1) {
      workers.fail(1, "replica 4's function threw: no more data");
    } else {
      first[w] = workers.outcome(w, "all_reduce(sum)");
      workers.fail(w, first[w]);  // which tells nobody anything new
    }
    workers[w].begin_call();
    workers[w].begin_run();
    second[w] = workers.outcome(w, "all_reduce(sum)");
  });
  for (const int w : {0, 2})
    CHECK(has(first[w],
              "all_reduce(sum), call 1: worker 1 (host:2223) has failed: replica 4's function threw: no more "
              "data"));
  for (const std::string& text : second) CHECK(text == "");
}

TEST_CASE("a worker that learns of a failure late fails once") {
  Workers workers(2);
  workers[0].begin_call();
  workers[0].begin_run();
  workers.fail(0, "out of memory");
  workers[1].begin_call();
  workers[1].begin_run();
  std::string late = workers.outcome(1, "all_reduce(sum)");
  CHECK(has(late, "worker 0 (host:2222) has failed: out of memory"));
  workers.fail(1, late);
  std::string next[2];
  on_replicas(2, [&](int w) {
    workers[w].begin_call();
    workers[w].begin_run();
    next[w] = workers.outcome(w, "all_reduce(sum)");
  });
  CHECK(next[0] == "");
  CHECK(next[1] == "");
}

TEST_CASE("what a worker refuses, all workers refuse, as the same kind of error") {
  Workers workers(2);
  std::string texts[2];
  on_replicas(2, [&](int w) {
    try {
      if (w == 0)
        workers[0].meet("all_reduce(sum)", bytes_of(w), 0ms);
      else
        workers[1].refuse("all_reduce(sum)",
                          std::make_exception_ptr(InvalidArgument("the output is read-only")), 0ms);
    } catch (const InvalidArgument& error) {
      texts[w] = error.what();
    }
    workers[w].begin_call();
    workers.outcome(w, "all_reduce(sum)");
  });
  CHECK(has(texts[0], "worker 1 (host:2223): the output is read-only"));
  CHECK(texts[1] == "the output is read-only");
}

TEST_CASE("workers that refuse their calls as they do not match are told the first that differs") {
  Workers workers(2);
  std::string texts[2];
  on_replicas(2, [&](int w) {
    const auto mismatch = std::make_exception_ptr(CollectiveMismatch("The shapes differ."));
    const auto describe = [&] {
      return CallHistory::text("1", {{.operation = "all_reduce(sum)", .label = w == 0 ? "a" : "b"}});
    };
    try {
      workers[w].refuse("all_reduce(sum)", mismatch, 0ms, describe);
    } catch (const CollectiveMismatch& error) {
      texts[w] = error.what();
    }
  });
  CHECK(texts[0] ==
        "The shapes differ. The first recorded call that differs: call 0: worker 1 (host:2223): "
        "all_reduce(sum), 'b'; "
        "worker 0 (host:2222): all_reduce(sum), 'a'.");
  CHECK(texts[0] == texts[1]);
}

TEST_CASE("a time-out names who has not come, and the meeting has failed for good") {
  Workers workers(3);
  on_replicas(2, [&](int w) {
    CHECK_THROWS_MATCHES(workers[w].meet("gather", bytes_of(w), 20ms), CollectiveTimeout,
                         says("gather, call 0", "20 ms", "worker 2 (host:2224)"));
  });
  CHECK_THROWS_MATCHES(
      workers[0].meet("gather", bytes_of(0), 0ms), CollectiveAborted,
      says("gather, call 0: an earlier call has failed: gather, call 0", "worker 2 (host:2224)"));
}

TEST_CASE("after a time-out of one worker the others' later calls throw, too") {
  Workers workers(2);
  CHECK(has(workers.outcome(0, "gather", 20ms), "after 20 ms these workers had not come"));
  workers.fail(0, "it was late");
  CHECK(workers.outcome(1, "gather").empty());  // worker 0's message is there
  CHECK_THROWS_MATCHES(workers[1].meet("gather", bytes_of(1), 0ms), CollectiveAborted,
                       says("gather, call 1: worker 0 (host:2222) has failed: it was late"));
  workers.fail(1, "as the other one");
  CHECK_THROWS_MATCHES(
      workers[1].meet("gather", bytes_of(1), 0ms), CollectiveAborted,
      says("gather, call 0: an earlier call has failed: worker 0 (host:2222) has failed: it was late"));
}

TEST_CASE("a time-out says what is known of the workers' last calls") {
  Workers workers(2);
  workers[0].on_time_out([] { return std::string(" Worker 1 is asleep."); });
  CHECK(
      has(workers.outcome(0, "all_gather", 20ms), "worker 1 (host:2223). Worker 1 is asleep. Make the same"));
}

TEST_CASE("a lost worker's cause is what every later call throws") {
  Workers workers(2);
  std::string text;
  std::thread waits([&] { text = workers.outcome(0, "all_reduce(sum)"); });
  workers[0].report_lost(loss("worker 1 (host:2223) was lost: its connection was closed"));
  workers[0].report_lost(loss("worker 1 (host:2223) was lost: something else"));
  waits.join();
  CHECK(has(text, "all_reduce(sum), call 0: worker 1 (host:2223) was lost: its connection was closed"));
  CHECK_THROWS_MATCHES(workers[0].meet("gather", bytes_of(0), 0ms), PeerLost,
                       says("gather", "connection was closed"));
  CHECK(workers[0].is_lost());
}

TEST_CASE("the program knows of a loss once a call throws it") {
  Workers workers(2);
  const auto lost = loss("worker 1 was lost");
  workers[0].report_lost(lost);
  CHECK(workers[0].loss() == lost);
  CHECK_FALSE(lost->was_told_before(backend::Loss::now()));
  CHECK_THROWS_AS(workers[0].throw_if_lost("reading"), PeerLost);
  CHECK(lost->was_told_before(backend::Loss::now()));
}

TEST_CASE("a worker that left is named") {
  Workers workers(2);
  workers[0].report_left(1, 0);
  CHECK_THROWS_MATCHES(workers[0].meet("all_reduce(sum)", bytes_of(0), 0ms), ContextError,
                       says("worker 1 (host:2223) has left"));
}

TEST_CASE("a worker that left after its message does not keep the others from the call") {
  Workers workers(2);
  std::string text;
  std::thread waits([&] { text = workers.outcome(0, "all_reduce(sum)"); });
  workers[0].report_left(1, 1);  // which comes before the message
  CHECK(workers.outcome(1, "all_reduce(sum)") == "");
  waits.join();
  CHECK(text == "");
  CHECK(has(workers.outcome(0, "all_reduce(sum)"), "worker 1 (host:2223) has left"));
}

TEST_CASE("a worker that left the strategy may leave the cluster before the others' last call is over") {
  Workers workers(2);
  std::string text;
  std::thread waits([&] { text = workers.outcome(0, "all_reduce(sum)"); });
  workers[0].report_left(1, 1);
  workers[0].report_left(1, 0);
  CHECK(workers.outcome(1, "all_reduce(sum)") == "");
  waits.join();
  CHECK(text == "");
}

TEST_CASE("of several workers that left the one that left first counts") {
  Workers workers(3);
  workers[0].report_left(1, 1);
  workers[0].report_left(2, 0);  // whose message of the first round never comes
  CHECK_THROWS_MATCHES(workers[0].meet("all_reduce(sum)", bytes_of(0), 0ms), ContextError,
                       says("worker 2 (host:2224) has left"));
}

TEST_CASE("who waits for the report of a loss is not content with a worker that left") {
  Workers workers(3);
  workers[0].report_left(1, 5);
  std::thread reports([&] { workers[0].report_lost(loss("worker 2 was lost")); });
  workers[0].await_report();
  CHECK(workers[0].is_lost());
  reports.join();
}

// A step of random length fails on random workers at random places. Whoever is told nothing makes as many
// meetings as the others, with the same messages.
TEST_CASE("workers stay in step whatever fails where") {
  constexpr int kNumWorkers = 4, kNumSteps = 400;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Workers workers(kNumWorkers);
    std::atomic<int> num_mixed{0};
    std::vector<std::vector<int>> met(
        kNumWorkers);  // steps that a worker has done, by the workers' common number
    on_replicas(kNumWorkers, [&](int w) {
      std::mt19937 own(seed * 100 + static_cast<unsigned>(w));
      int step = 0;
      for (int tries = 0; step < kNumSteps && tries < 100 * kNumSteps; ++tries) {
        workers[w].begin_call();
        workers[w].begin_run();
        try {
          for (int call = 0; call < 1 + step % 3; ++call) {
            if (step + 1 < kNumSteps && own() % 50 == 0) throw std::runtime_error("failed by itself");
            workers[w].meet("all_reduce(sum)", bytes_of(step), 0ms);
            // Steps are what the workers agree on: whoever fails takes the newest of the others' when it is
            // back.
            int newest = step;
            for (int other = 0; other < kNumWorkers; ++other)
              newest = std::max(newest, value_of(workers[w].message(other)));
            bool is_mixed = false;
            for (int other = 0; other < kNumWorkers; ++other)
              is_mixed = is_mixed || value_of(workers[w].message(other)) != newest;
            if (!is_mixed) continue;
            ++num_mixed;
            step = newest;  // all see the mixture: all begin this one anew
            call = -1;
          }
          met[static_cast<std::size_t>(w)].push_back(step);
          ++step;
        } catch (const std::exception& error) {
          workers.fail(w, error.what());
        }
      }
      met[static_cast<std::size_t>(w)].push_back(step);
    });
    for (int w = 0; w < kNumWorkers; ++w) CHECK(met[static_cast<std::size_t>(w)].back() == kNumSteps);
  }
}

TEST_CASE("a meeting whose exchange fails is broken off for all, unless a report says better why") {
  auto made = std::make_unique<FailingExchange>();
  FailingExchange& exchange = *made;
  WorkerMeeting meeting({"worker 0", "worker 1"}, 1, std::move(made));
  const auto meet = [&] { meeting.meet("all_reduce(sum)", {}, 0ms); };

  SECTION("nothing is reported") {
    std::vector<std::string> causes;
    meeting.on_break_off([&](const std::string& cause) {
      causes.push_back(cause);
      meeting.report_lost(loss("worker 1 could not go on: " + cause));
    });
    CHECK_THROWS_MATCHES(
        meet(), PeerLost,
        says("all_reduce(sum), call 0: worker 1 could not go on: all_gather: process 0 is lost."));
    CHECK_THROWS_AS(meet(), PeerLost);
    CHECK(causes == std::vector<std::string>{"all_gather: process 0 is lost."});
  }
  SECTION("nobody is to be told") { CHECK_THROWS_AS(meet(), CollectiveAborted); }
  SECTION("a loss is reported meanwhile") {
    meeting.on_break_off([](const std::string&) { FAIL("the meeting is broken off"); });
    std::thread reports;
    exchange.before_it_fails = [&] {
      reports =
          std::thread([&] { meeting.report_lost(loss("worker 0 was lost: its connection was closed")); });
    };
    CHECK_THROWS_MATCHES(meet(), PeerLost, says("worker 0 was lost: its connection was closed"));
    reports.join();
  }
  SECTION("a loss is reported late, as it is one of silence") {
    meeting.expect_reports_within(2000ms);
    meeting.on_break_off([](const std::string&) { FAIL("the meeting is broken off"); });
    std::thread reports;
    exchange.before_it_fails = [&] {
      reports = std::thread([&] {
        std::this_thread::sleep_for(1300ms);
        meeting.report_lost(loss("worker 0 was lost: it was silent for 2 s"));
      });
    };
    CHECK_THROWS_MATCHES(meet(), PeerLost, says("worker 0 was lost: it was silent for 2 s"));
    reports.join();
  }
}

TEST_CASE("a failure without a text is a failure", "[workers][host]") {
  Workers workers(2);
  workers[0].report_failure(1, 0, 0, "");
  CHECK(workers.outcome(0, "all_reduce").find("all_reduce, call 0: ") == 0);
}
