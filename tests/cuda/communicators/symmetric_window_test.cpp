#include "communicators/symmetric_window.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/lockstep.hpp>

#include "cuda/capture.hpp"
#include "cuda/communicators/operands.hpp"
#include "support/call_hook.hpp"
#include "support/matchers.hpp"
#include "support/replicas.hpp"
#include "support/scoped_log_sink.hpp"

/// Packs in NCCL's symmetric windows. The virtual GPUs' NCCL reports what NCCL would answer with wrong
/// results: windows that differ between ranks, and ranks that give other places than each other.
namespace lockstep::test {
namespace {

const CommunicationOptions kInWindows{.implementation = CommunicationImplementation::nccl,
                                      .communicator = {.symmetric_windows = true}};

/// A batch of tensors for each rank: tensor t of rank r has r + t + 1 everywhere.
struct Batch {
  Batch(int num_ranks, int num_tensors, std::int64_t count) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      streams.emplace_back(TestBackend::device(rank));
      const StreamScope scope(streams.back());
      std::vector<TensorView>& own = views.emplace_back();
      for (int t = 0; t < num_tensors; ++t) {
        tensors.push_back(Tensor::full({count + t}, static_cast<float>(rank + t + 1), DType::f32,
                                       TestBackend::device(rank)));
        own.push_back(tensors.back().view());
      }
    }
  }
  RankBatch of(int rank, const Stream& stream) const {
    const std::vector<TensorView>& own = views[static_cast<std::size_t>(rank)];
    return {rank, stream, own, own};
  }
  std::vector<RankBatch> all() const {
    std::vector<RankBatch> batches;
    for (int rank = 0; rank < static_cast<int>(views.size()); ++rank)
      batches.push_back(of(rank, streams[static_cast<std::size_t>(rank)]));
    return batches;
  }
  bool all_are_sums(float times = 1) {
    const auto n = static_cast<float>(views.size());
    std::size_t i = 0;
    for (std::size_t rank = 0; rank < views.size(); ++rank) {
      const StreamScope scope(streams[rank]);
      for (std::size_t t = 0; t < views[rank].size(); ++t, ++i) {
        const float sum = times * (n * (n + 1) / 2 + n * static_cast<float>(t));
        const std::vector<float> values = tensors[i].to_vector<float>();
        if (values != std::vector<float>(values.size(), sum)) return false;
      }
    }
    return true;
  }
  std::vector<Stream> streams;
  std::vector<Tensor> tensors;
  std::vector<std::vector<TensorView>> views;
};

/// Counts calls by name, and those that fail.
struct Calls {
  std::atomic<int> num_allocated{0}, num_registered{0}, num_deregistered{0}, num_freed{0};
  CallHook hook{[this](std::string_view name, bool is_over) {
    if (!is_over) return 0;
    num_allocated += name == "ncclMemAlloc";
    num_registered += name == "ncclCommWindowRegister";
    num_deregistered += name == "ncclCommWindowDeregister";
    num_freed += name == "ncclMemFree";
    return 0;
  }};
};

CommunicationPlan plan_of(const Communicator& communicator, int num_tensors, std::int64_t bytes_of_each) {
  const std::vector<TensorView> batch(
      static_cast<std::size_t>(num_tensors),
      TensorView(static_cast<void*>(nullptr), {bytes_of_each / 4}, DType::f32));
  return communicator.plan(ReduceOp::sum, batch, kInWindows, /*one_thread=*/true);
}

}  // namespace

