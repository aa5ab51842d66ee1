// Workers with GPUs that fail, or are lost, at moments that virtual GPUs let a test choose.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nccl.h>
#include <unistd.h>

#include <lockstep/lockstep.hpp>

#include "support/call_hook.hpp"
#include "support/worker_processes.hpp"

namespace lockstep::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace std::chrono_literals;

constexpr int kThrewAsExpected = 7;

void need_virtual_gpus() {
  if (std::getenv("VGPU_DEVICES") == nullptr) SKIP("needs virtual GPUs");
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

Device gpu(int index) { return {DeviceKind::gpu, index}; }

std::unique_ptr<Strategy> make_strategy(const std::vector<Device>& devices,
                                        const CommunicationOptions& options = {}) {
  return std::make_unique<MultiWorkerMirroredStrategy>(
      cluster::from_environment(), options, WorkerOptions{.devices = devices, .heartbeat_timeout = 1s});
}

auto sum_of_ones(Strategy& strategy) {
  return strategy.run(
      [](ReplicaContext& ctx) { return ctx.all_reduce(ReduceOp::sum, Tensor::full({1000}, 1.0f)); });
}

/// Sums 0 and 1 over replicas, in one pack. @return the sum of ones.
auto sum_in_a_pack(Strategy& strategy) {
  return strategy.run([](ReplicaContext& ctx) {
    PackedReduction reduction(ctx, ReduceOp::sum);
    for (const float value : {0.0f, 1.0f}) reduction.add(Tensor::full({1000}, value));
    return reduction.wait().back();
  });
}

bool are_all(const PerReplica<Tensor>& tensors, float value) {
  return tensors[0].to_vector<float>() == std::vector<float>(1000, value);
}

/// Says what f throws, if it throws an E.
template <class E>
int says_what_throws(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& error) {
    say(std::string("threw ") + error.what());
    return kThrewAsExpected;
  }
  return 1;
}

/// Stops the thread that is about to make that call of NCCL, and says so.
CallHook stopping_at(const std::string& call) {
  return CallHook([call](std::string_view name, bool is_over) {
    if (name != call || is_over) return 0;
    say("is about to call " + call);
    for (;;) ::pause();
  });
}

}  // namespace

TEST_CASE("what a lost worker's GPU has not given is not read", "[workers]") {
  need_virtual_gpus();
  const int signal = GENERATE(SIGKILL, SIGSTOP);
  CAPTURE(signal);
  WorkerProcesses workers(2, [](int worker) {
    auto strategy = make_strategy({gpu(worker)});
    const auto before = sum_of_ones(*strategy);
    if (!are_all(before, 2)) return 1;
    if (worker == 1) {
      const CallHook hook = stopping_at("ncclAllReduce");
      static_cast<void>(sum_of_ones(*strategy));
      return 2;
    }
    const auto sums = sum_of_ones(*strategy);
    say("has enqueued its part");
    const auto read = [&] { static_cast<void>(sums[0].to_vector<float>()); };
    if (says_what_throws<PeerLost>(read) != kThrewAsExpected) return 3;
    if (says_what_throws<PeerLost>([&] { sum_of_ones(*strategy); }) != kThrewAsExpected) return 4;
    strategy.reset();
    if (says_what_throws<PeerLost>(read) != kThrewAsExpected) return 5;
    MirroredStrategy alone({gpu(0)});  // makes the GPU's results count again
    return are_all(sum_of_ones(alone), 1) ? 0 : 6;
  });
  REQUIRE(workers.wait_for_output(1, "is about to call ncclAllReduce"));
  REQUIRE(workers.wait_for_output(0, "has enqueued its part"));
  workers.signal(1, signal);
  const WorkerResult& left = workers.wait(0);
  CAPTURE(left.output);
  CHECK(left.status == 0);
  CHECK_THAT(left.output, ContainsSubstring("which may depend on a collective between GPUs: worker 1 (" +
                                            workers.addresses()[1] + ") was lost: "));
}

