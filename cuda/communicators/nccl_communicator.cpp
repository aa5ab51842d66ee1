#include "communicators/nccl_communicator.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <lockstep/error.hpp>

#include "arithmetic/scaled_sum.hpp"
#include "communicators/left_communicators.hpp"
#include "communicators/native_communicators.hpp"
#include "detail/expects.hpp"
#include "device/device_guard.hpp"
#include "graphs/capture.hpp"
#include "libraries/cuda_error.hpp"
#include "libraries/nccl_error.hpp"
#include "libraries/nccl_library.hpp"
#include "native.hpp"

namespace lockstep::cuda {
namespace {

/// After an exception the caller's device is current again. NCCL sees to that by itself where it does not
/// fail.
class [[nodiscard]] DeviceAfterError {
 public:
  DeviceAfterError() noexcept {
    if (cudaGetDevice(&ordinal_) != cudaSuccess) cudaGetLastError();
  }
  ~DeviceAfterError() {
    if (ordinal_ < 0 || std::uncaught_exceptions() == num_exceptions_) return;
    // A second try, before the caller is left on another device.
    if (cudaSetDevice(ordinal_) != cudaSuccess) LOCKSTEP_CUDA_LOG(cudaSetDevice(ordinal_));
  }
  DeviceAfterError(const DeviceAfterError&) = delete;
  DeviceAfterError& operator=(const DeviceAfterError&) = delete;

 private:
  const int num_exceptions_ = std::uncaught_exceptions();
  int ordinal_ = -1;
};

}  // namespace

NcclCommunicator::NcclCommunicator(const std::vector<CudaDevice*>& ranks, int first_rank, int num_ranks,
                                   std::span<const ncclComm_t> communicators)
    : first_rank_(first_rank),
      num_ranks_(num_ranks),
      scale_(1 / arithmetic::sum_scale(static_cast<double>(num_ranks))),
      order_(static_cast<int>(ranks.size())),
      captured_(std::make_shared<int>()) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Rank& rank = ranks_.emplace_back();
    rank.device = ranks[i];
    rank.communicator = communicators[i];
  }
}

NcclCommunicator::NcclCommunicator(const std::vector<CudaDevice*>& ranks, std::chrono::milliseconds limit,
                                   const CommunicatorConfig& config)
    : NcclCommunicator(
          ranks, 0, static_cast<int>(ranks.size()),
          make_native_communicators(ordinals_of(ranks), ranks.front()->device(), limit, nullptr, config)) {
  peer_bytes_ = PeerReduction::default_bytes(num_ranks_);
  peers_ = PeerReduction::make(ranks, peer_bytes_, no_peers_);
  make_windows(config);
}

NcclCommunicator::NcclCommunicator(const std::vector<CudaDevice*>& ranks, const backend::ProcessRanks& all,
                                   std::span<const ncclComm_t> communicators,
                                   const CommunicatorConfig& config)
    : NcclCommunicator(ranks, all.own_begin(), all.total(), communicators) {
  processes_ = all.group;
  for (Rank& rank : ranks_) rank.last = rank.device->create_event();
  make_windows(config);
}

NcclCommunicator::NcclCommunicator(const std::vector<CudaDevice*>& ranks,
                                   std::span<const ncclComm_t> communicators)
    : NcclCommunicator(ranks, 0, static_cast<int>(ranks.size()), communicators) {
  owns_native_ = false;
  no_peers_ = "the communicator is an engine's";
}

NcclCommunicator::~NcclCommunicator() {
  if (is_fork_of_user()) return;
  const CallerDevice caller;
  for (const Rank& rank : ranks_)
    if (rank.window != nullptr && rank.communicator != nullptr)
      rank.window->withdraw(rank.communicator, rank.last);
  for (const Rank& rank : ranks_)
    if (rank.last != backend::EventHandle()) rank.device->destroy_event(rank.last);
  if (owns_native_) end_communicators(std::move(peers_));
}

void NcclCommunicator::make_windows(const CommunicatorConfig& config) {
  if (!config.symmetric_windows) return;
  has_windows_ = SymmetricWindow::is_supported();
  if (!has_windows_) no_windows_ = "in plain memory, as NCCL before 2.28.7 has no windows to rely on";
  for (Rank& rank : ranks_) {
    if (!has_windows_) break;
    rank.window = std::make_unique<SymmetricWindow>(*rank.device);
    if (rank.last == backend::EventHandle()) rank.last = rank.device->create_event();
  }
}

void NcclCommunicator::give_up_windows() {
  if (!has_windows_) return;
  has_windows_ = false;
  no_windows_ = "in plain memory, as another worker has no windows";
}

