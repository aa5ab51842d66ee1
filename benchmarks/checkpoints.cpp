// Checkpoints beside what they cannot be faster than: a write and an fsync of the same bytes, and for what a
// save costs training, a copy of them in memory.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <lockstep/checkpoint/checkpoint_manager.hpp>
#include <lockstep/tensor.hpp>
#include <lockstep/values/variable.hpp>

#include "support/temporary_directory.hpp"

namespace {

using namespace lockstep;

constexpr std::int64_t kNumVariables = 32;
constexpr std::int64_t kFloatsEach = std::int64_t{1} << 20;
constexpr std::int64_t kBytes = kNumVariables * kFloatsEach * std::int64_t{sizeof(float)};

struct Model {
  std::vector<Variable> variables{};
  Checkpoint checkpoint{};

  Model() {
    for (std::int64_t k = 0; k < kNumVariables; ++k) {
      variables.emplace_back(Tensor::full({kFloatsEach}, static_cast<float>(k)));
      checkpoint.add("v" + std::to_string(k), variables.back());
    }
  }
  void train() {
    for (Variable& variable : variables) variable.assign_add(1.0f);
  }
};

void count(benchmark::State& state) { state.SetBytesProcessed(state.iterations() * kBytes); }

/// What the disk takes: one write for each variable, an fsync, a rename over the file before.
void write_and_sync(benchmark::State& state) {
  const test::TemporaryDirectory folder;
  const std::string last = folder / "last", next = folder / "next";
  const std::vector<std::vector<float>> values(kNumVariables, std::vector<float>(kFloatsEach, 1.0f));
  for ([[maybe_unused]] auto _ : state) {
    const int file = ::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool is_written = file >= 0;
    for (const auto& value : values)
      is_written = is_written && ::write(file, value.data(), kFloatsEach * sizeof(float)) ==
                                     static_cast<ssize_t>(kFloatsEach * sizeof(float));
    is_written = is_written && ::fsync(file) == 0 && ::rename(next.c_str(), last.c_str()) == 0;
    ::close(file);
    if (!is_written) state.SkipWithError("the file cannot be written");
  }
  count(state);
}
BENCHMARK(write_and_sync)->UseRealTime()->Unit(benchmark::kMillisecond);

/// From the call to the file that is committed.
void save(benchmark::State& state, bool is_asynchronous) {
  const test::TemporaryDirectory folder;
  Model model;
  CheckpointManager manager(model.checkpoint, folder.path(),
                            {.max_to_keep = 1, .asynchronous = is_asynchronous});
  for ([[maybe_unused]] auto _ : state) {
    manager.save(1);
    manager.wait();
  }
  count(state);
}
BENCHMARK_CAPTURE(save, synchronous, false)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(save, asynchronous, true)->UseRealTime()->Unit(benchmark::kMillisecond);

/// A copy to memory that has been written to before.
void copy(benchmark::State& state) {
  const std::vector<float> from(kFloatsEach * kNumVariables, 1.0f);
  std::vector<float> to(from.size());
  for ([[maybe_unused]] auto _ : state) {
    std::memcpy(to.data(), from.data(), static_cast<std::size_t>(kBytes));
    benchmark::ClobberMemory();
  }
  count(state);
}
BENCHMARK(copy)->UseRealTime()->Unit(benchmark::kMillisecond);

/// A step that writes all variables.
void step(benchmark::State& state) {
  Model model;
  for ([[maybe_unused]] auto _ : state) model.train();
  count(state);
}
BENCHMARK(step)->UseRealTime()->Unit(benchmark::kMillisecond);

/// Such a step after a save, and the save, without what the thread goes on to do.
void step_with_save(benchmark::State& state, bool is_asynchronous) {
  const test::TemporaryDirectory folder;
  Model model;
  CheckpointManager manager(model.checkpoint, folder.path(),
                            {.max_to_keep = 1, .asynchronous = is_asynchronous});
  for ([[maybe_unused]] auto _ : state) {
    manager.save(1);
    model.train();
    state.PauseTiming();
    manager.wait();
    state.ResumeTiming();
  }
  count(state);
}
BENCHMARK_CAPTURE(step_with_save, synchronous, false)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step_with_save, asynchronous, true)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