TEST_CASE("a communicator of a program that has not heard of a loss leaves the results withheld",
          "[workers]") {
  need_virtual_gpus();
  WorkerProcesses workers(2, [](int worker) {
    auto strategy = make_strategy({gpu(worker)});
    if (worker == 1) {
      const CallHook hook = stopping_at("ncclAllReduce");
      static_cast<void>(sum_of_ones(*strategy));
      return 2;
    }
    const auto sums = sum_of_ones(*strategy);
    std::atomic<bool> is_aborted = false;
    {
      const CallHook hook([&](std::string_view name, bool is_over) {
        if (name == "ncclCommAbort" && is_over) is_aborted = true;
        return 0;
      });
      say("has enqueued its part");
      while (!is_aborted) std::this_thread::yield();
    }
    MirroredStrategy another({gpu(0)});
    strategy.reset();
    MirroredStrategy yet_another({gpu(0)});
    const auto read = [&] { static_cast<void>(sums[0].to_vector<float>()); };
    if (says_what_throws<PeerLost>(read) != kThrewAsExpected) return 3;
    MirroredStrategy of_who_knows({gpu(0)});
    return are_all(sum_of_ones(of_who_knows), 1) ? 0 : 4;
  });
  REQUIRE(workers.wait_for_output(1, "is about to call ncclAllReduce"));
  REQUIRE(workers.wait_for_output(0, "has enqueued its part"));
  workers.signal(1, SIGKILL);
  const WorkerResult& left = workers.wait(0);
  CAPTURE(left.output);
  CHECK(left.status == 0);
}

TEST_CASE("packs of several workers travel in windows where all workers have them", "[workers]") {
  need_virtual_gpus();
  const bool all_want_them = GENERATE(true, false);
  WorkerProcesses workers(2, [&](int worker) {
    std::atomic<int> num_registered{0};
    const CallHook hook([&](std::string_view name, bool is_over) {
      num_registered += name == "ncclCommWindowRegister" && is_over;
      return 0;
    });
    const auto strategy =
        make_strategy({gpu(2 * worker), gpu(2 * worker + 1)},
                      {.communicator = {.symmetric_windows = all_want_them || worker == 0}});
    for (int step = 0; step < 3; ++step)
      if (!are_all(sum_in_a_pack(*strategy), 4)) return 1;
    return num_registered == (all_want_them ? 2 : 0) ? 0 : 2;
  });
  for (const WorkerResult& result : workers.wait()) {
    CAPTURE(result.output);
    CHECK(result.status == 0);
  }
}

TEST_CASE("a worker that is lost while windows are registered is named", "[workers]") {
  need_virtual_gpus();
  WorkerProcesses workers(2, [](int worker) {
    const auto strategy = make_strategy({gpu(worker)}, {.communicator = {.symmetric_windows = true}});
    if (worker == 0) return says_what_throws<PeerLost>([&] { sum_in_a_pack(*strategy); });
    const CallHook hook = stopping_at("ncclCommWindowRegister");
    sum_in_a_pack(*strategy);
    return 1;
  });
  REQUIRE(workers.wait_for_output(1, "is about to call ncclCommWindowRegister"));
  workers.signal(1, SIGKILL);
  const WorkerResult& left = workers.wait(0);
  CAPTURE(left.output);
  CHECK(left.status == kThrewAsExpected);
  CHECK_THAT(left.output, ContainsSubstring("worker 1 (" + workers.addresses()[1] + ") was lost: "));
}

TEST_CASE("a lost worker is named where NCCL notices the loss first", "[workers]") {
  need_virtual_gpus();
  WorkerProcesses workers(2, [](int worker) {
    const auto strategy = make_strategy({gpu(worker)});
    if (worker == 1) return are_all(sum_of_ones(*strategy), 2) ? 0 : 1;
    const CallHook hook([](std::string_view name, bool is_over) -> int {
      if (name != "ncclAllReduce" || is_over) return 0;
      say("NCCL fails");
      return ncclRemoteError;
    });
    return says_what_throws<PeerLost>([&] { sum_of_ones(*strategy); });
  });
  REQUIRE(workers.wait_for_output(0, "NCCL fails"));
  workers.signal(1, SIGKILL);
  const WorkerResult& left = workers.wait(0);
  CAPTURE(left.output);
  CHECK(left.status == kThrewAsExpected);
  CHECK_THAT(left.output, ContainsSubstring("threw all_reduce(sum), call "));
  CHECK_THAT(left.output, ContainsSubstring("worker 1 (" + workers.addresses()[1] + ") was lost: "));
}

TEST_CASE("a worker that is lost while communicators are made is named", "[workers]") {
  need_virtual_gpus();
  WorkerProcesses workers(2, [](int worker) {
    DeviceManager::instance().open(gpu(worker));
    if (worker == 0) return says_what_throws<PeerLost>([] { make_strategy({gpu(0)}); });
    const CallHook hook = stopping_at("ncclCommInitRank");
    make_strategy({gpu(1)});
    return 1;
  });
  REQUIRE(workers.wait_for_output(1, "is about to call ncclCommInitRank"));
  workers.signal(1, SIGKILL);
  const WorkerResult& left = workers.wait(0);
  CAPTURE(left.output);
  CHECK(left.status == kThrewAsExpected);
  CHECK_THAT(left.output, ContainsSubstring("worker 1 (" + workers.addresses()[1] + ") was lost: "));
}

