#include "support/worker_processes.hpp"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <signal.h>
#include <unistd.h>

#include <lockstep/cluster/environment.hpp>

#include "support/child_process.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using test::Launch;
using test::WorkerProcesses;

TEST_CASE("workers have the variables that a launcher gives", "[workers][host]") {
  for (const Launch launch : {Launch::tf_config, Launch::torchrun}) {
    WorkerProcesses workers(
        3,
        [](int worker) {
          const auto resolver = cluster::from_environment();
          std::printf("%s\n", resolver->cluster_spec().task_address("worker", 0).c_str());
          return resolver->task_id() == worker && resolver->cluster_spec().num_tasks("worker") == 3 ? 3 : 4;
        },
        {.launch = launch});
    for (const auto& result : workers.wait()) {
      CHECK(result.status == 3);
      CHECK(result.output == workers.addresses()[0] + "\n");
      CHECK(!result.timed_out);
      CHECK(!result.left_processes);
    }
  }
}

TEST_CASE("programs are started with the workers' variables", "[workers][host]") {
  WorkerProcesses workers(2, {"sh", "-c", "echo \"$TF_CONFIG$RANK $MORE\"; echo error >&2; exit $RANK"},
                          {.launch = Launch::torchrun, .environment = {"MORE=of it"}});
  const auto results = workers.wait();
  CHECK(results[0].output == "0 of it\nerror\n");
  CHECK(results[0].status == 0);
  CHECK(results[1].output == "1 of it\nerror\n");
  CHECK(results[1].status == 1);
}

TEST_CASE("a worker's exception is its output", "[workers][host]") {
  WorkerProcesses workers(1, [](int) -> int { throw std::runtime_error("what happened"); });
  CHECK(workers.wait(0).status == test::kThrew);
  CHECK(workers.wait(0).output == "what happened\n");
}

TEST_CASE("workers can be killed, stopped and continued", "[workers][host]") {
  WorkerProcesses workers(2, [](int worker) {
    std::printf("ready\n");
    std::fflush(stdout);
    if (worker == 0) ::pause();
    ::raise(SIGSTOP);
    return 3;
  });
  CHECK(workers.wait_for_output(0, "ready\n"));
  CHECK(workers.wait_for_output(1, "ready\n"));
  workers.signal(0, SIGKILL);
  CHECK(workers.wait(0).status == -SIGKILL);
  CHECK(!workers.wait_for_output(0, "never said"));
  while (!workers.is_stopped(1)) continue;
  workers.signal(1, SIGCONT);
  CHECK(workers.wait(1).status == 3);
}

TEST_CASE("workers are killed at the time limit, also stopped ones", "[workers][host]") {
  WorkerProcesses workers(2,
                          [](int worker) {
                            if (worker == 1) ::raise(SIGSTOP);
                            ::pause();
                            return 3;
                          },
                          {.time_limit = 100ms});
  for (const auto& result : workers.wait()) {
    CHECK(result.timed_out);
    CHECK(result.status == -SIGKILL);
  }
}

TEST_CASE("nothing is left of workers whose test ends early", "[workers][host]") {
  pid_t pid = 0;
  {
    WorkerProcesses workers(1, [](int) {
      ::pause();
      return 3;
    });
    pid = workers.pid(0);
    REQUIRE(::kill(pid, 0) == 0);
  }
  CHECK(::kill(pid, 0) != 0);
}

TEST_CASE("processes that outlive their worker are told, and ended", "[workers][host]") {
  WorkerProcesses workers(1, {"sh", "-c", "sleep 1000 & echo $!"});
  const auto result = workers.wait(0);
  CHECK(result.status == 0);
  CHECK(result.left_processes);
}
