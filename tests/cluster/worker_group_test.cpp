#include "cluster/worker_group.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/resource.h>

#include <lockstep/cluster/simple_resolver.hpp>
#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/worker_processes.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Clock = std::chrono::steady_clock;
using detail::WorkerGroup;
using test::WorkerProcesses;

namespace {

constexpr int kPassed = 3;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::shared_ptr<WorkerGroup> connect(const detail::WorkerGroupOptions& options = {}) {
  return WorkerGroup::connect(*cluster::from_environment(), options, cluster::environment_variables());
}

void meet(WorkerGroup& group) { group.meeting().meet("a meeting", {}, 0ms); }

/// Says what f throws, if it throws an E.
template <class E>
bool throws(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& error) {
    say(std::string("threw ") + error.what());
    return true;
  }
  return false;
}

void check_all_passed(WorkerProcesses& workers) {
  for (const test::WorkerResult& result : workers.wait()) {
    CAPTURE(result.output);
    CHECK(result.status == kPassed);
  }
}

/// No file may grow: no memory can be shared.
void limit_files(rlim_t size_bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{size_bytes, RLIM_INFINITY};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

template <class Directory>
std::ptrdiff_t num_entries(const Directory& path) {
  const std::filesystem::directory_iterator entries(path);
  return std::distance(begin(entries), end(entries));
}

}  // namespace

TEST_CASE("what a group does at its end takes no heartbeat from another group", "[workers][host]") {
  WorkerProcesses workers(3, [](int worker) {
    const auto ending = connect({.silence_limit = 400ms}), other = connect();
    std::atomic<bool> is_aborted = false;
    ending->call_at_end([&](const std::string& cause) {
      say(cause);
      std::this_thread::sleep_for(1500ms);
      is_aborted = true;
    });
    meet(*ending);
    if (worker == 1) ending->break_off("its engine has failed.");
    const auto all_have_aborted = [&] {
      const bool own = is_aborted;
      other->meeting().meet("a meeting", std::as_bytes(std::span(&own, 1)), 0ms);
      for (int w = 0; w < 3; ++w)
        if (other->meeting().message(w)[0] == std::byte{0}) return false;
      return true;
    };
    while (!all_have_aborted()) continue;
    if (!throws<PeerLost>([&] { meet(*ending); })) return 1;
    other->all_gather("the end", {});
    return kPassed;
  });
  check_all_passed(workers);
  for (const test::WorkerResult& result : workers.wait())
    CHECK_THAT(result.output, ContainsSubstring("worker 1 (" + workers.addresses()[1] +
                                                ") could not go on: its engine has failed."));
}

TEST_CASE("workers ask each other what they did last, and learn who does not answer", "[workers][host]") {
  WorkerProcesses workers(3, [](int worker) {
    const auto group = connect();
    if (worker != 2) group->answer_with([worker] { return "worker " + std::to_string(worker); });
    group->all_gather("all answer", {});
    if (worker == 0) {  // worker 1 is in a wait of its own, and answers; worker 2 has nothing to say
      const auto begin = Clock::now();
      const std::vector<std::optional<std::string>> answers = group->ask();
      const auto time = Clock::now() - begin;
      if (answers.size() != 3 || answers[0] || answers[1] != "worker 1" || answers[2]) return 1;
      if (time < 450ms || time > 20s) return 2;
    }
    group->all_gather("all have asked", {});
    group->leave();
    return kPassed;
  });
  check_all_passed(workers);
}

TEST_CASE("in a group that has ended nobody is asked", "[workers][host]") {
  WorkerProcesses workers(2, [](int worker) {
    const auto group = connect();
    if (worker == 1) group->break_off("it is a test");
    if (!throws<PeerLost>([&] {
          for (;;) meet(*group);
        }))
      return 1;
    const auto begin = Clock::now();
    const auto answers = group->ask();
    return answers == std::vector<std::optional<std::string>>(2) && Clock::now() - begin < 900ms ? kPassed
                                                                                                 : 2;
  });
  check_all_passed(workers);
}