TEST_CASE("a worker that exits while communicators are made is named", "[workers]") {
  need_virtual_gpus();
  WorkerProcesses workers(2, [](int worker) {
    DeviceManager::instance().open(gpu(worker));
    if (worker == 0) return says_what_throws<PeerLost>([] { make_strategy({gpu(0)}); });
    const CallHook hook([](std::string_view name, bool is_over) {
      if (name == "ncclCommInitRank" && !is_over) std::thread([] { std::exit(0); }).detach();
      while (name == "ncclCommInitRank") ::pause();
      return 0;
    });
    make_strategy({gpu(1)});
    return 1;
  });
  const WorkerResult& left = workers.wait(0);
  CAPTURE(left.output);
  CHECK(left.status == kThrewAsExpected);
  CHECK_THAT(left.output,
             ContainsSubstring("worker 1 (" + workers.addresses()[1] + ")") && ContainsSubstring(" has "));
}

TEST_CASE("where a worker cannot make its communicators all say why", "[workers]") {
  need_virtual_gpus();
  struct Failure {
    int worker;
    std::string call;
    int error;
    std::string text;
  };
  const auto [failing, call, error, text] =
      GENERATE(Failure{1, "cudaGetDeviceProperties", cudaErrorUnknown, "Reading the GPU's UUID"},
               Failure{0, "ncclGetUniqueId", ncclSystemError, "ncclGetUniqueId(&id) failed with "},
               Failure{1, "ncclCommInitRank", ncclSystemError, "ncclCommInitRank failed with "},
               Failure{1, "cudaEventCreate", cudaErrorMemoryAllocation, "Making an event"});
  CAPTURE(call);
  WorkerProcesses workers(2, [&](int worker) {
    DeviceManager::instance().open(gpu(worker));
    if (worker != failing) return says_what_throws<CollectiveAborted>([&] { make_strategy({gpu(worker)}); });
    const CallHook hook = CallHook::failing(call, error);
    return says_what_throws<Error>([&] { make_strategy({gpu(worker)}); });
  });
  const std::vector<WorkerResult> results = workers.wait();
  const std::string label = "worker " + std::to_string(failing) + " (" + workers.addresses()[failing] + ")";
  for (int worker = 0; worker < 2; ++worker) {
    CAPTURE(worker, results[worker].output);
    CHECK(results[worker].status == kThrewAsExpected);
    CHECK_THAT(results[worker].output, ContainsSubstring(text));
    if (worker == failing) continue;
    CHECK_THAT(results[worker].output, ContainsSubstring(label));
  }
}

TEST_CASE("workers that name the same GPU are told so", "[workers]") {
  need_virtual_gpus();
  WorkerProcesses workers(2, [](int worker) {
    const std::vector<Device> devices = {gpu(worker == 0 ? 0 : 2), gpu(1)};
    return says_what_throws<InvalidArgument>([&] { make_strategy(devices); });
  });
  const auto label = [&](int worker) {
    return "worker " + std::to_string(worker) + " (" + workers.addresses()[static_cast<std::size_t>(worker)] +
           ")";
  };
  for (const WorkerResult& result : workers.wait()) {
    CAPTURE(result.output);
    CHECK(result.status == kThrewAsExpected);
    CHECK_THAT(result.output,
               ContainsSubstring("A communicator of 4 GPUs in 2 processes: GPU:1 of " + label(0) +
                                 " and GPU:1 of " + label(1) + " are the same GPU, GPU-"));
    CHECK_THAT(result.output, ContainsSubstring("Give each worker GPUs of its own"));
  }
}

TEST_CASE("virtual devices of a GPU are no ranks of several processes", "[workers]") {
  need_virtual_gpus();
  WorkerProcesses workers(2, [](int worker) {
    DeviceManager::instance().set_virtual_devices(gpu(0), 2);  // GPU 1 is device 2
    const std::vector<Device> devices =
        worker == 0 ? std::vector{gpu(0), gpu(1)} : std::vector{gpu(2), gpu(3)};
    return says_what_throws<Unsupported>([&] { make_strategy(devices); });
  });
  for (const WorkerResult& result : workers.wait()) {
    CAPTURE(result.output);
    CHECK(result.status == kThrewAsExpected);
    CHECK_THAT(result.output, ContainsSubstring("GPU:0 and GPU:1 of worker 0 (" + workers.addresses()[0] +
                                                ") are virtual devices of one GPU"));
  }
}

}  // namespace lockstep::test
