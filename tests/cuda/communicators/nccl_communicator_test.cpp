#include "communicators/nccl_communicator.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <dlfcn.h>
#include <nccl.h>

#include <lockstep/lockstep.hpp>

#include "communicators/native_communicators.hpp"
#include "cuda/capture.hpp"
#include "cuda/communicators/operands.hpp"
#include "support/call_hook.hpp"
#include "support/communicator_group.hpp"
#include "support/fixed_group.hpp"
#include "support/matchers.hpp"
#include "support/replicas.hpp"

namespace lockstep::test {
namespace {

using Values = std::vector<float>;

const CommunicationOptions kByNccl{.implementation = CommunicationImplementation::nccl};

/// Communicators that an engine makes, and destroys. Skips the test where there are not n GPUs.
struct EngineCommunicators {
  explicit EngineCommunicators(int n, bool blocking = true) : handles(static_cast<std::size_t>(n)) {
    need_gpus(n);
    ncclUniqueId id;
    REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    ncclGroupStart();
    for (int rank = 0; rank < n; ++rank) {
      REQUIRE(cudaSetDevice(rank) == cudaSuccess);
      ncclCommInitRankConfig(&handles[static_cast<std::size_t>(rank)], n, id, rank, &config);
    }
    ncclGroupEnd();
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
  }
  ~EngineCommunicators() {
    for (ncclComm_t handle : handles) ncclCommDestroy(handle);
  }
  std::vector<ncclComm_t> handles;
};

/// Something that a thread waits for.
class Signal {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    is_set_ = true;
    changed_.notify_all();
  }
  /// @return whether it was set in time.
  bool wait(std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return is_set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

/// The rank that the calling thread drives; -1: none.
thread_local int rank_here = -1;

/// Calls f(rank) on a thread for each rank, whose rank_here it is.
template <class F>
void on_ranks(int n, const F& f) {
  on_replicas(n, [&](int rank) {
    rank_here = rank;
    f(rank);
  });
}

}  // namespace

TEST_CASE("an engine's NCCL communicators are adopted, and stay the engine's", "[cuda]") {
  const bool blocking = GENERATE(true, false);
  const EngineCommunicators engine(2, blocking);
  Operands operands(2);
  for (int round = 0; round < 2; ++round) {
    Communicator communicator = Communicator::adopt(engine.handles);
    REQUIRE(communicator.devices() == TestBackend::devices(2));
    const CommunicationOptions by_peers{.implementation = CommunicationImplementation::peer};
    const auto refusal =
        says("the options ask for peer memory", "the communicator is an engine's", "pass nccl");
    REQUIRE_THROWS_MATCHES(communicator.plan(ReduceOp::sum, DType::f32, 28, by_peers), Unsupported, refusal);
    std::atomic<int> num_refused{0};
    on_ranks(2, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      const TensorView& view = operands.views[r];
      try {
        communicator.all_reduce(ReduceOp::sum, rank, view, view, operands.streams[r], by_peers);
      } catch (const Unsupported&) {
        ++num_refused;
      }
    });
    REQUIRE(num_refused == 2);
    communicator.all_reduce(ReduceOp::mean, operands.views, operands.views, operands.streams);
    communicator.abort();
    REQUIRE_THROWS_AS(
        communicator.all_reduce(ReduceOp::sum, operands.views, operands.views, operands.streams),
        CollectiveAborted);
  }
  REQUIRE(operands.all_are(1.5f));
}

TEST_CASE("ranks of communicators that do not block may have a thread each", "[cuda]") {
  const EngineCommunicators engine(2, /*blocking=*/false);
  Operands operands(2);
  Communicator communicator = Communicator::adopt(engine.handles);
  on_ranks(2, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    for (int i = 0; i < 3; ++i)
      communicator.all_reduce(ReduceOp::sum, rank, operands.views[r], operands.views[r], operands.streams[r]);
  });
  REQUIRE(operands.all_are(12));
}

TEST_CASE("adopting refuses what is not one whole group in rank order", "[cuda]") {
  const EngineCommunicators engine(2);
  const auto& [first, second] = std::tie(engine.handles[0], engine.handles[1]);
  const std::vector<ncclComm_t> none, null{nullptr, second}, part{first}, swapped{second, first};
  REQUIRE_THROWS_MATCHES(Communicator::adopt(none), InvalidArgument, says("no communicators"));
  REQUIRE_THROWS_MATCHES(Communicator::adopt(null), InvalidArgument, says("communicator 0", "null"));
  REQUIRE_THROWS_MATCHES(Communicator::adopt(part), InvalidArgument, says("rank 0 of 2", "all ranks"));
  REQUIRE_THROWS_MATCHES(Communicator::adopt(swapped), InvalidArgument, says("rank 1 of 2", "rank order"));
}

