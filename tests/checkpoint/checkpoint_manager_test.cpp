#include <csignal>
#include <cstdint>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/checkpoint/checkpoint_manager.hpp>
#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test_backend.hpp"

using namespace lockstep;
using test::says;
using test::TemporaryDirectory;
using test::write_bytes;

using Names = std::set<std::string>;
using Path = std::filesystem::path;

namespace {

/// A step counter and its checkpoint.
struct Counter {
  Variable step{Tensor::scalar(std::int64_t{0})};
  Checkpoint checkpoint{{{"step", step}}};

  std::int64_t value() const { return step.value().item<std::int64_t>(); }
  Path save(CheckpointManager& manager, std::int64_t k) {
    step.assign(k);
    return manager.save(k);
  }
};

}  // namespace

TEST_CASE("a symbolic link is no checkpoint, and leads nowhere", "[checkpoint][host]") {
  const TemporaryDirectory elsewhere, directory;
  Counter counter;
  counter.step.assign(std::int64_t{7});
  counter.checkpoint.save(elsewhere / "target");
  CheckpointManager manager(counter.checkpoint, directory.path(), {.max_to_keep = 1});
  std::filesystem::create_symlink(elsewhere / "target", directory / "checkpoint-9.safetensors");
  CHECK_FALSE(manager.latest());
  CHECK_FALSE(manager.restore_latest());
  std::filesystem::create_symlink(elsewhere / "target", directory / "checkpoint-8.safetensors");
  counter.save(manager, 8);  // takes the link's place
  CHECK(manager.restore_latest() == 8);
  CHECK(counter.value() == 8);
  counter.checkpoint.restore(elsewhere / "target");  // it has not been written
  CHECK(counter.value() == 7);
}

TEST_CASE("the last checkpoints are kept, in the order of their steps", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Counter counter;
  CheckpointManager manager(counter.checkpoint, directory / "run/1", {.max_to_keep = 3});
  const Path run = directory / "run/1";
  CHECK(counter.save(manager, 0) == run / "checkpoint-0.safetensors");
  for (const std::int64_t step : {8, 9, 10, 100}) counter.save(manager, step);
  CHECK(manager.checkpoints() == std::vector<Path>{run / "checkpoint-9.safetensors",
                                                   run / "checkpoint-10.safetensors",
                                                   run / "checkpoint-100.safetensors"});
  CHECK(manager.latest() == run / "checkpoint-100.safetensors");
  CHECK(manager.restore_latest() == 100);
  CHECK(counter.value() == 100);
  counter.save(manager, 100);  // replaces its own
  CHECK(manager.checkpoints().size() == 3);
}

TEST_CASE("five checkpoints are kept unless told", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Counter counter;
  CheckpointManager manager(counter.checkpoint, directory.path());
  for (std::int64_t step = 1; step <= 7; ++step) counter.save(manager, step);
  CHECK(manager.checkpoints().size() == 5);
  CHECK(manager.checkpoints()[0] == directory / "checkpoint-3.safetensors");
}

TEST_CASE("the one just written is kept, whatever its step", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Counter counter;
  CheckpointManager two(counter.checkpoint, directory.path(), {.max_to_keep = 2});
  for (const std::int64_t step : {10, 11, 3}) counter.save(two, step);
  CHECK(directory.names() == Names{"checkpoint-3.safetensors", "checkpoint-11.safetensors"});
  CHECK(two.restore_latest() == 11);
  CheckpointManager one(counter.checkpoint, directory.path(), {.max_to_keep = 1});
  counter.save(one, 5);
  CHECK(directory.names() == Names{"checkpoint-5.safetensors"});
}

TEST_CASE("where nothing was saved, nothing is found", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Counter counter;
  for (const Path& path : {directory.path(), directory / "none"}) {
    CheckpointManager manager(counter.checkpoint, path);
    CHECK(manager.latest() == std::nullopt);
    CHECK(manager.checkpoints().empty());
    CHECK(manager.restore_latest() == std::nullopt);
  }
  CHECK(directory.names().empty());
}