TEST_CASE("a group that is left has ended what it does at its end", "[workers][host]") {
  WorkerProcesses workers(2, [](int worker) {
    const auto group = connect();
    std::atomic<int> num_begun = 0, num_ended = 0;
    for (int i = 0; i < 2; ++i)
      group->call_at_end([&](const std::string&) {
        ++num_begun;
        std::this_thread::sleep_for(200ms);
        ++num_ended;
      });
    group->all_gather("all are here", {});
    if (worker == 0) group->break_off("it is a test");
    while (num_begun == 0) std::this_thread::yield();
    group->leave();
    const bool is_over = num_ended == 2;
    bool is_called_at_once = false;
    group->call_at_end([&](const std::string&) { is_called_at_once = true; });
    return is_over && is_called_at_once ? kPassed : 1;
  });
  check_all_passed(workers);
}

TEST_CASE("what all groups cannot make leaves the process's other groups as they are", "[workers][host]") {
  WorkerProcesses workers(3, [](int) {
    const auto first = connect();
    limit_files(4096);
    for (int i = 0; i < 3; ++i)
      if (!throws<OutOfMemory>([] { connect(); })) return 1;
    meet(*first);
    limit_files(RLIM_INFINITY);
    const auto second = connect();
    meet(*second);
    meet(*first);
    return kPassed;
  });
  check_all_passed(workers);
}

TEST_CASE("what one worker cannot make all others hear of, and go on", "[workers][host]") {
  const int failing = GENERATE(0, 2);
  const int num_exchanges = GENERATE(0, 3);  // before it fails
  CAPTURE(failing, num_exchanges);
  WorkerProcesses workers(3, [&](int worker) {
    const auto first = connect();
    for (int i = 0; i < 3; ++i) {
      const auto group = connect();
      const auto make = [&] {
        for (int k = 0; k < num_exchanges; ++k) group->all_gather("a part", {});
        if (worker == failing) throw NotFound("there is no such part.");
        group->all_gather("another part", {});
        return 0;
      };
      const auto all_make = [&] { group->make_together("a strategy", make); };
      if (!(worker == failing ? throws<NotFound>(all_make) : throws<CollectiveAborted>(all_make))) return 1;
      meet(*first);
    }
    const auto last = connect();
    meet(*last);
    return last->make_together("a strategy", [] { return kPassed; });
  });
  const std::vector<test::WorkerResult> results = workers.wait();
  for (int worker = 0; worker < 3; ++worker) {
    const test::WorkerResult& result = results[static_cast<std::size_t>(worker)];
    CAPTURE(worker, result.output);
    CHECK(result.status == kPassed);
    const std::string label = "worker " + std::to_string(failing) + " (" +
                              workers.addresses()[static_cast<std::size_t>(failing)] + ")";
    if (worker != failing)
      CHECK_THAT(result.output, ContainsSubstring("threw another part: " + label +
                                                  " has failed: a strategy: there is no such part."));
  }
}

TEST_CASE("who comes to an exchange after a worker has left its group is told", "[workers][host]") {
  WorkerProcesses workers(2, [](int worker) {
    const auto first = connect();
    auto group = connect();
    if (worker == 1) {
      group.reset();
    } else if (!throws<CollectiveAborted>([&] { group->all_gather("a part", {}); })) {
      return 1;
    }
    meet(*first);
    return kPassed;
  });
  CHECK_THAT(workers.wait(0).output, ContainsSubstring("threw a part: worker 1 (" + workers.addresses()[1] +
                                                       ") has left: its strategy was destroyed."));
  check_all_passed(workers);
}

TEST_CASE("a process that ends in a call ends the group for all, another one leaves it", "[workers][host]") {
  const bool is_in_call = GENERATE(false, true);
  WorkerProcesses workers(2, [&](int worker) {
    const auto& group = *new std::shared_ptr<WorkerGroup>(connect());  // lives as long as the process
    std::atomic<bool> is_aborted = false;
    group->call_at_end([&](const std::string&) { is_aborted = true; });
    group->meeting().begin_call();
    meet(*group);
    if (!is_in_call) group->meeting().end_call();
    if (worker == 1) std::exit(kPassed);
    const auto meet_alone = [&] { meet(*group); };
    if (!(is_in_call ? throws<PeerLost>(meet_alone) : throws<ContextError>(meet_alone))) return 1;
    while (is_in_call && !is_aborted) std::this_thread::yield();
    return kPassed;
  });
  CHECK_THAT(workers.wait(0).output,
             ContainsSubstring("worker 1 (" + workers.addresses()[1] + ")" +
                               (is_in_call ? " has ended in a call of the strategy" : " has left: ")));
  check_all_passed(workers);
}