TEST_CASE("adopting is refused where the process has NCCLs of two versions", "[cuda]") {
  const EngineCommunicators engine(2);
  void* const other = ::dlopen(LOCKSTEP_OTHER_NCCL, RTLD_NOW | RTLD_LOCAL);
  if (other == nullptr) SKIP("there is no " << LOCKSTEP_OTHER_NCCL);
  CHECK_THROWS_MATCHES(Communicator::adopt(engine.handles), Unsupported,
                       says("Communicator::adopt", "libnccl.so.2", "NCCL 2.23.4", LOCKSTEP_OTHER_NCCL));
  ::dlclose(other);
  CHECK_NOTHROW(Communicator::adopt(engine.handles));
}

TEST_CASE("P26 a rank that comes late meets no kernel's first launch that waits for it", "[cuda]") {
  need_gpus(2);
  Operands operands(2);
  Communicator communicator = Communicator::create(TestBackend::devices(2));
  Signal has_gone_on;
  std::atomic<bool> is_enqueued{false}, is_late{true};
  {
    const CallHook hook([&](std::string_view name, bool is_over) {
      if (rank_here == 0 && name == "ncclGroupEnd" && is_over) is_enqueued = true;
      if (rank_here == 0 && name == "cudaLaunchKernel" && is_over && is_enqueued) has_gone_on.set();
      if (rank_here == 1 && name == "cudaLaunchKernel" && !is_over && is_late.exchange(false))
        has_gone_on.wait(std::chrono::milliseconds(300));
      return 0;
    });
    on_ranks(2, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      // One kernel before, and another behind.
      communicator.all_reduce(ReduceOp::max, rank, operands.views[r], operands.views[r], operands.streams[r]);
    });
  }
  operands.synchronize();
  REQUIRE(operands.all_are(2));
}

TEST_CASE("no communicator is freed under a thread that is inside NCCL", "[cuda]") {
  need_gpus(2);
  const std::string_view call = GENERATE("ncclCommGetAsyncError", "ncclAllReduce", "ncclGroupEnd");
  Operands operands(2);
  Communicator communicator = Communicator::create(TestBackend::devices(2));
  Signal is_aborting;
  std::atomic<bool> is_inside{false}, was_freed{false};
  std::jthread aborting;
  {
    const CallHook hook([&](std::string_view name, bool is_over) {
      if (rank_here == 0 && name == call) {
        is_inside = !is_over;
        if (is_over || aborting.joinable()) return 0;
        aborting = std::jthread([&] { communicator.abort(); });
        is_aborting.wait();
        // A thread that leaves late, on a busy machine.
        if (name == "ncclGroupEnd") std::this_thread::sleep_for(std::chrono::milliseconds(1300));
      }
      if (rank_here != 0 && !is_over && (name == "ncclCommAbort" || name == "ncclCommRevoke")) {
        if (name == "ncclCommAbort" && is_inside) was_freed = true;
        is_aborting.set();
      }
      return 0;
    });
    rank_here = 0;
    REQUIRE_THROWS_AS(
        communicator.all_reduce(ReduceOp::mean, operands.views, operands.views, operands.streams, kByNccl),
        CollectiveAborted);
    rank_here = -1;
    aborting.join();
  }
  REQUIRE(!was_freed);
}

TEST_CASE("what is made while a lost communicator still ends has results of its own", "[cuda]") {
  need_gpus(2);
  struct Group final : FixedGroup {
    Group() : FixedGroup(0, 1) {}
    std::shared_ptr<backend::Loss> loss() override { return lost; }
    const std::shared_ptr<backend::Loss> lost = std::make_shared<backend::Loss>("worker 1 was lost");
  } group;
  Operands operands(2);
  std::vector<cuda::CudaDevice*> devices;
  std::vector<backend::Segment> segments;
  std::vector<backend::RankCall> calls;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    devices.push_back(&dynamic_cast<cuda::CudaDevice&>(operands.streams[rank].device_backend()));
    segments.push_back({operands.views[rank].data, operands.views[rank].data, 7, DType::f32});
  }
  for (std::size_t rank = 0; rank < 2; ++rank)
    calls.push_back({static_cast<int>(rank), operands.streams[rank].handle(), {&segments[rank], 1}});
  const auto native = cuda::make_native_communicators({0, 1}, TestBackend::device(), std::chrono::minutes(1));
  cuda::NcclCommunicator lost(devices, {&group, {2}}, native);
  Signal is_inside, may_leave;
  {
    const CallHook hook([&](std::string_view name, bool is_over) {
      if (rank_here != 0 || name != "ncclGroupEnd" || is_over) return 0;
      is_inside.set();
      may_leave.wait();
      return 0;
    });
    std::jthread calling([&] {
      rank_here = 0;
      CHECK_THROWS_AS(lost.all_reduce({"all_reduce(sum)", calls, calls}), CollectiveAborted);
    });
    REQUIRE(is_inside.wait());
    group.lost->tell();
    const std::jthread aborting([&] { lost.abort(); });  // waits for the call
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    Communicator next = Communicator::create(TestBackend::devices(2));
    may_leave.set();
  }
  CHECK_NOTHROW(operands.synchronize());
}

