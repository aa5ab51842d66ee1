#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include <nccl.h>

#include <lockstep/backend/communicator_backend.hpp>
#include <lockstep/backend/process_group.hpp>
#include <lockstep/detail/function_ref.hpp>

#include "communicators/launch_order.hpp"
#include "communicators/peer_reduction.hpp"
#include "communicators/symmetric_window.hpp"
#include "communicators/wire.hpp"
#include "device/cuda_device.hpp"
#include "graphs/capture.hpp"

namespace lockstep::cuda {

/// Collectives of distinct GPUs, one NCCL rank for each; the ranks that one thread drives are one group.
/// Other processes may have further ranks. An all_reduce may go by own kernels instead (PeerReduction), where
/// the GPUs reach each other's memory: choose() says which.
///
/// NCCL combines in the element's own type, in an order of its choosing. Where that would break the
/// interface's promises, values travel as another type (a `Wire`): f16's mean and everything of f8 as f32,
/// minima and maxima of floats as ordered integers, which keep NaN, 16-bit integers, which NCCL lacks, as
/// 32-bit ones. A mean is a plain sum, which all of NCCL's algorithms have, of values scaled by a power of
/// two before, which is exact and cannot overflow, and one division in float for what is left. Small arrays
/// of a batch travel together, in symmetric windows where the configuration asks for them. What scales or
/// converts also packs: one launch before NCCL, one behind.
///
/// Communicators are made by threads of their own within a time limit. Nonblocking ones (adopted ones, or all
/// with NCCL_COMM_BLOCKING=0) are waited for: each of their groups costs NCCL a new thread (ncclGroupEnd,
/// NCCL 2.28).
///
/// Each rank's part of a collective is captured into a graph of its own, or several into one. NCCL can end a
/// communicator only when no graph has its calls. A communicator that goes before its graphs is left, with a
/// message, and ends with the next communicator that is made or ended, or with the process
/// (LeftCommunicators).
class NcclCommunicator final : public backend::CommunicatorBackend {
 public:
  static constexpr std::chrono::minutes kCreationLimit{5};

  /// @throws CollectiveError    NCCL failed. @throws CollectiveTimeout  it took longer than `limit`.
  NcclCommunicator(const std::vector<CudaDevice*>& ranks, std::chrono::milliseconds limit,
                   const CommunicatorConfig& config = {});
  /// This process's ranks of a communicator over several. Owns the communicators.
  NcclCommunicator(const std::vector<CudaDevice*>& ranks, const backend::ProcessRanks& all,
                   std::span<const ncclComm_t> communicators, const CommunicatorConfig& config = {});
  /// Uses communicators that somebody else owns.
  NcclCommunicator(const std::vector<CudaDevice*>& ranks, std::span<const ncclComm_t> communicators);
  ~NcclCommunicator() override;

  /// Whether packs travel in symmetric windows.
  bool has_windows() const { return has_windows_; }
  /// They do not, because those of another process do not. @pre No collective has been called.
  void give_up_windows();

  int num_ranks() const override { return num_ranks_; }
  CommunicationPlan plan(ReduceOp op, std::span<const backend::Segment> batch,
                         const backend::Route& route) const override;
  bool combines_in_rank_order() const override { return false; }
  void all_reduce(const backend::GroupCall& collective) override;
  void reduce(const backend::GroupCall& collective) override;
  void broadcast(const backend::GroupCall& collective) override;
  void all_gather(const backend::GroupCall& collective) override;
  void reduce_scatter(const backend::GroupCall& collective) override;
  void transfer(const backend::GroupCall& collective) override;
  void launch_graphs(lockstep::detail::FunctionRef<void()> launch) override {
    const LaunchOrder::Alone alone;
    launch();
  }
  void abort() noexcept override;