void NcclCommunicator::end_communicators(std::shared_ptr<const void> memory) noexcept {
  LeftCommunicators::Group group{{}, captured_, aborted_, std::move(memory)};
  captured_.reset();
  for (Rank& rank : ranks_) {
    ncclComm_t const communicator = std::exchange(rank.communicator, nullptr);
    if (communicator != nullptr) group.communicators.push_back(communicator);
  }
  LeftCommunicators::instance().end_those_left();
  LeftCommunicators::instance().end(std::move(group));
}

void NcclCommunicator::inside(std::string_view operation, std::span<const backend::RankCall> calls,
                              lockstep::detail::FunctionRef<void()> call) {
  struct InUse {
    InUse(NcclCommunicator& communicator, std::span<const backend::RankCall> of)
        : self(communicator), ranks(of) {
      for (const backend::RankCall& rank : ranks) self.rank_of(rank).in_use->lock();
    }
    ~InUse() {
      for (const backend::RankCall& rank : ranks) self.rank_of(rank).in_use->unlock();
    }
    NcclCommunicator& self;
    const std::span<const backend::RankCall> ranks;
  } const in_use(*this, calls);
  require_not_aborted(operation, calls.front());
  try {
    call();
  } catch (const CollectiveError&) {
    require_not_aborted(operation, calls.front());  // an abort is the cause
    throw;
  }
}

bool NcclCommunicator::all_come_out(std::chrono::milliseconds limit) noexcept {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  return std::ranges::all_of(
      ranks_, [&](const Rank& rank) { return std::unique_lock(*rank.in_use, deadline).owns_lock(); });
}

void NcclCommunicator::abort() noexcept {
  if (is_fork_of_user() || aborted_.exchange(true)) return;
  // Before anything is waited for: whoever knows of the loss may make the next communicator meanwhile.
  lose_results();
  order_.abandon();
  if (peers_ != nullptr) peers_->abort();
  if (!owns_native_) return;
  constexpr std::chrono::seconds kPatience{1}, kPatienceAfterRevocation{30};
  const CallerDevice caller;
  // Threads leave NCCL by themselves and do not enter it again, except one that waits inside for a rank that
  // will not come. A revocation, which frees nothing, releases it, however busy the machine is; where NCCL
  // has none, the abort does.
  const bool has_graphs = captured_.use_count() > 1;
  if (has_graphs || !all_come_out(kPatience)) {
    bool is_revoked = true;
    for (const Rank& rank : ranks_) is_revoked = revoke(rank.communicator) && is_revoked;
    all_come_out(is_revoked ? kPatienceAfterRevocation : kPatience);
  }
  if (!has_graphs) end_communicators(nullptr);
}

void NcclCommunicator::lose_results() noexcept {
  const std::shared_ptr<backend::Loss> loss = processes_ == nullptr ? nullptr : processes_->loss();
  if (loss == nullptr) return;
  // Where a thread is inside NCCL, some rank's part is not there yet; of graphs nothing is known.
  bool are_done = captured_.use_count() == 1 && all_come_out(std::chrono::milliseconds(0));
  try {
    are_done = are_done && std::ranges::all_of(
                               ranks_, [](const Rank& rank) { return rank.device->has_passed(rank.last); });
  } catch (const Error&) {  // nor of a device that is lost
    are_done = false;
  }
  if (are_done) return;
  for (const Rank& rank : ranks_) rank.device->lose_results(loss);
}

void NcclCommunicator::require_not_aborted(std::string_view operation, const backend::RankCall& call) {
  LOCKSTEP_EXPECTS(!aborted_, CollectiveAborted, operation, " on rank ", call.rank, " (",
                   rank_of(call).device->device(),
                   "): the communicator was aborted. Make a new Communicator, or strategy.");
}

void NcclCommunicator::settle(std::string_view operation, const backend::RankCall& call) {
  const Rank& rank = rank_of(call);
  const auto gives_up = [this] { return aborted_.load(); };
  require_settled(rank.communicator, gives_up, rank.device->device(), operation);
}

void NcclCommunicator::require_alive(std::string_view operation, std::span<const backend::RankCall> calls) {
  use_in_this_process(rank_of(calls.front()).device->device());
  inside(operation, calls, [&] {
    for (const backend::RankCall& call : calls) settle(operation, call);
  });
}

