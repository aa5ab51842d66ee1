#include "communicators/peer_reduction.hpp"

#include <algorithm>
#include <utility>

#include <lockstep/error.hpp>

#include "device/device_guard.hpp"
#include "device/environment_bytes.hpp"
#include "device/peer_access.hpp"
#include "libraries/cuda_error.hpp"
#include "native.hpp"

namespace lockstep::cuda {
namespace {

constexpr const char* kOperation = "Making inboxes for other GPUs";
constexpr std::size_t kControlBytes = 256;  // keeps the slots aligned

std::int64_t num_packs_of(std::int64_t size_bytes) { return (size_bytes + kPackBytes - 1) / kPackBytes; }

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

PeerLayout::PeerLayout(int n, std::int64_t largest, std::int64_t most)
    : num_ranks(n),
      most_in_one_shot(most),
      largest_piece(rounded_up(std::max(largest, n * kPackBytes), kPackBytes)),
      capacity(0) {
  // What is too long for one shot and too short for two goes in one.
  const std::int64_t in_one_shot =
      num_packs_of(std::min(largest_piece, std::max(most / (n - 1), n * kPackBytes)));
  const std::int64_t part = num_packs_of(largest_piece) / n + 1;
  const std::int64_t half = std::max((in_one_shot + 1) / 2, is_in_two_shots(largest_piece) ? part : 0);
  capacity = 2 * rounded_up(half, kMostPeerThreads);
}

bool PeerLayout::is_in_two_shots(std::int64_t size_bytes) const {
  return size_bytes * (num_ranks - 1) > most_in_one_shot && num_packs_of(size_bytes) >= num_ranks;
}

std::int64_t PeerLayout::inbox_bytes() const {
  return static_cast<std::int64_t>(kControlBytes) + 2 * num_ranks * capacity * kSlotBytes;
}

std::int64_t PeerReduction::default_bytes(int num_ranks) {
  const std::int64_t given = bytes_in_environment("LOCKSTEP_PEER_BYTES", "Making a communicator");
  if (given >= 0) return given;
  return num_ranks <= 4 ? 512 << 10 : 256 << 10;
}

std::unique_ptr<PeerReduction> PeerReduction::make(const std::vector<CudaDevice*>& ranks,
                                                   std::int64_t default_bytes, std::string_view& why_not) {
  if (ranks.size() > kMostPeers) {
    why_not = "the library's own kernels take no more than 16 GPUs";
    return nullptr;
  }
  for (CudaDevice* a : ranks)
    for (CudaDevice* b : ranks)
      if (a->ordinal() < b->ordinal() && !a->reaches(*b)) {
        why_not = "some of the GPUs do not reach each other's memory";
        return nullptr;
      }
  // Longer calls go in pieces, and calls that ask for this path go by it whatever the default.
  constexpr std::int64_t kSmallest = 64 << 10, kLargest = 1 << 20;
  return std::make_unique<PeerReduction>(
      ranks, PeerLayout(static_cast<int>(ranks.size()), std::clamp(default_bytes, kSmallest, kLargest)));
}

PeerReduction::PeerReduction(const std::vector<CudaDevice*>& ranks, const PeerLayout& layout,
                             unsigned num_calls)
    : layout_(layout) {
  try {
    aborts_ = static_cast<unsigned*>(ranks.front()->allocate_pinned(sizeof(unsigned)));
    std::atomic_ref<unsigned>(*aborts_).store(0);
    const OutsideCaptures outside;
    for (CudaDevice* device : ranks) {
      Rank& rank = ranks_.emplace_back();
      rank.device = device;
      rank.own_stream = device->create_stream();
      rank.last = std::make_unique<LastWork>(*device);
      rank.inboxes = static_cast<std::byte*>(device->allocate(num_bytes(), rank.own_stream));
      const DeviceGuard guard(device->ordinal(), device->device());
      LOCKSTEP_CUDA_CHECK(cudaMemsetAsync(rank.inboxes, 0, num_bytes(), native(rank.own_stream)),
                          device->device(), kOperation);
      const PeerControl control{num_calls, 0};
      if (num_calls != 0) device->copy_from_host(rank.inboxes, &control, sizeof control, rank.own_stream);
    }
    for (const Rank& rank : ranks_) {
      const DeviceGuard guard(rank.device->ordinal(), rank.device->device());
      LOCKSTEP_CUDA_CHECK(cudaStreamSynchronize(native(rank.own_stream)), rank.device->device(), kOperation);
    }
  } catch (...) {
    release();
    throw;
  }
}

PeerReduction::~PeerReduction() { release(); }

void PeerReduction::release() noexcept {
  if (is_fork_of_user()) return;
  const OutsideCaptures outside;
  for (const Rank& rank : ranks_) {
    if (rank.own_stream == backend::StreamHandle()) continue;
    try {
      if (rank.last != nullptr) rank.last->follow(rank.own_stream);
    } catch (const Error&) {  // the device is lost
    }
    rank.device->finish(rank.own_stream);
  }
  // Every rank is done with the others' inboxes.
  for (Rank& rank : ranks_) {
    if (rank.inboxes != nullptr) rank.device->deallocate(rank.inboxes, num_bytes(), rank.own_stream);
    for (const Captured& captured : rank.captured) rank.device->destroy_event(captured.last);
    rank.last.reset();
    if (rank.own_stream != backend::StreamHandle()) rank.device->destroy_stream(rank.own_stream);
  }
  if (aborts_ != nullptr && !ranks_.empty())
    ranks_.front().device->deallocate_pinned(aborts_, sizeof(unsigned));
}

CommunicationPlan PeerReduction::plan(std::span<const backend::Segment> batch,
                                      std::string_view reason) const {
  const std::int64_t n = layout_.num_ranks;
  CommunicationPlan plan{.num_packs = static_cast<int>(batch.size()),
                         .path = CommunicationPath::peer_one_shot,
                         .reason = reason,
                         .in_rank_order = true};
  for (const backend::Segment& segment : batch)
    for (std::int64_t rest = bytes_of(segment); rest > 0; rest -= layout_.largest_piece) {
      const std::int64_t piece = std::min(rest, layout_.largest_piece);
      const std::int64_t packs = num_packs_of(piece), part = (packs + n - 1) / n;
      const bool in_two = layout_.is_in_two_shots(piece);
      if (in_two) plan.path = CommunicationPath::peer_two_shot;
      const std::int64_t sent = in_two ? (packs - packs / n) + (n - 1) * part : (n - 1) * packs;
      const std::int64_t received = in_two ? (n - 1) * part + (packs - packs / n) : (n - 1) * packs;
      // In one shot the own input is looked at twice.
      plan.bytes_read += (in_two ? 1 : 2) * piece + received * kSlotBytes;
      plan.bytes_written += piece + sent * kSlotBytes;
      plan.num_launches += static_cast<int>(n);
    }
  return plan;
}

void PeerReduction::keep(int rank_index, const Capture& capture, const std::shared_ptr<const void>& object) {
  Rank& rank = ranks_[static_cast<std::size_t>(rank_index)];
  if (std::ranges::find(rank.captured, capture.id, &Captured::id) != rank.captured.end()) return;
  const auto life = std::make_shared<const std::shared_ptr<const void>>(object);
  keep_with(capture, life, rank.device->device());
  auto place = std::ranges::find_if(rank.captured, [](const Captured& one) { return one.life.expired(); });
  if (place == rank.captured.end())
    place = rank.captured.insert(
        place, {.id = 0, .life = {}, .last = rank.device->create_event(), .has_called = false});
  place->id = capture.id;
  place->life = life;
  place->has_called = false;
}

void PeerReduction::load(const backend::RankCall& call) {
  Rank& rank = ranks_[static_cast<std::size_t>(call.rank)];
  for (const backend::Segment& segment : call.segments) {
    const std::uint32_t bit = 1u << static_cast<unsigned>(segment.dtype);
    if ((rank.loaded & bit) != 0) continue;
    load_peer_all_reduce(rank.device->kernels().place_on(call.stream), segment.dtype);
    rank.loaded |= bit;
  }
}

std::int64_t PeerReduction::num_pieces(const backend::Segment& segment) const {
  const std::int64_t piece = layout_.largest_piece / static_cast<std::int64_t>(size_of(segment.dtype));
  return (segment.count + piece - 1) / piece;
}

void PeerReduction::enqueue(ReduceOp op, const backend::RankCall& call, const backend::Segment& segment,
                            const Capture& capture, std::int64_t piece) {
  Rank& rank = ranks_[static_cast<std::size_t>(call.rank)];
  Captured* const captured =
      capture ? &*std::ranges::find(rank.captured, capture.id, &Captured::id) : nullptr;
  if (captured == nullptr)
    rank.last->follow(call.stream);
  else if (std::exchange(captured->has_called, true))
    rank.device->wait(call.stream, captured->last);
  const auto size = static_cast<std::int64_t>(size_of(segment.dtype));
  const std::int64_t inbox = captured != nullptr ? layout_.inbox_bytes() : 0;
  PeerAllReduce part{.rank = call.rank,
                     .num_ranks = layout_.num_ranks,
                     .in_two_shots = false,
                     .op = op,
                     .count = 0,
                     .input = nullptr,
                     .output = nullptr,
                     .capacity = layout_.capacity,
                     .control = reinterpret_cast<PeerControl*>(rank.inboxes + inbox),
                     .slots = {},
                     .aborts = aborts_};
  for (std::size_t r = 0; r < ranks_.size(); ++r) part.slots[r] = ranks_[r].inboxes + inbox + kControlBytes;
  const std::int64_t length = layout_.largest_piece / size, begin = piece * length;
  part.count = std::min(length, segment.count - begin);
  part.in_two_shots = layout_.is_in_two_shots(part.count * size);
  part.input = static_cast<const std::byte*>(segment.send) + begin * size;
  part.output =
      segment.receive == nullptr ? nullptr : static_cast<std::byte*>(segment.receive) + begin * size;
  peer_all_reduce(rank.device->kernels().place_on(call.stream), segment.dtype, part);
  if (captured != nullptr) return rank.device->record(captured->last, call.stream);
  rank.last->set(call.stream);
}

void PeerReduction::abort() noexcept { std::atomic_ref<unsigned>(*aborts_).store(1); }

}  // namespace lockstep::cuda
