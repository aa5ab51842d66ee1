#include "simulation/fork.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include <malloc.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/device_manager.hpp>
#include <lockstep/log.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "simulation/simulated_engine.hpp"

namespace lockstep::simulation {
namespace {

constexpr char kPassed = 'p', kFailed = 'f';

void say(int pipe, char kind, const std::string& text) {
  const std::string line = kind + text;
  static_cast<void>(!::write(pipe, line.data(), line.size()));
}

/// Of the machine's cores: threads of one simulation do not run at the same time.
void stay_on_one_core(int core) {
  cpu_set_t allowed, own;
  CPU_ZERO(&own);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int skipped = (core < 0 ? ::getpid() : core) % CPU_COUNT(&allowed);
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &allowed) && skipped-- == 0) CPU_SET(i, &own);
  static_cast<void>(::sched_setaffinity(0, sizeof own, &own));
}

/// A folder whose path has the same length in all runs, as errors that name it are sent to others.
void enter_folder(const std::filesystem::path& parent) {
  constexpr std::size_t kLength = 100;
  const std::size_t length = parent.string().size() + 1;
  const auto folder = parent / std::string(kLength - std::min(length, kLength - 1), 'f');
  std::filesystem::create_directory(folder);
  std::filesystem::current_path(folder);
}

[[noreturn]] void run(std::uint64_t seed, const Simulated& simulated, bool is_verbose, int core,
                      unsigned limit_seconds, int pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int crash : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTERM})
    ::signal(crash, SIG_DFL);  // Catch2's
  ::alarm(limit_seconds);
  stay_on_one_core(core);
  System system(seed, [&](const std::string& text) {
    say(pipe, kFailed, text);
    ::_exit(1);
  });
  system.set_verbose(is_verbose);
  system.hide(std::filesystem::current_path());
  Network network(system);
  set_log_sink([&](std::string_view text) { system.note(text); });
  std::string result;
  try {
    result = simulated(system, network);
  } catch (const std::exception& error) {
    system.fail(error.what());
  }
  std::ostringstream text;
  text << system.hash() << ' ' << system.now() << ' ' << system.num_switches() << ' ' << result;
  say(pipe, kPassed, text.str());
  ::_exit(0);
}

}  // namespace

void prepare(char** argv) {
  const int before = ::personality(0xffffffff);
  const bool can_change = (before & ADDR_NO_RANDOMIZE) == 0 &&
                          ::personality(before | ADDR_NO_RANDOMIZE) >= 0 &&
                          (::personality(0xffffffff) & ADDR_NO_RANDOMIZE) != 0;
  // What threads keep of freed memory would look like growth.
  if (can_change && ::setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1) == 0)
    ::execv("/proc/self/exe", argv);
  ::mallopt(M_ARENA_MAX, 1);
  ::setenv("LOCKSTEP_ENGINE", "simulated", 1);
  register_simulated_engine();
  // What the library makes once in a process.
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  strategy.run([](ReplicaContext& context) { static_cast<void>(context.all_reduce(ReduceOp::sum, 1)); });
}

Fork::Fork(std::uint64_t seed, const Simulated& simulated, bool is_verbose, int core, unsigned limit_seconds)
    : seed_(seed), limit_seconds_(limit_seconds), folder_(std::make_unique<test::TemporaryDirectory>()) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    enter_folder(folder_->path());
    run(seed, simulated, is_verbose, core, limit_seconds, ends[1]);
  }
  ::close(ends[1]);
  pipe_ = ends[0];
}

Outcome Fork::wait() {
  std::string said;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::read(pipe_, buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<std::size_t>(size));
  ::close(std::exchange(pipe_, -1));
  int status = 0;
  ::waitpid(pid_, &status, 0);
  Outcome outcome{.seed = seed_};
  if (!said.empty() && said[0] == kPassed) {
    std::istringstream text(said.substr(1));
    text >> outcome.hash >> outcome.time >> outcome.num_switches;
    std::getline(text >> std::ws, outcome.result, '\0');
  } else if (!said.empty()) {
    outcome.failure = said.substr(1);
  } else if (WIFSIGNALED(status)) {
    outcome.failure = WTERMSIG(status) == SIGALRM
                          ? "it has not ended within " + std::to_string(limit_seconds_) + " s of real time"
                          : std::string("it was ended by ") + ::strsignal(WTERMSIG(status));
  } else {
    outcome.failure = "it has ended without a word";
  }
  return outcome;
}

}  // namespace lockstep::simulation