TEST_CASE("files of others are neither found nor removed", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const Names others{"checkpoint-007.safetensors",
                     "checkpoint-.safetensors",
                     "checkpoint-1x.safetensors",
                     "checkpoint--1.safetensors",
                     "checkpoint-+1.safetensors",
                     "checkpoint-1.safetensors.bak",
                     "checkpoint-9223372036854775808.safetensors",
                     "Checkpoint-1.safetensors",
                     "other-1.safetensors",
                     "checkpoint-best-1.safetensors",
                     "checkpoint-",
                     ".lockstep-notes.tmp"};
  for (const std::string& name : others) write_bytes(directory / name, "other");
  std::filesystem::create_directory(directory / "checkpoint-2.safetensors");
  Counter counter;
  CheckpointManager manager(counter.checkpoint, directory.path(), {.max_to_keep = 1});
  CheckpointManager best(counter.checkpoint, directory.path(),
                         {.max_to_keep = 1, .prefix = "checkpoint-best"});
  CHECK(manager.latest() == std::nullopt);
  counter.save(manager, 3);
  counter.save(manager, INT64_MAX);
  counter.save(best, 2);
  Names expected = others;
  expected.erase("checkpoint-best-1.safetensors");  // of the second manager's own form
  expected.insert({"checkpoint-2.safetensors", "checkpoint-9223372036854775807.safetensors",
                   "checkpoint-best-2.safetensors"});
  CHECK(directory.names() == expected);
  CHECK(manager.restore_latest() == INT64_MAX);
}

TEST_CASE("what a crash left is not found, and removed by the next save", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Counter counter;
  CheckpointManager manager(counter.checkpoint, directory.path());
  counter.save(manager, 1);
  write_bytes(directory / ".lockstep-1-0.tmp", "half a file");
  CHECK(manager.restore_latest() == 1);
  CHECK(manager.checkpoints().size() == 1);
  counter.save(manager, 2);
  CHECK(directory.names() == Names{"checkpoint-1.safetensors", "checkpoint-2.safetensors"});
}

TEST_CASE("a damaged latest checkpoint is refused, not passed over", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Counter counter;
  CheckpointManager manager(counter.checkpoint, directory.path());
  counter.save(manager, 1);
  const Path path = counter.save(manager, 2);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  counter.step.assign(5);
  CHECK_THROWS_MATCHES(manager.restore_latest(), InvalidArgument, says(path.string(), "entry 'step'"));
  CHECK(counter.value() == 5);
  std::filesystem::remove(path);
  CHECK(manager.restore_latest() == 1);
}

TEST_CASE("options of restore reach it", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Counter counter;
  const Variable extra(Tensor::scalar(1.0f));
  Checkpoint more({{"step", counter.step}, {"extra", extra}});
  CheckpointManager(more, directory.path()).save(4);
  CheckpointManager manager(counter.checkpoint, directory.path());
  CHECK_THROWS_AS(manager.restore_latest(), InvalidArgument);
  CHECK(manager.restore_latest({.ignore_unknown_entries = true}) == 4);
}

TEST_CASE("a folder stays where it was when the program changes its own", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const Path before = std::filesystem::current_path();
  Counter counter;
  std::filesystem::current_path(directory.path());
  CheckpointManager manager(counter.checkpoint, "run");
  std::filesystem::current_path(before);
  CHECK(counter.save(manager, 1) == directory / "run/checkpoint-1.safetensors");
  CHECK(std::filesystem::exists(directory / "run/checkpoint-1.safetensors"));
}