 private:
  struct Rank {
    CudaDevice* device = nullptr;
    ncclComm_t communicator = nullptr;  // null: it was aborted
    backend::EventHandle last{};        // behind the last collective; only where there are processes_
    // See inside().
    std::unique_ptr<std::timed_mutex> in_use = std::make_unique<std::timed_mutex>();
    Wire wire;                                  // of the reduction under way
    std::unique_ptr<SymmetricWindow> window{};  // of its packs; null: there are none
    Capture capture;                            // of the stream of the call under way, by peers
  };
  NcclCommunicator(const std::vector<CudaDevice*>& ranks, int first_rank, int num_ranks,
                   std::span<const ncclComm_t> communicators);

  struct Choice {
    bool is_peer;
    std::string_view reason;  // static
  };
  /// By what an all_reduce or reduce goes. @throws Unsupported  as plan().
  Choice choose(std::span<const backend::Segment> batch, const backend::Route& route) const;
  bool goes_by_peers(const backend::GroupCall& collective) const;
  void reduce_by_peers(const backend::GroupCall& collective, int root);

  /// Calls `call()`, which calls NCCL for these ranks. An abort waits until it is over; what fails because of
  /// an abort is CollectiveAborted.
  void inside(std::string_view operation, std::span<const backend::RankCall> calls,
              lockstep::detail::FunctionRef<void()> call);
  bool all_come_out(std::chrono::milliseconds limit) noexcept;
  void end_communicators(std::shared_ptr<const void> memory) noexcept;
  /// Where a process is lost, and collectives are under way, which are about to be ended: takes their results
  /// from the devices. Does not wait.
  void lose_results() noexcept;
  Rank& rank_of(const backend::RankCall& call) {
    return ranks_[static_cast<std::size_t>(call.rank - first_rank_)];
  }
  bool is_in_capture(const backend::RankCall& call) {
    return static_cast<bool>(capture_of(*rank_of(call).device, call.stream));
  }
  void require_alive(std::string_view operation, std::span<const backend::RankCall> calls);
  void require_not_aborted(std::string_view operation, const backend::RankCall& call);
  /// Waits for a nonblocking communicator's last call. @throws CollectiveError  the call has failed.
  void settle(std::string_view operation, const backend::RankCall& call);

  /// Calls `issue(rank, call)`, which calls NCCL, for every rank of this process, in one group if there are
  /// several calls. @param is_one_call  of each rank.
  void group(const backend::GroupCall& collective, const char* native_call, bool is_one_call,
             lockstep::detail::FunctionRef<ncclResult_t(Rank&, const backend::RankCall&)> issue);
  /// The same for a reduction, with `issue(part, native op, communicator, stream)`.
  template <class Issue>
  void reduce_by(const Reduction& reduction, const backend::GroupCall& collective, const Issue& issue);
  Reduction reduction_of(const backend::GroupCall& collective, const char* native_call) const;
  /// Makes the windows that the configuration asks for, without memory.
  void make_windows(const CommunicatorConfig& config);
  /// Sees to it that the ranks' windows hold so many bytes.
  void grow_windows(std::string_view operation, std::span<const backend::RankCall> calls,
                    std::int64_t size_bytes);

  const int first_rank_;                        // of this process
  const int num_ranks_;                         // of all processes
  std::vector<Rank> ranks_;                     // of this process
  backend::ProcessGroup* processes_ = nullptr;  // null: all ranks are in this one
  bool owns_native_ = true;
  bool has_windows_ = false;          // for packs
  std::string_view no_windows_ = "";  // why not, where they are asked for; static
  const double scale_;                // 2^-k, the largest not above 1 / num_ranks_
  std::atomic<bool> aborted_{false};
  LaunchOrder order_;
  std::shared_ptr<const void> captured_;  // shared with each graph that has calls of the communicator
  std::shared_ptr<PeerReduction> peers_;  // shared with LeftCommunicators at the end; null: there is none
  std::string_view no_peers_ = "the ranks are in several processes";  // why; static
  std::int64_t peer_bytes_ = 0;                                       // where the caller names none
};

}  // namespace lockstep::cuda