void NcclCommunicator::group(
    const backend::GroupCall& collective, const char* native_call, bool is_one_call,
    lockstep::detail::FunctionRef<ncclResult_t(Rank&, const backend::RankCall&)> issue) {
  const std::string_view operation = collective.operation;
  const std::span<const backend::RankCall> calls = collective.own;
  const backend::RankCall& first = calls.front();
  const bool is_captured = is_in_capture(first);
  LaunchOrder::Turn turn(order_, static_cast<int>(calls.size()));
  inside(operation, calls, [&] {
    const DeviceAfterError caller;
    std::optional<NcclGroup> group;
    if (!is_one_call || calls.size() > 1) group.emplace(rank_of(first).device->device(), operation);
    bool is_in_progress = false;
    for (const backend::RankCall& call : calls) {
      Rank& rank = rank_of(call);
      if (is_captured) keep_with(capture_of(*rank.device, call.stream), captured_, rank.device->device());
      const ncclResult_t code = issue(rank, call);
      is_in_progress = code == ncclInProgress;
      if (code != ncclSuccess && !is_in_progress)
        throw_nccl_error(code, native_call, {__FILE__, __LINE__, __func__}, rank.communicator,
                         rank.device->device(), operation);
    }
    if (group) is_in_progress = group->end();
    if (is_in_progress)
      for (const backend::RankCall& call : calls) settle(operation, call);
    if (rank_of(first).last == backend::EventHandle() || is_captured) return;
    for (const backend::RankCall& call : calls) {
      const Rank& rank = rank_of(call);
      rank.device->record(rank.last, call.stream);
    }
  });
  turn.end();
  require_not_aborted(operation, first);
}

void NcclCommunicator::broadcast(const backend::GroupCall& collective) {
  require_alive(collective.operation, collective.own);
  group(collective, "ncclBroadcast", collective.own.front().segments.size() == 1,
        [root = collective.root](Rank& rank, const backend::RankCall& call) {
          return for_each(call.segments, [&](const backend::Segment& segment) {
            // A root that keeps no copy receives in place.
            void* const receive =
                segment.receive != nullptr ? segment.receive : const_cast<void*>(segment.send);
            const void* const send = segment.send != nullptr ? segment.send : receive;
            return ncclBroadcast(send, receive, static_cast<std::size_t>(bytes_of(segment)), ncclUint8, root,
                                 rank.communicator, cuda::native(call.stream));
          });
        });
}

void NcclCommunicator::all_gather(const backend::GroupCall& collective) {
  require_alive(collective.operation, collective.own);
  group(collective, "ncclAllGather or ncclBroadcast", /*is_one_call=*/false,
        [all = collective.calls](Rank& rank, const backend::RankCall& call) {
          const cudaStream_t stream = cuda::native(call.stream);
          return for_each(call.segments, [&](const backend::Segment& own) {
            const auto s = static_cast<std::size_t>(&own - call.segments.data());
            if (std::ranges::all_of(all, [&](const backend::RankCall& other) {
                  return other.segments[s].count == own.count;
                }))
              return ncclAllGather(own.send, own.receive, static_cast<std::size_t>(bytes_of(own)), ncclUint8,
                                   rank.communicator, stream);
            auto* receive = static_cast<std::byte*>(own.receive);
            return for_each(all, [&](const backend::RankCall& root) {
              const auto size_bytes = static_cast<std::size_t>(bytes_of(root.segments[s]));
              std::byte* const part = std::exchange(receive, receive + size_bytes);
              const void* const send = root.rank == call.rank ? own.send : part;
              if (size_bytes == 0) return ncclSuccess;
              return ncclBroadcast(send, part, size_bytes, ncclUint8, root.rank, rank.communicator, stream);
            });
          });
        });
}

// Both ends go through the transfers in the same order, by which NCCL matches the transfers of two ranks.
void NcclCommunicator::transfer(const backend::GroupCall& collective) {
  require_alive(collective.operation, collective.own);
  group(collective, "ncclSend or ncclRecv", /*is_one_call=*/false,
        [transfers = collective.transfers](Rank& rank, const backend::RankCall& call) {
          const cudaStream_t stream = cuda::native(call.stream);
          return for_each(transfers, [&](const backend::Transfer& transfer) {
            const auto& [s, source, destination, send_begin, receive_begin, size_bytes] = transfer;
            if (source != call.rank && destination != call.rank) return ncclSuccess;
            const backend::Segment& segment = call.segments[s];
            const void* const send = static_cast<const std::byte*>(segment.send) + send_begin;
            void* const receive = static_cast<std::byte*>(segment.receive) + receive_begin;
            const auto count = static_cast<std::size_t>(size_bytes);
            if (source == destination && send == receive) return ncclSuccess;
            if (source == call.rank) {
              const ncclResult_t result =
                  ncclSend(send, count, ncclUint8, destination, rank.communicator, stream);
              if (result != ncclSuccess) return result;
            }
            if (destination != call.rank) return ncclSuccess;
            return ncclRecv(receive, count, ncclUint8, source, rank.communicator, stream);
          });
        });
}

}  // namespace lockstep::cuda
