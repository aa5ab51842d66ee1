#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/lockstep.hpp>

#include "collectives/watch/device_watch.hpp"
#include "contract/strategy/usable.hpp"
#include "cuda/gate.hpp"
#include "support/communicator_group.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"
#include "support/scoped_log_sink.hpp"
#include "trace/call_group.hpp"

/// GPUs that do not come to a collective that others wait in.
namespace lockstep::test {

namespace {

using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

/// What is logged, for a thread that waits for it.
class Log {
 public:
  std::string wait() {
    std::unique_lock lock(mutex_);
    logged_.wait_for(lock, 60s, [this] { return !text_.empty(); });
    return text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable logged_;
  std::string text_;
  const ScopedLogSink sink_{[this](std::string_view message) {
    const std::lock_guard lock(mutex_);
    text_ += message;
    logged_.notify_all();
  }};
};

void need_two_devices() {
  if (TestBackend::num_devices() < 2) SKIP("needs 2 devices");
}

bool are_on_one_gpu() { return TestBackend::open(0).ordinal() == TestBackend::open(1).ordinal(); }

/// Waits until all calls are known to be completed: then nobody asks the GPUs, who on virtual ones would also
/// run the gate.
bool wait_until_completed(const auto& reporting) {
  const auto are_completed = [&] {
    const Report report = reporting.report();
    for (const RankReport& rank : report.groups[0].ranks)
      for (const ReportedCall& call : rank.calls)
        if (call.state != CallState::completed) return false;
    return true;
  };
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!are_completed()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

std::string place(int rank) { return "rank " + std::to_string(rank) + " (GPU:" + std::to_string(rank) + ")"; }

}  // namespace

TEST_CASE("a GPU that does not come to a collective is named when the time is over", "[cuda]") {
  need_two_devices();
  const auto implementation =
      GENERATE(CommunicationImplementation::nccl, CommunicationImplementation::automatic);
  const Drive drive = GENERATE(Drive::one_thread, Drive::thread_per_replica);
  CommunicatorGroup group(2);
  const std::vector<std::vector<float>> ones(2, std::vector<float>(100, 1));
  const RankBuffers<float> buffers(group, ones);
  std::vector<RankViews> views;
  for (int rank = 0; rank < 2; ++rank) views.push_back({{buffers[rank].view()}, {buffers[rank].view()}});
  group.run(drive, views, [&](auto batches) {  // loads kernels, and connects
    group.communicator().all_reduce(ReduceOp::mean, batches,
                                    {.timeout = 60s, .implementation = implementation});
  });
  REQUIRE(wait_until_completed(group.communicator()));
  const auto late = [&](std::span<const RankBatch> batches) {
    group.communicator().all_reduce(ReduceOp::sum, batches,
                                    {.timeout = 1s, .implementation = implementation});
  };
  Log log;
  {
    const Gate gate(group.stream(1));
    const std::vector<RankBatch> batches = group.batches(views);
    if (drive == Drive::one_thread)
      late(batches);
    else
      on_replicas(2, [&](int rank) { late(std::span(batches).subspan(static_cast<std::size_t>(rank), 1)); });
    const std::string logged = log.wait();
    CHECK_THAT(logged,
               ContainsSubstring("all_reduce(sum), call 1: on the devices, not all ranks came to it within "
                                 "1000 ms. Present: " +
                                 place(0) + "; missing: " + place(1)));
    CHECK_THAT(logged, ContainsSubstring(place(1) +
                                         " (others wait for it): call 1, all_reduce(sum) of [100] float32, "
                                         "enqueued for "));
    CHECK_THAT(logged,
               ContainsSubstring(place(0) + ": call 1, all_reduce(sum) of [100] float32, running for "));
    const GroupReport report = group.communicator().report().groups[0];
    CHECK(report.ranks[0].calls[0].state == CallState::completed);
    CHECK(report.ranks[1].calls[0].state == CallState::completed);
    CHECK(report.ranks[1].is_missing);
    if (!are_on_one_gpu())  // the collective has ended
      CHECK_THROWS_MATCHES(group.stream(0).synchronize(), CollectiveTimeout,
                           says("Waiting for work of GPU:0", "missing: " + place(1), "Make a new strategy"));
    CHECK_THROWS_MATCHES(late(batches), CollectiveAborted,
                         says("the group was aborted", "missing: " + place(1)));
  }
  for (int rank = 0; rank < 2; ++rank) CHECK_THROWS_AS(group.stream(rank).synchronize(), CollectiveTimeout);
  CommunicatorGroup next(2);
  const RankBuffers<float> others(next, ones);
  next.communicator().all_reduce(ReduceOp::sum, others.views(), others.views(), next.streams(),
                                 {.timeout = 60s});
  CHECK(others.all_are(std::vector<float>(100, 2)));
}

TEST_CASE("a run whose GPUs wait for one that is stuck throws, and other strategies go on", "[cuda]") {
  need_two_devices();
  Replicas strategy(2);
  require_usable(strategy);
  std::optional<MirroredStrategy> other;
  if (TestBackend::num_devices() >= 4) {
    other.emplace(std::vector<Device>{TestBackend::device(2), TestBackend::device(3)});
    require_usable(*other);
  }
  // Loads the kernel, which may wait for the GPU.
  strategy.run(
      [](ReplicaContext& ctx) { static_cast<void>(ctx.all_reduce(ReduceOp::sum, Tensor::ones({4}))); });
  for (int i = 0; i < 2; ++i) current_stream(TestBackend::device(i)).synchronize();
  Log log;
  std::optional<Gate> gate(std::in_place, current_stream(TestBackend::device(1)));
  std::jthread opens;  // nothing but the gate ends what one GPU runs
  if (are_on_one_gpu())
    opens = std::jthread([&] {
      log.wait();
      gate.reset();
    });
  CHECK_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    const Tensor sum = ctx.all_reduce(ReduceOp::sum, Tensor::ones({4}), {.timeout = 1s});
    if (replica_id_of(ctx) == 0) static_cast<void>(sum.to_vector<float>());
  }),
                       CollectiveTimeout, says("all_reduce(sum), call 0", "missing: replica 1 (GPU:1)"));
  if (other) require_usable(*other);
  if (opens.joinable()) opens.join();
  gate.reset();
  CHECK_THROWS_AS(
      strategy.run([](ReplicaContext& ctx) { static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1)); }),
      CollectiveAborted);
  Replicas next(2);
  require_usable(next);
}

