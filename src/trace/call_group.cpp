#include "trace/call_group.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "detail/concat.hpp"
#include "detail/ticks.hpp"

namespace lockstep::detail {

namespace {

// Groups beyond these are not written on a signal.
constexpr std::size_t kMaxListed = 1024;
constinit std::array<std::atomic<const CallGroup*>, kMaxListed> groups{};
constinit std::atomic<int> num_readers{0};
constinit std::atomic<std::uint64_t> num_made{0};

// Before any call.
const ClockPair first_moment;

bool are_alike(const CallRecord& a, const CallRecord& b) {
  const bool have_one_shape =
      a.dtype == b.dtype && a.num_tensors == b.num_tensors && a.rank == b.rank &&
      std::equal(a.extents.begin(),
                 a.extents.begin() + static_cast<std::ptrdiff_t>(std::min(a.rank, a.extents.size())),
                 b.extents.begin());
  return a.operation == b.operation && a.label() == b.label() && a.region() == b.region() &&
         (have_one_shape || !has_one_shape(a.operation));
}

std::string text_of(const CallRecord& record) {
  BoundedText<256> text;
  record.put(text);
  return std::string(text.view());
}

}  // namespace

CallGroup::CallGroup(std::vector<std::string> labels, std::string_view member)
    : labels_(std::move(labels)), member_(member), number_(++num_made), rings_(labels_.size()) {
  for (place_ = 0; place_ < kMaxListed; ++place_) {
    const CallGroup* none = nullptr;
    if (groups[place_].compare_exchange_strong(none, this)) return;
  }
}

const ClockPair& CallGroup::beginning() noexcept { return first_moment; }

CallGroup::~CallGroup() {
  if (place_ == kMaxListed) return;
  groups[place_].store(nullptr);
  while (num_readers.load() != 0 && !process_.is_forked()) std::this_thread::yield();
}

void CallGroup::for_each(FunctionRef<void(const CallGroup&)> fn) noexcept {
  num_readers.fetch_add(1);
  for (const auto& place : groups)
    if (const CallGroup* const group = place.load()) fn(*group);
  num_readers.fetch_sub(1);
}

GroupReport CallGroup::report(std::string name, int first_rank) const {
  GroupReport result{.name = name.empty() ? concat("group ", number_, " of ", num_ranks(), ' ', member_,
                                                   num_ranks() == 1 ? "" : "s")
                                          : std::move(name),
                     .difference = difference().text,
                     .ranks = {}};
  for (int rank = 0; rank < num_ranks(); ++rank) {
    RankReport& one = result.ranks.emplace_back();
    one.rank = first_rank + rank;
    one.label = labels_[static_cast<std::size_t>(rank)];
    one.calls = calls(rank);
  }
  mark_missing(result);
  return result;
}

std::vector<ReportedCall> CallGroup::calls(int rank) const {
  std::vector<ReportedCall> calls;
  const ClockPair now;
  const CallRing& ring = (*this)[rank];
  CallRecord record;
  for (std::uint64_t index = ring.first(); index < ring.num_begun(); ++index) {
    if (!ring.read(index, record)) continue;
    BoundedText<256> operands;
    record.put_operands(operands);
    calls.push_back({.number = record.number,
                     .call = record.call,
                     .operation = std::string(record.operation),
                     .operands = std::string(operands.view()),
                     .label = std::string(record.label()),
                     .region = std::string(record.region()),
                     .bytes = static_cast<std::int64_t>(record.size_bytes),
                     .state = record.state,
                     .age = std::chrono::nanoseconds(ns_since(record.tick, beginning(), now))});
  }
  return calls;
}

std::uint64_t CallGroup::newest_run(int rank) const {
  const CallRing& ring = (*this)[rank];
  CallRecord record;
  std::uint64_t number = 0, call = ~std::uint64_t{0};
  for (std::uint64_t index = ring.num_begun(); index > ring.first(); --index) {
    if (!ring.read(index - 1, record) || record.call >= call) break;
    number = record.number;
    call = record.call;
  }
  return number;
}

CallDifference CallGroup::difference(std::optional<std::uint64_t> run) const {
  const CallRing& first = (*this)[0];
  CallRecord own, other;
  std::uint64_t begin = run.value_or(0);
  for (int rank = 0; !run && rank < num_ranks(); ++rank) begin = std::max(begin, newest_run(rank));
  for (std::uint64_t index = first.first(); index < first.num_begun(); ++index) {
    if (!first.read(index, own)) continue;
    if (own.number < begin || (run && own.state == CallState::failed)) continue;
    for (int rank = 1; rank < num_ranks(); ++rank) {
      if (!(*this)[rank].find(own.number, other) || are_alike(own, other)) continue;
      return {.text = concat("call ", own.call, ": ", labels_[static_cast<std::size_t>(rank)], ": ",
                             text_of(other), "; ", labels_[0], ": ", text_of(own)),
              .is_newest = index + 1 == first.num_begun(),
              .has_names = own.label_size + own.region_size + other.label_size + other.region_size > 0};
    }
  }
  return {};
}

std::string CallGroup::last_call(int rank) const {
  CallRecord record;
  if (!(*this)[rank].read_newest(record)) return "which has made no call";
  return concat("whose last call was call ", record.call, ", ", text_of(record));
}

}  // namespace lockstep::detail