TEST_CASE("packs travel in symmetric windows, which grow with them", "[cuda]") {
  const int n = GENERATE(2, 4);
  need_gpus(n);
  const bool is_threaded = GENERATE(false, true);
  const Calls calls;
  {
    Communicator communicator = Communicator::create(TestBackend::devices(n), kInWindows);
    for (const std::int64_t count :
         {100, 1000, 400'000, 7}) {  // 2 MiB hold the first two, and then 8 MiB the rest
      Batch batch(n, 3, count);
      if (is_threaded)
        on_replicas(n, [&](int rank) {
          const RankBatch own = batch.of(rank, batch.streams[static_cast<std::size_t>(rank)]);
          communicator.all_reduce(ReduceOp::sum, std::span(&own, 1), kInWindows);
        });
      else
        communicator.all_reduce(ReduceOp::sum, batch.all(), kInWindows);
      CHECK(batch.all_are_sums());
    }
    CHECK(calls.num_allocated == 2 * n);
    CHECK(calls.num_registered == 2 * n);
    CHECK(calls.num_freed == 0);
  }
  CHECK(calls.num_deregistered == 2 * n);
  CHECK(calls.num_freed == 2 * n);
}

TEST_CASE("calls in a window follow each other, whatever their streams", "[cuda]") {
  need_gpus(2);
  Communicator communicator = Communicator::create(TestBackend::devices(2), kInWindows);
  Batch first(2, 3, 5000), second(2, 3, 5000);
  communicator.all_reduce(ReduceOp::sum, first.all(), kInWindows);
  communicator.all_reduce(ReduceOp::sum, second.all(), kInWindows);
  CHECK(second.all_are_sums());
  CHECK(first.all_are_sums());
}

TEST_CASE("calls follow each other although an engine's stream may be another one by now", "[cuda]") {
  need_gpus(2);
  const CommunicationOptions options =
      GENERATE(kInWindows, CommunicationOptions{.implementation = CommunicationImplementation::peer});
  Communicator communicator = Communicator::create(TestBackend::devices(2), options);
  if (communicator.plan(ReduceOp::sum, DType::f32, 4, {}).path == CommunicationPath::nccl)
    SKIP("needs peers");
  Batch first(2, 3, 5000), second(2, 3, 5000);
  for (const Stream& stream : first.streams) stream.synchronize();
  for (const Stream& stream : second.streams) stream.synchronize();
  std::vector<Event> done;
  for (Batch* const batch : {&first, &second}) {
    std::vector<cudaStream_t> engines;
    std::vector<RankBatch> batches;
    for (int rank = 0; rank < 2; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      REQUIRE(cudaSetDevice(rank) == cudaSuccess);
      REQUIRE(cudaStreamCreateWithFlags(&engines.emplace_back(), cudaStreamNonBlocking) == cudaSuccess);
      batches.push_back({rank, Stream::borrow(engines.back(), TestBackend::device(rank)), batch->views[r],
                         batch->views[r]});
    }
    std::atomic<int> num_waits{0};
    {
      const CallHook hook([&](std::string_view name, bool is_over) {
        num_waits += name == "cudaStreamWaitEvent" && is_over;
        return 0;
      });
      communicator.all_reduce(ReduceOp::sum, batches, options);
    }
    CHECK(num_waits >= (batch == &first ? 0 : 2));
    for (const RankBatch& rank : batches) done.emplace_back(rank.stream.device()).record(rank.stream);
    // The next one's handles are those of the streams that are destroyed last.
    for (auto engine = engines.rbegin(); engine != engines.rend(); ++engine)
      REQUIRE(cudaStreamDestroy(*engine) == cudaSuccess);
  }
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  for (const Event& event : done) event.synchronize();
  CHECK(second.all_are_sums());
  CHECK(first.all_are_sums());
}

TEST_CASE("packs of a capture travel in plain memory", "[cuda]") {
  need_gpus(2);
  const Calls calls;
  Communicator communicator = Communicator::create(TestBackend::devices(2), kInWindows);
  Batch batch(2, 3, 100);
  Operands operands(2);
  communicator.all_reduce(ReduceOp::sum, operands.views, operands.views, operands.streams, kInWindows);
  for (const Stream& stream : batch.streams) stream.synchronize();
  {
    std::vector<StreamRef> streams(batch.streams.begin(), batch.streams.end());
    Capture capture(streams);
    communicator.all_reduce(ReduceOp::sum, batch.all(), kInWindows);
    capture.end();
    capture.launch();
    CHECK(batch.all_are_sums());
  }
  CHECK(calls.num_allocated == 0);
}

TEST_CASE("a plan says whether packs are in a window", "[cuda]") {
  need_gpus(2);
  const Communicator communicator = Communicator::create(TestBackend::devices(2), kInWindows);
  const auto plan = [&](std::int64_t bytes_of_each, int num_tensors) {
    return plan_of(communicator, num_tensors, bytes_of_each);
  };
  CHECK(plan(4096, 9).in_window);
  CHECK(plan(4096, 9).to_string().starts_with(
      "all_reduce(sum) of 9 tensors, 36864 bytes, over 2 ranks: NCCL, in a symmetric window ("));
  for (const CommunicationPlan& other : {plan(4096, 1), plan(8 << 20, 2)}) {
    CHECK(!other.in_window);
    CHECK(other.memory == "in plain memory, as it is not packed");
  }
  const Communicator without = Communicator::create(TestBackend::devices(2));
  const CommunicationPlan plain = plan_of(without, 9, 4096);
  CHECK(!plain.in_window);
  CHECK(plain.memory.empty());
}

TEST_CASE("a log of plans says whether a batch is in a window", "[cuda]") {
  need_gpus(2);
  ::setenv("LOCKSTEP_LOG", "plan", 1);
  std::vector<std::string> messages;
  {
    const ScopedLogSink sink([&](std::string_view message) { messages.emplace_back(message); });
    Communicator communicator = Communicator::create(TestBackend::devices(2), kInWindows);
    ::unsetenv("LOCKSTEP_LOG");
    std::vector<Tensor> tensors;
    std::vector<Stream> streams;
    std::vector<std::vector<TensorView>> views(2);
    for (int rank = 0; rank < 2; ++rank) {
      const StreamScope scope(streams.emplace_back(TestBackend::device(rank)));
      for (int t = 0; t < 2; ++t)
        views[static_cast<std::size_t>(rank)].push_back(
            tensors.emplace_back(Tensor::ones({8}, DType::f32, TestBackend::device(rank))).view());
    }
    for (int call = 0; call < 2; ++call)
      communicator.all_reduce(
          ReduceOp::sum,
          std::vector<RankBatch>{{0, streams[0], views[0], views[0]}, {1, streams[1], views[1], views[1]}},
          kInWindows);
    for (const Stream& stream : streams) stream.synchronize();
  }
  REQUIRE(messages.size() == 1);
  CHECK(messages[0].starts_with("plan: all_reduce(sum) of 2 tensors, 64 bytes, over 2 ranks: NCCL, in a "));
}

TEST_CASE("an NCCL that is too old for windows leaves packs in plain memory, and a plan says so", "[cuda]") {
  need_gpus(2);
  int version = 0;
  REQUIRE(ncclGetVersion(&version) == ncclSuccess);
  if (version >= cuda::SymmetricWindow::kOldestNccl) SKIP("NCCL has windows");
  Communicator communicator = Communicator::create(TestBackend::devices(2), kInWindows);
  Batch batch(2, 3, 100);
  communicator.all_reduce(ReduceOp::sum, batch.all(), kInWindows);
  CHECK(batch.all_are_sums());
  const CommunicationPlan plan = plan_of(communicator, 2, 2048);
  CHECK(!plan.in_window);
  CHECK(plan.memory == "in plain memory, as NCCL before 2.28.7 has no windows to rely on");
}

TEST_CASE("a window for which there is no memory is refused, and the communicator fails", "[cuda]") {
  need_gpus(2);
  const bool is_threaded = GENERATE(false, true);
  Communicator communicator = Communicator::create(TestBackend::devices(2), kInWindows);
  Batch batch(2, 3, 100);
  {
    const CallHook hook = CallHook::failing("ncclMemAlloc", ncclUnhandledCudaError);
    const auto refusal = says("Allocating a symmetric window on GPU:", "2097152 bytes requested",
                              "leave CommunicatorConfig::symmetric_windows out");
    if (is_threaded)
      REQUIRE_THROWS_AS(on_replicas(2,
                                    [&](int rank) {
                                      const RankBatch own =
                                          batch.of(rank, batch.streams[static_cast<std::size_t>(rank)]);
                                      communicator.all_reduce(ReduceOp::sum, std::span(&own, 1), kInWindows);
                                    }),
                        Error);
    else
      REQUIRE_THROWS_MATCHES(communicator.all_reduce(ReduceOp::sum, batch.all(), kInWindows), OutOfMemory,
                             refusal);
  }
  REQUIRE_THROWS_AS(communicator.all_reduce(ReduceOp::sum, batch.all(), kInWindows), CollectiveAborted);
}

TEST_CASE("memory that the pool has cached makes room for a window", "[cuda]") {
  need_gpus(2);
  Communicator communicator = Communicator::create(TestBackend::devices(2), kInWindows);
  Batch batch(2, 3, 100);
  std::atomic<int> num_calls{0}, num_trims{0};
  const CallHook hook([&](std::string_view name, bool is_over) {
    num_trims += name == "cudaMemPoolTrimTo" && is_over;
    return name == "ncclMemAlloc" && !is_over && num_calls++ == 0 ? static_cast<int>(ncclUnhandledCudaError)
                                                                  : 0;
  });
  communicator.all_reduce(ReduceOp::sum, batch.all(), kInWindows);
  CHECK(num_trims == 1);
  CHECK(batch.all_are_sums());
}

TEST_CASE("a rank that cannot register its window releases the others", "[cuda]") {
  need_gpus(2);
  Communicator communicator = Communicator::create(TestBackend::devices(2), kInWindows);
  Batch batch(2, 3, 100);
  std::atomic<int> num_calls{0};
  const CallHook hook([&](std::string_view name, bool is_over) {
    return name == "ncclCommWindowRegister" && !is_over && num_calls++ == 0
               ? static_cast<int>(ncclSystemError)
               : 0;
  });
  REQUIRE_THROWS_AS(on_replicas(2,
                                [&](int rank) {
                                  const RankBatch own =
                                      batch.of(rank, batch.streams[static_cast<std::size_t>(rank)]);
                                  communicator.all_reduce(ReduceOp::sum, std::span(&own, 1), kInWindows);
                                }),
                    CollectiveError);
}

TEST_CASE("PackedReduction's packs travel in windows", "[cuda]") {
  need_gpus(2);
  const Calls calls;
  {
    MirroredStrategy strategy(TestBackend::devices(2), kInWindows);
    const auto sums = strategy.run([](ReplicaContext& context) {
      PackedReduction reduction(context, ReduceOp::mean, {.bytes_per_pack = 8192});
      for (int i = 0; i < 12; ++i)
        reduction.add(Tensor::full({1000}, static_cast<float>(i + context.replica_id_in_sync_group()),
                                   DType::f32, context.device()));
      float sum = 0;
      for (const Tensor& result : reduction.wait()) sum += result.to_vector<float>().front();
      return sum;
    });
    CHECK(sums[0] == 72);
    CHECK(sums[1] == 72);
    CHECK(calls.num_registered == 2);
  }
  CHECK(calls.num_deregistered == 2);
}

}  // namespace lockstep::test