TEST_CASE("a launch of a function has the limits of its collectives together", "[cuda][function]") {
  need_two_devices();
  const std::chrono::milliseconds other_limit = GENERATE(500ms, 0ms);
  CAPTURE(other_limit);
  Replicas strategy(2);
  auto step = strategy.function([&](ReplicaContext& ctx, const Tensor& x) {
    const Tensor sum = ctx.all_reduce(ReduceOp::sum, x, {.timeout = 500ms});
    return ctx.all_reduce(ReduceOp::sum, sum, {.timeout = other_limit});
  });
  const auto x = vectors<float>({{1, 2}, {3, 4}});
  for (int call = 0; call < 3; ++call) step(x);
  REQUIRE(step.num_traces() == 1);
  for (int i = 0; i < 2; ++i) current_stream(TestBackend::device(i)).synchronize();
  Log log;
  if (other_limit == 0ms) {  // what one collective may wait for without a limit, the launch may
    std::optional<Gate> gate(std::in_place, current_stream(TestBackend::device(1)));
    const auto sums = step(x);
    std::this_thread::sleep_for(1s);
    gate.reset();
    CHECK(sums[0].to_vector<float>() == std::vector<float>{8, 12});
    require_usable(strategy);
    return;
  }
  REQUIRE(wait_until_completed(strategy));
  {
    const Gate gate(current_stream(TestBackend::device(1)));
    static_cast<void>(step(x));
    const std::string logged = log.wait();
    CHECK_THAT(logged, ContainsSubstring("function, call "));
    CHECK_THAT(logged,
               ContainsSubstring(": on the devices, not all replicas came to it within 1000 ms. Present: "
                                 "replica 0 (GPU:0); missing: replica 1 (GPU:1)"));
    CHECK(strategy.report().groups[0].ranks[1].is_missing);
    CHECK_THROWS_MATCHES(step(x), CollectiveAborted, says("function", "Make a new strategy"));
  }
  for (int i = 0; i < 2; ++i)
    CHECK_THROWS_AS(current_stream(TestBackend::device(i)).synchronize(), CollectiveTimeout);
  Replicas next(2);
  require_usable(next);
}

TEST_CASE("a group that takes long to end does not keep others from their limits", "[cuda]") {
  const Stream stream(TestBackend::device());
  const std::vector<backend::DeviceBackend*> devices = {&TestBackend::open()};
  detail::CallGroup calls({place(0)}, "rank");
  std::counting_semaphore<2> has_ended{0};
  std::binary_semaphore may_end{0};
  bool other_ends = false;
  {
    const auto end_slowly = [&](const std::string&) {
      has_ended.release();
      may_end.acquire();
    };
    detail::DeviceWatch slow(devices, calls, end_slowly), slower(devices, calls, end_slowly);
    const auto enqueue = [&](detail::DeviceWatch& watch) {
      watch.begin(0, 0, "all_reduce(sum)", stream.handle());
      const Gate gate(stream);
      watch.end(0, stream.handle(), 20ms);
      return has_ended.try_acquire_for(60s);
    };
    other_ends = enqueue(slow) && enqueue(slower);
    may_end.release();
    may_end.release();
  }
  CHECK(other_ends);
}

TEST_CASE("collectives that end in time leave nothing behind", "[cuda]") {
  need_two_devices();
  Replicas strategy(2, {.timeout = 60s});
  for (int round = 0; round < 3; ++round) {
    strategy.run([](ReplicaContext& ctx) {
      for (int i = 0; i < 20; ++i) static_cast<void>(ctx.all_reduce(ReduceOp::sum, Tensor::ones({4})));
    });
    for (int i = 0; i < 2; ++i) current_stream(TestBackend::device(i)).synchronize();
  }
  CHECK(wait_until_completed(strategy));
  require_usable(strategy);
}

}  // namespace lockstep::test
