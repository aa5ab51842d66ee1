#include "measure.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <vector>

#include <lockstep/cuda/interop.hpp>

#include "reference.hpp"

namespace lockstep::hardware {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class TimedEvent {
 public:
  TimedEvent() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  ~TimedEvent() { cudaEventDestroy(event_); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string(call) + " gave " + cudaGetErrorName(status));
}

double Section::device_us(const StreamRef& stream, const std::function<void(int)>& call,
                          int calls_per_round) const {
  const cudaStream_t native = cuda::native_stream(stream);
  const TimedEvent begin, end;
  for (int i = 0; i < 3; ++i) call(i);  // loads kernels, fills the pool
  stream.synchronize();
  std::vector<double> times;
  for (int round = 0; round < settings_.rounds; ++round) {
    check(cudaEventRecord(begin.get(), native), "cudaEventRecord");
    for (int i = 0; i < calls_per_round; ++i) call(i);
    check(cudaEventRecord(end.get(), native), "cudaEventRecord");
    check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "cudaEventElapsedTime");
    times.push_back(1e3 * static_cast<double>(ms) / calls_per_round);
  }
  return median(std::move(times));
}

void Section::measure_copy_rate() {
  const Stream stream(kGpu);
  const StreamScope scope(stream);
  const Tensor from = Tensor::full({bytes()}, std::uint8_t{1}, DType::u8, kGpu);
  Tensor to = Tensor::empty({bytes()}, DType::u8, kGpu);
  const double driver = device_us(
      stream, [&](int) { to.copy_(from); }, 10);
  const auto copy = [&](int) {
    reference_copy(to.view().data, from.view().data, bytes(), cuda::native_stream(stream));
  };
  const double kernel = device_us(stream, copy, 10);
  const double moved_bytes = 2 * static_cast<double>(bytes());
  copy_rate_ = moved_bytes / std::min(driver, kernel);
  figure("copy by cudaMemcpyAsync", driver, moved_bytes);
  figure("copy by a kernel of 16-byte vectors", kernel, moved_bytes);
}

void Section::device_time(std::string_view what, const StreamRef& stream, double moved_bytes,
                          const std::function<void(int)>& call, int calls_per_round) {
  figure(what, device_us(stream, call, calls_per_round), moved_bytes);
}

void Section::host_time(std::string_view what, const std::function<void()>& call,
                        const std::function<void()>& wait, int calls_per_round) {
  call();
  wait();
  std::vector<double> times;
  for (int round = 0; round < settings_.rounds; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls_per_round; ++i) call();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() /
                    calls_per_round);
    wait();
  }
  figure(what, median(std::move(times)), 0);
}

void Section::figure(std::string_view what, double us, double moved_bytes) const {
  char share[32] = "-";
  if (moved_bytes > 0 && copy_rate_ > 0)
    std::snprintf(share, sizeof share, "%.3f", moved_bytes / us / copy_rate_);
  std::printf("%s\t%s\t%.2f\tus\t%s\n", std::string(name_).c_str(), std::string(what).c_str(), us, share);
  std::fflush(stdout);
}

void Section::finding(std::string_view what, std::string_view text) const {
  std::printf("%s\t%s\t%s\n", std::string(name_).c_str(), std::string(what).c_str(),
              std::string(text).c_str());
  std::fflush(stdout);
}

}  // namespace lockstep::hardware