TEST_CASE("a collective that fails leaves no temporary memory behind", "[cuda]") {
  need_gpus(2);
  Operands operands(2, DType::f16);
  Communicator communicator = Communicator::create(TestBackend::devices(2));
  const auto in_use = [] { return memory_stats(TestBackend::device(0)).in_use_bytes; };
  const std::int64_t before = in_use();
  {
    const CallHook hook = CallHook::failing("ncclAllReduce", ncclSystemError);
    REQUIRE_THROWS_AS(
        communicator.all_reduce(ReduceOp::mean, operands.views, operands.views, operands.streams, kByNccl),
        CollectiveError);
  }
  REQUIRE(in_use() == before);
}

TEST_CASE("each GPU's part of a collective may be captured into a graph of its own", "[cuda]") {
  need_gpus(2);
  Operands operands(2);
  Communicator communicator = Communicator::create(TestBackend::devices(2));
  communicator.all_reduce(ReduceOp::mean, operands.views, operands.views, operands.streams);
  operands.synchronize();
  Capture first({operands.streams[0]}), second({operands.streams[1]});
  communicator.all_reduce(ReduceOp::sum, operands.views, operands.views, operands.streams);
  first.end();
  second.end();
  for (int i = 0; i < 2; ++i) {
    std::vector<cudaError_t> launched(2);
    on_replicas(2, [&](int rank) {
      Capture& own = rank == 0 ? first : second;
      launched[static_cast<std::size_t>(rank)] = own.start();
    });
    REQUIRE(launched == std::vector(2, cudaSuccess));
    REQUIRE((first.wait() == cudaSuccess && second.wait() == cudaSuccess));
  }
  REQUIRE(operands.all_are(6));
}

TEST_CASE("an allocation in a capture waits for no collective that is under way", "[cuda]") {
  need_gpus(2);
  Operands operands(2);
  const Device device = TestBackend::device(0);
  Communicator communicator = Communicator::create(TestBackend::devices(2));
  communicator.all_reduce(ReduceOp::mean, operands.views, operands.views, operands.streams);
  const Stream stream(device);
  Tensor older, kept;
  {
    const StreamScope scope(operands.streams[0]);
    older = Tensor::ones({10}, DType::f32, device);
  }
  operands.synchronize();
  Capture first({operands.streams[0]}), second({operands.streams[1]});
  {
    const StreamScope scope(operands.streams[0]);
    kept = Tensor::ones({10}, DType::f32, device);
  }
  communicator.all_reduce(ReduceOp::sum, operands.views, operands.views, operands.streams);
  first.end();
  second.end();
  REQUIRE(first.start() == cudaSuccess);  // it waits for the other
  older = Tensor();
  kept = Tensor();
  {
    const StreamScope scope(stream);
    Capture capture({stream});
    for (const std::int64_t size : {10, 11}) static_cast<void>(Tensor::ones({size}, DType::f32, device));
    capture.end();
  }
  REQUIRE(second.start() == cudaSuccess);
  REQUIRE((first.wait() == cudaSuccess && second.wait() == cudaSuccess));
  REQUIRE(operands.all_are(3));
}

TEST_CASE("a collective that some ranks' threads capture and others do not is refused", "[cuda]") {
  need_gpus(3);
  Operands operands(3);
  Communicator communicator = Communicator::create(TestBackend::devices(3));
  // One thread drives two ranks, whose streams differ.
  const auto reduce_max = [&](int thread) {
    std::vector<RankBatch> batches;
    for (const int rank : thread == 0 ? std::vector{0, 1} : std::vector{2}) {
      const auto r = static_cast<std::size_t>(rank);
      batches.push_back({rank, operands.streams[r], {&operands.views[r], 1}, {&operands.views[r], 1}});
    }
    communicator.all_reduce(ReduceOp::max, batches);
  };
  for (const std::size_t captured : {0u, 2u}) {
    Capture capture({operands.streams[captured]}, cudaStreamCaptureModeRelaxed);
    std::vector<std::string> messages(2);
    on_ranks(2, [&](int thread) {
      try {
        reduce_max(thread);
      } catch (const Unsupported& error) {
        messages[static_cast<std::size_t>(thread)] = error.what();
      }
    });
    capture.end();
    capture.launch();
    for (const std::string& message : messages) CHECK(message.find("captured") != std::string::npos);
    operands.synchronize();
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const StreamScope scope(operands.streams[rank]);
      CHECK(operands.tensors[rank].to_vector<float>() == Values(7, static_cast<float>(rank + 1)));
    }
  }
  on_ranks(2, reduce_max);
  REQUIRE(operands.all_are(3));
}

TEST_CASE("collectives of several communicators run in the order in which they are enqueued", "[cuda]") {
  need_gpus(2);
  constexpr const char* kName = "NCCL_LAUNCH_ORDER_IMPLICIT";
  const char* const before = std::getenv(kName);
  const std::string expected = before != nullptr ? before : "1";
  static_cast<void>(Communicator::create(TestBackend::devices(2)));
  const char* const after = std::getenv(kName);
  REQUIRE((after != nullptr && expected == after));
}

}  // namespace lockstep::test
