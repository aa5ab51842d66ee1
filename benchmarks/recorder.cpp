// What recording calls (lockstep/report.hpp) costs: lockstep_bench_recorder [REPLICAS [ROUNDS]].
// The same work with and without records takes turns in one process; prints the median of the rounds' ratios,
// and beside it that of two strategies without records: how far the ratio can be trusted.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/lockstep.hpp>

#include "trace/call_ring.hpp"

namespace {

namespace ls = lockstep;

double nanoseconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// A strategy whose replicas' calls are recorded, or not.
std::unique_ptr<ls::MirroredStrategy> make_strategy(int num_replicas, bool records) {
  ::setenv("LOCKSTEP_CALLS", records ? "63" : "0", 1);
  std::vector<ls::Device> devices;
  for (int i = 0; i < num_replicas; ++i) devices.emplace_back(ls::DeviceKind::cpu, i);
  return std::make_unique<ls::MirroredStrategy>(devices);
}

/// The median of the ratios of the work's time with one strategy and with another, which has no records; sets
/// that one's time for a call. @param work  (strategy, calls).
double ratio(bool records, int num_replicas, int num_rounds, int num_calls, const auto& work, double& time) {
  const auto without = make_strategy(num_replicas, false), other = make_strategy(num_replicas, records);
  std::vector<double> ratios, times;
  for (int round = 0; round < num_rounds + 2; ++round) {
    const bool other_first = round % 2 == 0;
    double own[2] = {};
    for (const bool is_other : {other_first, !other_first})
      own[is_other] = nanoseconds_of([&] { work(is_other ? *other : *without, num_calls); }) / num_calls;
    if (round < 2) continue;  // warms up
    ratios.push_back(own[1] / own[0]);
    times.push_back(own[0]);
  }
  time = median(times);
  return median(ratios);
}

void compare(const char* what, int num_replicas, int num_rounds, int num_calls, const auto& work) {
  double time = 0;
  const double noise = ratio(false, num_replicas, num_rounds, num_calls, work, time);
  const double with = ratio(true, num_replicas, num_rounds, num_calls, work, time);
  std::printf("%-34s %10.0f ns, with records times %.4f (without once more: %.4f)\n", what, time, with,
              noise);
}

}  // namespace

int main(int argc, char** argv) {
  const int num_replicas = argc > 1 ? std::atoi(argv[1]) : 4;
  const int num_rounds = argc > 2 ? std::atoi(argv[2]) : 401;

  ls::detail::CallRing ring(64);
  const ls::TensorView tensor(static_cast<void*>(nullptr), ls::Shape{2}, ls::DType::f32);
  constexpr int kRecords = 1'000'000;
  std::vector<double> times;
  for (int round = 0; round < 11; ++round)
    times.push_back(nanoseconds_of([&] {
      for (std::uint64_t call = 0; call < kRecords; ++call) {
        ring.begin(call, call, "all_reduce(sum)", {&tensor, 1}, {}, false);
        ring.set_state(ls::CallState::started);
        ring.end(false);
      }
    }));
  std::printf("%-34s %10.2f ns\n", "a record", median(times) / kRecords);

  compare("all_reduce of 8 B, all threads", num_replicas, num_rounds, 400,
          [](ls::Strategy& strategy, int calls) {
            strategy.run([calls](ls::ReplicaContext& context) {
              const ls::Tensor x = ls::Tensor::zeros({2});
              for (int i = 0; i < calls; ++i) static_cast<void>(context.all_reduce(ls::ReduceOp::sum, x));
            });
          });
  compare("step: a run with one all_reduce", num_replicas, num_rounds, 400,
          [](ls::Strategy& strategy, int calls) {
            for (int i = 0; i < calls; ++i)
              strategy.run([](ls::ReplicaContext& context) {
                static_cast<void>(context.all_reduce(ls::ReduceOp::sum, 1.0f));
              });
          });
}