TEST_CASE("a manager that has been moved from says so", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Counter counter;
  CheckpointManager manager(counter.checkpoint, directory.path());
  CheckpointManager next = std::move(manager);
  const auto moved = says("CheckpointManager: this one has been moved from");
  CHECK_THROWS_MATCHES(manager.save(1), ContextError, moved);
  CHECK_THROWS_MATCHES(manager.wait(), ContextError, moved);
  CHECK_THROWS_MATCHES(manager.latest(), ContextError, moved);
  CHECK_THROWS_MATCHES(manager.checkpoints(), ContextError, moved);
  CHECK_THROWS_MATCHES(manager.restore_latest(), ContextError, moved);
  CHECK(counter.save(next, 1) == directory / "checkpoint-1.safetensors");
}

TEST_CASE("what a manager cannot do, it says", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Counter counter;
  CHECK_THROWS_MATCHES(CheckpointManager(counter.checkpoint, directory.path(), {.max_to_keep = 0}),
                       InvalidArgument, says("CheckpointManager: max_to_keep is 0. Keep at least 1."));
  for (const auto& [prefix, shown] : std::vector<std::pair<std::string, std::string>>{
           {"a/b", "'a/b'"}, {"", "''"}, {std::string("a\0b", 3), "'a?b'"}})
    CHECK_THROWS_MATCHES(CheckpointManager(counter.checkpoint, directory.path(), {.prefix = prefix}),
                         InvalidArgument, says("the prefix " + shown + " cannot begin a file's name"));
  CheckpointManager manager(counter.checkpoint, directory.path());
  CHECK_THROWS_MATCHES(manager.save(-1), InvalidArgument,
                       says("CheckpointManager::save: step -1 is negative"));
  write_bytes(directory / "file", "");
  CheckpointManager in_file(counter.checkpoint, directory / "file");
  CHECK_THROWS_MATCHES(
      in_file.save(1), Error,
      says("CheckpointManager::save: \"" + (directory / "file").string() + "\" cannot be made"));
  CHECK_THROWS_MATCHES(
      in_file.latest(), Error,
      says("CheckpointManager: \"" + (directory / "file").string() + "\" cannot be read: Not a directory",
           "Check the path"));
}

TEST_CASE("an old file that cannot be removed is an error; the new one is there", "[checkpoint][host]") {
  if (geteuid() != 0) SKIP("needs root, to have files of two owners");
  const TemporaryDirectory directory;
  std::filesystem::permissions(directory.path(), std::filesystem::perms(01777));  // only owners remove
  Counter counter;
  CheckpointManager manager(counter.checkpoint, directory.path(), {.max_to_keep = 1});
  counter.save(manager, 1);
  REQUIRE(seteuid(65534) == 0);
  std::string message;
  try {
    counter.save(manager, 2);
  } catch (const Error& error) {
    message = error.what();
  }
  REQUIRE(seteuid(0) == 0);
  CHECK(message == "CheckpointManager::save: \"" + (directory / "checkpoint-1.safetensors").string() +
                       "\" cannot be removed: Operation not permitted. Check the path and its permissions.");
  CHECK(manager.restore_latest() == 2);
}

TEST_CASE("a run killed again and again goes on from its latest checkpoint", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Counter counter;
  CheckpointManager manager(counter.checkpoint, directory.path(), {.max_to_keep = 2});
  std::mt19937 random(2);
  std::int64_t last = 0;
  for (int round = 0; round < (kSlowBuild ? 10 : 40); ++round) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (std::int64_t step = manager.restore_latest().value_or(0);;) counter.save(manager, ++step);
    }
    usleep(static_cast<useconds_t>(random() % 30'000));
    kill(child, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WTERMSIG(status) == SIGKILL);
    const std::int64_t step = manager.restore_latest().value_or(0);
    REQUIRE((step == 0 || counter.value() == step));
    REQUIRE(step >= last);
    last = step;
  }
  CHECK(last > 0);
  counter.save(manager, last + 1);
  const std::string next = std::to_string(last + 1);
  CHECK(directory.names() ==
        Names{"checkpoint-" + std::to_string(last) + ".safetensors", "checkpoint-" + next + ".safetensors"});
}
