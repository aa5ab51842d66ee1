// Saves of a CheckpointManager that a thread writes while training goes on.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/checkpoint/checkpoint_manager.hpp>
#include <lockstep/error.hpp>

#include "checkpoint/fsync_hook.hpp"
#include "support/matchers.hpp"
#include "support/scoped_log_sink.hpp"
#include "support/temporary_directory.hpp"
#include "support/test_backend.hpp"

using namespace lockstep;
using test::FsyncHook;
using test::Gate;
using test::says;
using test::TemporaryDirectory;

namespace {

constexpr CheckpointManagerOptions kAsynchronous{.max_to_keep = 2, .asynchronous = true};

/// A step, and as many numbers as make a file of a mebibyte, which are all the step.
struct Training {
  Variable step{Tensor::scalar(std::int64_t{0})};
  Variable numbers{Tensor::zeros({1 << 18})};
  Checkpoint checkpoint{{{"step", step}, {"numbers", numbers}}};

  void set(std::int64_t k) {
    step.assign(k);
    numbers.assign(Tensor::full({1 << 18}, static_cast<float>(k)));
  }
  bool is(std::int64_t k) const {
    const auto all = numbers.value().to_vector<float>();
    return step.value().item<std::int64_t>() == k &&
           all == std::vector<float>(all.size(), static_cast<float>(k));
  }
};

/// Keeps the threads that write at the first fsync.
struct HeldBack {
  std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  FsyncHook hook{[gate = gate] {
    gate->pass();
    return 0;
  }};
  ~HeldBack() { gate->open(); }
};

}  // namespace

TEST_CASE("a save returns before the file is there, which has the values of that moment",
          "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Training training;
  CheckpointManager manager(training.checkpoint, directory.path(), kAsynchronous);
  {
    const HeldBack held;
    training.set(1);
    CHECK(manager.save(1) == directory / "checkpoint-1.safetensors");
    training.set(2);
    training.numbers.assign_add(Tensor::ones({1 << 18}));
    held.gate->wait_for_one();
    CHECK_FALSE(manager.latest());
    CHECK(manager.checkpoints().empty());
    CHECK(training.step.value().item<std::int64_t>() == 2);
  }
  manager.wait();
  CHECK(manager.latest() == directory / "checkpoint-1.safetensors");
  CHECK(manager.restore_latest() == 1);
  CHECK(training.is(1));
}

TEST_CASE("one save is under way at most: the next one waits for it", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Training training;
  CheckpointManager manager(training.checkpoint, directory.path(), kAsynchronous);
  std::optional<HeldBack> held(std::in_place);
  training.set(1);
  manager.save(1);
  held->gate->wait_for_one();
  std::atomic<bool> has_opened = false;
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    has_opened = true;
    held->gate->open();
  });
  training.set(2);
  manager.save(2);
  CHECK(has_opened);
  CHECK(std::filesystem::exists(directory / "checkpoint-1.safetensors"));
  opens.join();
  manager.wait();
  CHECK(manager.checkpoints().size() == 2);
  held.reset();
  CHECK(manager.restore_latest() == 2);
  CHECK(training.is(2));
}

TEST_CASE("restore_latest waits for what is under way, and old files go after the new one is there",
          "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Training training;
  CheckpointManager manager(training.checkpoint, directory.path(), kAsynchronous);
  for (std::int64_t step = 1; step <= 5; ++step) {
    training.set(step);
    manager.save(step);
  }
  training.set(9);
  CHECK(manager.restore_latest() == 5);
  CHECK(training.is(5));
  CHECK(manager.checkpoints() == std::vector<std::filesystem::path>{directory / "checkpoint-4.safetensors",
                                                                    directory / "checkpoint-5.safetensors"});
}

TEST_CASE("what a save throws under way the next call throws, once", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Training training;
  CheckpointManager manager(training.checkpoint, directory.path(), kAsynchronous);
  training.set(1);
  manager.save(1);
  manager.wait();
  const auto fail_one = [&] {
    std::atomic<bool> has_failed = false;
    const FsyncHook full([&] {
      has_failed = true;
      return ENOSPC;
    });
    manager.save(2);
    while (!has_failed) std::this_thread::yield();
  };
  const auto throws_it =
      says("CheckpointManager::save: \"" + (directory / "checkpoint-2.safetensors").string() +
               "\" cannot be written: No space left on device",
           "Check the folder's space and permissions.");
  fail_one();
  CHECK_THROWS_MATCHES(manager.save(3), Error, throws_it);
  CHECK(manager.latest() == directory / "checkpoint-1.safetensors");
  fail_one();
  CHECK_THROWS_MATCHES(manager.wait(), Error, throws_it);
  manager.wait();
  fail_one();
  CHECK_THROWS_MATCHES(manager.restore_latest(), Error, throws_it);
  CHECK(manager.restore_latest() == 1);
  training.set(4);
  manager.save(4);
  CHECK(manager.restore_latest() == 4);
}

TEST_CASE("a manager that goes away waits for its save, and logs its error", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Training training;
  training.set(7);
  std::string logged;
  const test::ScopedLogSink sink([&](std::string_view message) { logged += message; });
  {
    CheckpointManager manager(training.checkpoint, directory.path(), kAsynchronous);
    manager.save(7);
    CheckpointManager other = std::move(manager);
  }
  CHECK(directory.names() == std::set<std::string>{"checkpoint-7.safetensors"});
  CHECK(logged.empty());
  const FsyncHook broken([] { return EIO; });
  CheckpointManager(training.checkpoint, directory.path(), kAsynchronous).save(8);
  CHECK(logged.find("checkpoint-8.safetensors\" cannot be written: Input/output error") != logged.npos);
}

TEST_CASE("a fork has no save under way", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Training training;
  CheckpointManager manager(training.checkpoint, directory.path(), kAsynchronous);
  std::optional<HeldBack> held(std::in_place);
  training.set(1);
  manager.save(1);
  held->gate->wait_for_one();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      manager.wait();
      { const CheckpointManager gone = std::move(manager); }
      _exit(0);
    } catch (...) {
      _exit(1);
    }
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  held.reset();
  CHECK(manager.restore_latest() == 1);
}

TEST_CASE("a run killed while it writes goes on from a whole checkpoint", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Training training;
  std::mt19937 random(3);
  std::int64_t last = 0;
  for (int round = 0; round < (kSlowBuild ? 10 : 60); ++round) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      CheckpointManager manager(training.checkpoint, directory.path(), kAsynchronous);
      for (std::int64_t step = manager.restore_latest().value_or(0);;) {
        training.set(++step);
        manager.save(step);
      }
    }
    usleep(static_cast<useconds_t>(random() % 30'000));
    kill(child, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WTERMSIG(status) == SIGKILL);
    CheckpointManager manager(training.checkpoint, directory.path(), kAsynchronous);
    const std::int64_t step = manager.restore_latest().value_or(0);
    REQUIRE((step == 0 || training.is(step)));
    REQUIRE(step >= last);
    last = step;
  }
  CHECK(last > 0);
}
