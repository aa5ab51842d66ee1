// workers one_host|own_hosts|under_mpi VICTIM: two workers of a cluster, in processes of their own. Calls of
// VICTIM fail; the other one must say so within its limits. They meet in shared memory, or by Gloo.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/lockstep.hpp>

#include "faults/scenario.hpp"
#include "support/temporary_directory.hpp"
#include "support/worker_processes.hpp"

namespace ls = lockstep;
using namespace std::chrono_literals;

namespace {

constexpr int kWorkers = 2;

class Worker {
 public:
  explicit Worker(int worker) : worker_(worker) {}

  void attempt() {
    if (most_tries_ > 1) await_other();
    // A worker may hear of the other's failure in its first calls of the next cluster.
    for (int tries = std::exchange(most_tries_, 4); tries > 0; --tries) {
      try {
        strategy_.reset();
        strategy_ = std::make_unique<ls::MultiWorkerMirroredStrategy>(
            ls::cluster::from_environment(), ls::CommunicationOptions{.timeout = 2s},
            ls::WorkerOptions{.devices = {"CPU:0"}, .start_timeout = 2s, .heartbeat_timeout = 1s});
        step();
        return;
      } catch (const ls::Error&) {
        if (tries == 1) throw;
      }
    }
  }

  /// The strategy works, or says that it does not.
  void check(bool has_failed) {
    std::string why;
    for (int i = 0; i < 2 && strategy_ != nullptr; ++i) {  // each worker hears of a failure once
      try {
        reduce(100);
        why.clear();
      } catch (const ls::Error& error) {
        why = ls::test::text_of(error);
      }
    }
    if (strategy_ != nullptr && has_failed)
      std::printf("afterwards: %s\n", why.empty() ? "usable" : why.c_str());
    strategy_.reset();
  }

  /// Until both have had enough of the old cluster, or one of them is no more.
  void await_other() const {
    const std::filesystem::path folder = std::getenv("LOCKSTEP_TEST_FOLDER");
    ls::test::write_bytes(folder / ("ready-" + std::to_string(worker_)), "");
    const std::filesystem::path other = folder / ("ready-" + std::to_string(1 - worker_));
    for (int i = 0; i < 10'000 && !std::filesystem::exists(other); ++i) std::this_thread::sleep_for(1ms);
  }

 private:
  void reduce(std::int64_t size) {
    const auto sums = strategy_->run([&](ls::ReplicaContext& ctx) {
      const auto value = static_cast<float>(ctx.replica_id_in_sync_group() + 1);
      return ctx.all_reduce(ls::ReduceOp::sum, ls::Tensor::full({size}, value));
    });
    for (const ls::Tensor& sum : sums)
      if (sum.to_vector<float>() != std::vector<float>(static_cast<std::size_t>(size), 3))
        throw std::logic_error("a wrong sum");
  }

  void step() {
    const ls::Variable variable = strategy_->make_variable(ls::Tensor::full({100}, 5.0f));
    for (const std::int64_t size : {1, 5'000, 300'000}) reduce(size);
    const auto gathered = strategy_->run([](ls::ReplicaContext& ctx) {
      return ctx.all_gather(ls::Tensor::full({2}, static_cast<float>(ctx.replica_id_in_sync_group())), 0);
    });
    if (gathered[0].to_vector<float>() != std::vector<float>{0, 0, 1, 1})
      throw std::logic_error("gathered wrongly");
    const std::filesystem::path folder = std::getenv("LOCKSTEP_TEST_FOLDER");
    ls::Checkpoint checkpoint({{"variable", variable}});
    checkpoint.save(folder / "checkpoint");
    checkpoint.restore(folder / "checkpoint");
  }

  int worker_;
  std::unique_ptr<ls::Strategy> strategy_;
  int most_tries_ = 1;
};

int run_worker(int worker, int victim, bool has_own_host, bool is_under_mpi = false) {
  if (has_own_host) ::setenv("LOCKSTEP_HOST_ID", ("the host of worker " + std::to_string(worker)).c_str(), 1);
  if (worker != victim) ::unsetenv("LOCKSTEP_FAULTS_LEFT");
  Worker self(worker);
  return ls::test::run_scenario(
      {.attempt = [&] { self.attempt(); },
       .check = [&](bool has_failed) { self.check(has_failed); },
       .places = {"127.0.0.1", "worker ", "Worker ", std::getenv("LOCKSTEP_TEST_FOLDER")},
       .culprit = worker == victim ? "" : std::to_string(victim),
       .await_others = is_under_mpi ? std::function<void()>([&] { self.await_other(); }) : nullptr,
       .num_kept = has_own_host ? 1u : 0u});  // libgloo's listening socket
}

int fault(int worker, const std::string& what) {
  std::printf("FAULT: worker %d %s\n", worker, what.c_str());
  return 1;
}

}  // namespace

int main(int, char** argv) {
  const std::string how = argv[1];
  const bool has_own_host = how == "own_hosts";
  const int victim = std::stoi(argv[2]);
  if (how == "under_mpi")
    return run_worker(std::stoi(std::getenv("OMPI_COMM_WORLD_RANK")), victim, false, true);
  const ls::test::TemporaryDirectory folder;
  ls::test::WorkerProcesses workers(
      kWorkers, [&](int worker) { return run_worker(worker, victim, has_own_host); },
      {.time_limit = 20s, .environment = {"LOCKSTEP_TEST_FOLDER=" + folder.path().string()}});
  const auto results = workers.wait();
  int status = 0;
  for (int worker = 0; worker < kWorkers; ++worker) {
    const ls::test::WorkerResult& result = results[static_cast<std::size_t>(worker)];
    std::fputs(result.output.c_str(), stdout);
    if (result.timed_out) status = fault(worker, "hangs");
    if (result.status != 0) status = fault(worker, "ends with status " + std::to_string(result.status));
    if (result.left_processes) status = fault(worker, "leaves processes");
    const std::string prefix = "lockstep-" + std::to_string(workers.pid(worker)) + "-";
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      if (entry.path().filename().string().starts_with(prefix))
        status = fault(worker, "leaves " + entry.path().string());
  }
  return status;
}
