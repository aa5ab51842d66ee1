#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "spinner.hpp"

namespace lockstep::hardware {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::milliseconds(1500);
constexpr std::int64_t kMi = 1 << 20;

// Whether a call returns while a kernel that does not end runs on another stream.
void probe(Section& section, const char* what, const std::function<void()>& call) {
  const Stream spinning(kGpu), work(kGpu);
  Spinner spinner(spinning);
  std::atomic<bool> done{false};
  std::string error;
  const auto begin = Clock::now();
  std::thread thread([&] {
    try {
      const StreamScope scope(work);
      call();
    } catch (const std::exception& failure) {
      error = failure.what();
    }
    done = true;
  });
  while (!done && Clock::now() - begin < kPatience) std::this_thread::yield();
  const bool is_blocked = !done;
  spinner.release();
  thread.join();
  work.synchronize();
  const std::string how = is_blocked ? "BLOCKED until the kernel ended" : "returned";
  section.finding(what, error.empty() ? how : how + ", FAULT: " + error);
}

}  // namespace

// Each call that waits for the device is a possible deadlock beside NCCL's kernels, which wait for each
// other.
void blocking(Section& section) {
  const Tensor matrix = Tensor::ones({64, 64}, DType::f64, kGpu);
  current_stream(kGpu).synchronize();
  {
    const Stream stream(kGpu);
    Spinner loads_the_kernel(stream);
  }
  const auto cast = [&] { static_cast<void>(matrix.cast(DType::f8e5m2)); };
  probe(section, "a kernel's first launch", cast);
  probe(section, "the same kernel again", cast);
  probe(section, "the first matmul", [&] { static_cast<void>(matmul(matrix, matrix)); });
  probe(section, "an allocation that the pool has",
        [] { static_cast<void>(Tensor::empty({16}, DType::f32, kGpu)); });
  probe(section, "an allocation for which the pool grows",
        [&] { static_cast<void>(Tensor::empty({4 * section.bytes()}, DType::f32, kGpu)); });
  probe(section, "a page-locked allocation",
        [&] { const PinnedBuffer pinned(static_cast<std::size_t>(section.bytes() / 4), kGpu); });
  probe(section, "a new stream", [] { const Stream stream(kGpu); });
  probe(section, "a new event", [] { const Event event(kGpu); });
  probe(section, "a copy to the device from pageable memory",
        [] { static_cast<void>(Tensor::from(std::vector<float>(kMi / 4, 1.0f), {kMi / 4}, kGpu)); });
  probe(section, "memory_stats", [] { static_cast<void>(memory_stats(kGpu)); });
  probe(section, "trim_memory", [] { trim_memory(kGpu); });
}

}  // namespace lockstep::hardware
