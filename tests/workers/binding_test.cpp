#include "workers/binding.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <sched.h>

#include "support/process_team.hpp"

using namespace lockstep;

namespace {

// binding_warning(2) in a process that is bound to one core, as a launcher of that variable does.
std::string warning_when_bound(const char* variable) {
  struct Text {
    char text[500];
  };
  test::SharedWithForks<Text> shared;
  test::ProcessTeam team(1, [&](int) {
    ::unsetenv("OMPI_COMM_WORLD_RANK");
    ::unsetenv("SLURM_PROCID");
    if (variable != nullptr) ::setenv(variable, "0", 1);
    cpu_set_t cores;
    ::sched_getaffinity(0, sizeof cores, &cores);
    int first = 0;
    while (!CPU_ISSET(first, &cores)) ++first;
    CPU_ZERO(&cores);
    CPU_SET(first, &cores);
    // A sanitizer has threads of its own.
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task"))
      ::sched_setaffinity(std::stoi(thread.path().filename()), sizeof cores, &cores);
    detail::binding_warning(2).copy(shared->text, sizeof shared->text - 1);
    if (!detail::binding_warning(1).empty()) throw std::logic_error("one core is enough for one replica");
  });
  REQUIRE(team.wait_for_all() == std::vector<std::string>{""});
  return shared->text;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a process that a launcher binds to fewer cores than it has replicas is told what to do",
          "[workers]") {
  cpu_set_t cores;
  ::sched_getaffinity(0, sizeof cores, &cores);
  if (CPU_COUNT(&cores) < 2) SKIP("there is one core");
  CHECK(detail::binding_warning(2).empty());
  const std::string mpirun = warning_when_bound("OMPI_COMM_WORLD_RANK");
  CAPTURE(mpirun);
  CHECK(has(mpirun, "is bound to 1 of "));
  CHECK(has(mpirun, "its 2 replicas share. mpirun binds so unless told: start with mpirun --bind-to none."));
  CHECK(has(warning_when_bound("SLURM_PROCID"), "srun --cpu-bind=none"));
  CHECK(has(warning_when_bound(nullptr), "without taskset"));
}
