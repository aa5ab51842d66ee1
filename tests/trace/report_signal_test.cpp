#include <csignal>
#include <fstream>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"

namespace lockstep::test {

using Catch::Matchers::ContainsSubstring;

namespace {

/// Hangs: replica 1 never makes the call that replica 0 waits in.
[[noreturn]] void hang(int errors) {
  ::dup2(errors, STDERR_FILENO);
  install_report_signal(SIGUSR1);
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const trace::Region region("train");
  strategy.run([](ReplicaContext& context) {
    static_cast<void>(context.all_reduce(ReduceOp::sum, Tensor::zeros({3}), {.label = "first"}));
    if (context.replica_id_in_sync_group() == 1)
      for (;;) ::pause();
    static_cast<void>(context.all_gather(Tensor::zeros({2, 5}), 0));
  });
  ::_exit(0);
}

/// Whether a process has a handler for a signal.
bool handles(pid_t process, int signal) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigCgt:"))
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  return false;
}

}  // namespace

TEST_CASE("a process that hangs tells on a signal what every rank did last, and goes on", "[trace][host]") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    hang(ends[1]);
  }
  ::close(ends[1]);
  std::string text;
  const auto read_some = [&] {
    char buffer[4096];
    const ssize_t size = ::read(ends[0], buffer, sizeof buffer);
    if (size > 0) text.append(buffer, static_cast<std::size_t>(size));
    return size > 0;
  };
  // Before its handler is there, the signal would end the child: it says nothing of itself before.
  const std::string awaited = "all_gather of [2, 5] float32, in 'train', waiting";
  const auto hangs = [&] {
    return text.find(awaited) != std::string::npos && text.find("completed, made ") != std::string::npos;
  };
  for (int tries = 0; tries < 600 && !hangs(); ++tries) {
    ::usleep(100'000);
    int status = 0;
    REQUIRE(::waitpid(child, &status, WNOHANG) == 0);
    if (!handles(child, SIGUSR1)) continue;
    ::kill(child, SIGUSR1);
    ::usleep(100'000);
    while (text.find("replica 1 (CPU:1): ") == std::string::npos && read_some()) {
    }
    if (!hangs()) text.clear();
  }
  CHECK_THAT(text, ContainsSubstring("lockstep: group ") && ContainsSubstring(" of 2 replicas:\n"));
  CHECK_THAT(text, ContainsSubstring("lockstep:   replica 0 (CPU:0): call 1, " + awaited));
  CHECK_THAT(text, ContainsSubstring("lockstep:   replica 1 (CPU:1): call 0, all_reduce(sum) of [3] float32, "
                                     "'first', in 'train', completed, made "));
  int status = 0;
  CHECK(::waitpid(child, &status, WNOHANG) == 0);  // it goes on
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  ::close(ends[0]);
}

TEST_CASE("a signal that nobody may handle is refused", "[trace][host]") {
  CHECK_THROWS_MATCHES(install_report_signal(SIGKILL), InvalidArgument,
                       says("install_report_signal: signal 9", "SIGUSR1"));
  CHECK_THROWS_AS(install_report_signal(-1), InvalidArgument);
  CHECK_THROWS_MATCHES(install_report_signal(SIGSEGV), InvalidArgument,
                       says("install_report_signal: signal 11: a fault would come again"));
}

}  // namespace lockstep::test