TEST_CASE("who does not answer is waited for once, until its answer comes after all", "[workers][host]") {
  WorkerProcesses workers(2, [](int worker) {
    const auto group = connect();
    if (worker == 1) {
      meet(*group);
      group->answer_with([] { return std::string("here"); });
      meet(*group);
      meet(*group);
      return kPassed;
    }
    const auto begin = Clock::now();
    for (int i = 0; i < 100; ++i)
      if (group->ask()[1]) return 1;
    const auto passed = Clock::now() - begin;
    if (passed < 300ms || passed > 10s) return 2;  // half a second, not 50
    meet(*group);
    meet(*group);
    while (group->ask()[1] != "here") std::this_thread::yield();
    const auto answers = group->ask();
    meet(*group);
    return answers[1] == "here" && !answers[0] ? kPassed : 3;
  });
  check_all_passed(workers);
}

TEST_CASE("a connection of its own ends with its group", "[workers][host]") {
  WorkerProcesses workers(2, [](int) {
    std::ptrdiff_t num_files = 0, num_threads = 0;
    for (int i = 0; i < 5; ++i) {
      {
        const auto group = connect({.shares_connection = false});
        meet(*group);
      }
      const std::ptrdiff_t files = num_entries("/proc/self/fd"), threads = num_entries("/proc/self/task");
      if (i == 0) {
        num_files = files;
        num_threads = threads;
      } else if (files != num_files || threads != num_threads) {
        say("files: " + std::to_string(files) + " after " + std::to_string(num_files) +
            ", threads: " + std::to_string(threads) + " after " + std::to_string(num_threads));
        return 1;
      }
    }
    return kPassed;
  });
  check_all_passed(workers);
}

TEST_CASE("a group is of those who have its token, from the environment or the options", "[workers][host]") {
  WorkerProcesses workers(
      2,
      [](int worker) {
        if (worker == 1 && !throws<InvalidArgument>([] { connect({.token = "another"}); })) return 1;
        const auto group = connect(worker == 1 ? detail::WorkerGroupOptions{.token = "a token"}
                                               : detail::WorkerGroupOptions{});
        meet(*group);
        return kPassed;
      },
      {.environment = {"LOCKSTEP_TOKEN=a token", "LOCKSTEP_LISTEN=127.0.0.1"}});
  for (const test::WorkerResult& result : workers.wait()) {
    CAPTURE(result.output);
    CHECK(result.status == kPassed);
    CHECK_THAT(result.output, !ContainsSubstring("a token"));
  }
}

TEST_CASE("an engine that the program does not have is named before anybody is waited for",
          "[workers][host]") {
  const cluster::SimpleResolver resolver({{"worker", {"127.0.0.1:1", "127.0.0.1:2"}}},
                                         {.task_type = "worker", .task_id = 1});
  const auto message_of = [&](const cluster::EnvironmentVariables& variables) -> std::string {
    try {
      WorkerGroup::connect(resolver, {.start_timeout = 10min}, variables);
    } catch (const Unsupported& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(message_of({{"LOCKSTEP_ENGINE", "mpi"}}),
             ContainsSubstring("LOCKSTEP_ENGINE names the engine mpi, which this program does not have.") &&
                 ContainsSubstring("LOCKSTEP_MPI=ON") && ContainsSubstring("unset LOCKSTEP_ENGINE"));
}

TEST_CASE("an address that is no host and port is refused where a worker alone listens", "[workers][host]") {
  const std::string address = GENERATE("localhost:x", "localhost:65535", "localhost:");
  const cluster::SimpleResolver resolver(cluster::ClusterSpec{{"worker", {address}}},
                                         cluster::ResolverOptions{.task_type = "worker", .task_id = 0});
  CHECK_THROWS_MATCHES(WorkerGroup::connect(resolver, {.listens_alone = true},
                                            {{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                             {"MASTER_ADDR", "localhost"},
                                             {"MASTER_PORT", address.substr(10)}}),
                       InvalidArgument, test::says(" is no host and port. Write it as"));
}
