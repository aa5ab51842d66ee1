#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <sys/wait.h>

#include "support/temporary_directory.hpp"

namespace {

struct Finished {
  int status = -1;
  std::string output;
};

/// Runs the program, whose path the build gives; the output is both streams' unless redirected otherwise.
Finished run(const std::string& arguments, const std::string& redirection = "2>&1") {
  std::FILE* const pipe =
      ::popen(("'" LOCKSTEP_TRAIN_DIGITS "' " + arguments + " " + redirection).c_str(), "r");
  REQUIRE(pipe != nullptr);
  Finished finished;
  std::array<char, 512> part;
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) finished.output += part.data();
  const int status = ::pclose(pipe);
  finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return finished;
}

bool has(const Finished& finished, const std::string& part) {
  return finished.output.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("train_digits prints a line for each epoch and ends in what it did", "[examples]") {
  const Finished finished = run("--replicas 2 --epochs 2");
  CAPTURE(finished.output);
  CHECK(finished.status == 0);
  CHECK(has(finished, "epoch 1/2  loss "));
  CHECK(has(finished, "\nepoch 2/2  loss "));
  CHECK(has(finished, "\nTrained 2 epochs with Adam on 2 replicas (CPU:0 CPU:1), batches of 64: "));
  CHECK(has(finished, " of 359 images are read correctly\n"));
  CHECK_FALSE(has(finished, "\r"));
  CHECK_FALSE(has(finished, "\033"));
}

TEST_CASE("train_digits takes 1 to 4 replicas, and devices by name", "[examples]") {
  for (const char* replicas : {"--replicas 1", "--replicas 2", "--replicas 3", "--replicas 4"})
    CHECK(run(std::string(replicas) + " --epochs 1").status == 0);
  const Finished named = run("--devices CPU:1,CPU:0 --epochs 1 --optimizer sgd");
  CHECK(named.status == 0);
  CHECK(has(named, "Trained 1 epoch with SGD with momentum on 2 replicas (CPU:1 CPU:0)"));
}

TEST_CASE("train_digits --graph reads as many images", "[examples]") {
  const auto result = [](const Finished& finished) {
    CAPTURE(finished.output);
    REQUIRE(finished.status == 0);
    return finished.output.substr(finished.output.rfind("Test accuracy"));
  };
  CHECK(result(run("--replicas 2 --epochs 2 --graph")) == result(run("--replicas 2 --epochs 2")));
}

TEST_CASE("train_digits --trace writes a picture of what runs, and sums it up", "[examples]") {
  const lockstep::test::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "spans.json";
  const Finished finished = run("--replicas 4 --epochs 1 --trace '" + file.string() + "'");
  CAPTURE(finished.output);
  CHECK(finished.status == 0);
  for (const char* const name : {"run", "all_reduce(sum)", "apply_gradients", "DistributedIterator::next"})
    CHECK(has(finished, name));
  CHECK(std::filesystem::file_size(file) > 10'000);
  CHECK(run("--epochs 1 --trace '" + (directory.path() / "nowhere" / "file").string() + "'").status == 1);
}

TEST_CASE("train_digits goes on from its checkpoints, on other replicas", "[examples]") {
  const lockstep::test::TemporaryDirectory directory;
  const std::string folder = " --checkpoints '" + directory.path().string() + "'";
  const auto result = [](const Finished& finished) {
    CAPTURE(finished.output);
    REQUIRE(finished.status == 0);
    return finished.output.substr(finished.output.rfind("Test accuracy"));
  };
  const std::string uninterrupted = result(run("--replicas 2 --epochs 3"));
  const Finished first = run("--replicas 3 --epochs 1" + folder);
  CHECK_FALSE(has(first, "Going on"));
  const Finished second = run("--replicas 1 --epochs 3" + folder);
  CHECK(has(second, "Going on after epoch 1 and step 23, from "));
  CHECK(has(second, "epoch 2/3  loss "));
  CHECK(has(second, "Trained 2 epochs with Adam on 1 replica "));
  CHECK(result(second) == uninterrupted);
  // Nothing is left to do.
  const Finished third = run("--replicas 4 --epochs 3" + folder);
  CHECK(has(third, "Trained 0 epochs"));
  CHECK(result(third) == uninterrupted);
  // Another optimizer's state does not fit.
  const Finished other = run("--optimizer sgd" + folder);
  CHECK(other.status == 1);
  CHECK(has(other, "optimizer/hidden/bias/"));
}

TEST_CASE("train_digits goes on within an epoch", "[examples]") {
  const lockstep::test::TemporaryDirectory directory;
  const std::string arguments =
      "--replicas 2 --epochs 1 --save-every 10 --checkpoints '" + directory.path().string() + "'";
  const auto result = [](const Finished& finished) {
    CAPTURE(finished.output);
    REQUIRE(finished.status == 0);
    return finished.output.substr(finished.output.rfind("Test accuracy"));
  };
  const std::string uninterrupted = result(run(arguments));
  const auto last = directory / "checkpoint-23.safetensors";
  const std::string bytes = lockstep::test::read_bytes(last);
  REQUIRE(std::filesystem::remove(last));
  const Finished again = run(arguments);
  CHECK(has(again, "Going on after epoch 0 and step 20, from "));
  CHECK(result(again) == uninterrupted);
  CHECK(lockstep::test::read_bytes(last) == bytes);
  CHECK(run("--save-every 10").status == 2);
}

TEST_CASE("train_digits fails where it does not reach the accuracy required", "[examples]") {
  const Finished finished = run("--replicas 1 --epochs 1 --learning-rate 1e-9 --require-accuracy 90");
  CHECK(finished.status == 1);
  CHECK(has(finished, "below the required 90.0 %"));
}

TEST_CASE("train_digits answers bad options with a line, its usage and status 2", "[examples]") {
  for (const std::string arguments :
       {"--frobnicate", "--replicas 0", "--replicas 2 --devices CPU:0,CPU:1", "--devices TPU:0",
        "--devices GPU:77", "--epochs x", "--require-accuracy nan", "--checkpoints ''"}) {
    const Finished finished = run(arguments);
    CAPTURE(finished.output);
    CHECK(finished.status == 2);
    const std::size_t end = finished.output.find('\n');
    CHECK(finished.output.substr(0, 14) == "train_digits: ");
    CHECK(finished.output.find("Usage: train_digits", end) != std::string::npos);
  }
  CHECK(run("--frobnicate", "2>/dev/null").output.empty());
  const Finished help = run("--help", "2>/dev/null");
  CHECK(help.status == 0);
  CHECK(has(help, "--batch-size"));
}

TEST_CASE("train_digits answers unreadable data with path and reason and status 1", "[examples]") {
  const Finished finished = run("--data /nowhere");
  CHECK(finished.status == 1);
  CHECK(has(finished, "train_digits: "));
  CHECK(has(finished, "/nowhere/digits_images.npy"));
  CHECK_FALSE(has(finished, "Usage"));
}
