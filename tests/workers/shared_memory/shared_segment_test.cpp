#include "workers/shared_memory/shared_segment.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <lockstep/error.hpp>

#include "support/process_team.hpp"
#include "support/socket_group.hpp"

using namespace lockstep;
using Catch::Matchers::ContainsSubstring;
using test::ProcessTeam;
using test::SocketGroup;
using test::SocketStar;

namespace {

const std::vector<std::size_t> kParts = {1, 0, 10'000};
const std::vector<std::string> kFine(3, "");

// Has other processes fail to open memory that has no name.
void hide_nameless(SocketGroup& group) {
  group.on_all_gather = [](std::string_view what, std::string& own) {
    const std::size_t path = own.find("/proc/");
    if (what.ends_with("where its shared memory is") && path != std::string::npos)
      own = own.substr(0, path) + "/proc/self/fd/0";
  };
}

void require(bool condition, const std::string& what) {
  if (!condition) throw Error(what);
}

// What one writes into its part, the others read.
void check_shared(SocketGroup& group, const detail::SharedSegment& segment) {
  const auto own = static_cast<std::size_t>(group.process());
  require(segment.num_parts() == 3, "number of parts");
  for (int p = 0; p < 3; ++p) {
    require(segment.part(p).size() >= kParts[static_cast<std::size_t>(p)], "size of a part");
    require(reinterpret_cast<std::uintptr_t>(segment.part(p).data()) % 4096 == 0, "a part's address");
  }
  require(segment.common().size() >= 64, "size of the common part");
  std::ranges::fill(segment.part(group.process()), static_cast<std::byte>(own + 1));
  if (own == 1) segment.common()[0] = std::byte{77};
  group.all_gather("written", "");
  for (int p = 0; p < 3; ++p)
    require(
        std::ranges::all_of(segment.part(p), [&](std::byte b) { return b == static_cast<std::byte>(p + 1); }),
        "what is in a part");
  require(segment.common()[0] == std::byte{77}, "what is in the common part");
}

std::size_t num_open_files() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}
std::vector<std::string> names_in_dev_shm() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().starts_with("lockstep")) names.push_back(entry.path());
  return names;
}

}  // namespace

TEST_CASE("processes share a segment, of which nothing is left behind", "[host]") {
  const bool named = GENERATE(false, true);
  const SocketStar star(3);
  ProcessTeam team(3, [&](int process) {
    SocketGroup group(star, process);
    if (named && process == 0) hide_nameless(group);
    const std::size_t before = num_open_files();
    for (int round = 0; round < 20; ++round) {
      const detail::SharedSegment segment(group, "a test", kParts);
      check_shared(group, segment);
      require(num_open_files() == before, "no file stays open");
      require(names_in_dev_shm().empty(), "no name is left");
    }
  });
  CHECK(team.wait_for_all() == kFine);
}

TEST_CASE("nothing is left of a nameless segment whose processes are killed", "[host]") {
  const SocketStar star(3), meeting(2);
  ProcessTeam team(3, [&](int process) {
    SocketGroup group(star, process);
    group.on_all_gather = [&](std::string_view what, std::string&) {
      if (process != 0 || !what.ends_with("can be used")) return;
      SocketGroup(meeting, 1).all_gather("created", "");
      ::pause();
    };
    const detail::SharedSegment segment(group, "a test", kParts);
  });
  SocketGroup(meeting, 0).all_gather("created", "");
  ::kill(team.id(0), SIGKILL);
  CHECK(team.wait(0) == "signal 9");
  CHECK(names_in_dev_shm().empty());
}

TEST_CASE("all processes hear of one that cannot have its part of the memory", "[host]") {
  const SocketStar star(3);
  ProcessTeam team(3, [&](int process) {
    SocketGroup group(star, process);
    if (process == 0) {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{8192, 8192};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    try {
      const detail::SharedSegment segment(group, "a test", kParts);
    } catch (const OutOfMemory& error) {
      throw Error(std::string("no memory: ") + error.what());
    }
  });
  for (const std::string& end : team.wait_for_all()) {
    CHECK_THAT(end, ContainsSubstring("no memory: a test: worker 0 cannot have its part of 20480 bytes"));
    CHECK_THAT(end,
               ContainsSubstring("File too large. Free memory, raise the limit, or give /dev/shm more."));
  }
}

TEST_CASE("a full /dev/shm is an error, not a signal", "[host]") {
  const SocketStar star(3);
  ProcessTeam team(3, [&](int process) {
    SocketGroup group(star, process);
    if (process == 0) hide_nameless(group);
    // A small one of its own: the other processes' is left alone.
    if (process == 0) {
      if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=8k") != 0)
        throw Error("may not mount");
    }
    const detail::SharedSegment segment(group, "a test", std::vector<std::size_t>(3, 1 << 20));
  });
  const std::vector<std::string> ends = team.wait_for_all();
  if (ends[0] == "threw: may not mount") SKIP("only root can make a small /dev/shm");
  for (const std::string& end : ends)
    CHECK_THAT(end, ContainsSubstring("posix_fallocate: No space left on device"));
}

TEST_CASE("processes that cannot share memory say who cannot open what", "[host]") {
  const SocketStar star(3);
  ProcessTeam team(3, [&](int process) {
    SocketGroup group(star, process);
    hide_nameless(group);
    if (process == 2) {  // it may open no further file
      const rlimit limit{static_cast<rlim_t>(::dup(0)), 4096};
      ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    try {
      const detail::SharedSegment segment(group, "a test", kParts);
    } catch (const Unsupported& error) {
      throw Error(std::string("unsupported: ") + error.what());
    }
  });
  for (const std::string& end : team.wait_for_all()) {
    CHECK_THAT(end,
               ContainsSubstring("unsupported: a test: the processes of this host cannot share memory: "));
    CHECK_THAT(end, ContainsSubstring("worker 1, /proc/self/fd/0 is "));
    CHECK_THAT(end, ContainsSubstring("worker 2, /lockstep-"));
    CHECK_THAT(end, ContainsSubstring("Too many open files. Run them as one user"));
  }
}
