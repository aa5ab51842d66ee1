// The happens-before race detector: a vector clock per stream (and per node of a graph), and for every byte
// range of memory the last writer and the readers since. Kernels that run at the same time may order their
// accesses by acquires, releases and fences. All threads of a kernel count as one.
#include <algorithm>
#include <tuple>

#include "runtime/state.hpp"

namespace vgpu::rt {
namespace {

struct Mark {
  std::size_t slot = 0;
  std::uint32_t time = 0;  // 0: none
  std::shared_ptr<const std::string> name;
  Ordering::Scope scope = Ordering::none;
  int device = 0;
};
struct Segment {
  Address end = 0;
  Mark write;
  std::vector<Mark> reads;
};

std::mutex shadow_mutex;
std::map<Address, Segment>& shadow() {
  static auto* map = new std::map<Address, Segment>;
  return *map;
}
// What the last strong write of a place has published.
struct Published {
  Address end = 0;
  std::shared_ptr<const Clock> clock;
  Ordering::Scope scope = Ordering::none;
  int device = 0;
};
std::map<Address, Published>& published() {
  static auto* map = new std::map<Address, Published>;
  return *map;
}
std::set<std::pair<std::string, std::string>>& reported() {
  static auto* set = new std::set<std::pair<std::string, std::string>>;
  return *set;
}

template <class Range>
void split(std::map<Address, Range>& map, Address at) {
  auto next = map.upper_bound(at);
  if (next == map.begin()) return;
  auto here = std::prev(next);
  if (here->first == at || here->second.end <= at) return;
  Range tail = here->second;
  here->second.end = at;
  map.emplace(at, std::move(tail));
}

bool ordered(const Mark& mark, const Clock& clock) { return mark.time == 0 || mark.time <= clock[mark.slot]; }

// Whether two strong accesses concern each other, so that they are no race.
bool together(Ordering::Scope a, int device_a, Ordering::Scope b, int device_b) {
  return a != Ordering::none && b != Ordering::none &&
         (device_a == device_b || (a == Ordering::system && b == Ordering::system));
}

std::string without_number(const std::string& name) {
  const auto at = name.find("(operation ");
  if (at == std::string::npos) return name;
  const auto comma = name.find(',', at);
  return name.substr(0, at) + (comma == std::string::npos ? "" : name.substr(comma));
}

void race(const Mark& before, bool before_writes, const std::string& name, const Access& access,
          Address begin, Address end) {
  Machine& m = machine();
  ++m.races;
  if (!reported().insert({without_number(*before.name), without_number(name)}).second ||
      reported().size() > 50)
    return;
  report(format("DATA RACE on %llu bytes: ", static_cast<unsigned long long>(end - begin)) +
         m.memory.explain(-1, begin, end - begin) + "\n  " + *before.name +
         (before_writes ? " writes" : " reads") + "\n  " + name + (access.write ? " writes" : " reads") +
         "\n  and nothing orders the two (no stream order, event, or host synchronisation)");
}

}  // namespace

void Clock::join(const Clock& other) {
  if (at.size() < other.at.size()) at.resize(other.at.size());
  for (std::size_t index = 0; index < other.at.size(); ++index)
    at[index] = std::max(at[index], other.at[index]);
}

void Clock::set(std::size_t lane, std::uint32_t value) {
  if (at.size() <= lane) at.resize(lane + 1);
  at[lane] = value;
}

void race_begin(Op& op) {
  Lane& lane = *op.lane;
  op.clock.join(lane.clock);
  for (const OpPtr& dep : op.deps) op.clock.join(dep->clock);
  op.lane_time = ++lane.time;
  op.clock.set(lane.slot, op.lane_time);
}

namespace {

// Compares accesses of an operation, whose clock is as it was then, with those before, and notes them.
void note(const Op& op, std::vector<Access>& accesses, const std::shared_ptr<const std::string>& name) {
  if (accesses.empty()) return;
  const Clock& clock = op.clock;
  std::lock_guard guard(shadow_mutex);
  std::sort(accesses.begin(), accesses.end(), [](const Access& a, const Access& b) {
    return std::tuple(a.write, a.scope, a.begin) < std::tuple(b.write, b.scope, b.begin);
  });
  auto& map = shadow();
  std::size_t index = 0;
  while (index < accesses.size()) {
    Access access = accesses[index++];
    while (index < accesses.size() && accesses[index].write == access.write &&
           accesses[index].scope == access.scope && accesses[index].begin <= access.end)
      access.end = std::max(access.end, accesses[index++].end);
    const Mark mark{op.lane_slot, op.lane_time, name, access.scope, op.device};
    const auto may_be = [&](const Mark& other) {
      return ordered(other, clock) || together(other.scope, other.device, mark.scope, mark.device);
    };
    split(map, access.begin);
    split(map, access.end);
    Address at = access.begin;
    while (at < access.end) {
      auto here = map.lower_bound(at);
      if (here == map.end() || here->first >= access.end || here->first > at) {
        const Address end = here == map.end() ? access.end : std::min(here->first, access.end);
        Segment fresh;
        fresh.end = end;
        if (access.write)
          fresh.write = mark;
        else
          fresh.reads.push_back(mark);
        map.emplace(at, std::move(fresh));
        at = end;
        continue;
      }
      Segment& segment = here->second;
      if (!may_be(segment.write)) race(segment.write, true, *name, access, here->first, segment.end);
      if (access.write) {
        for (const Mark& reader : segment.reads)
          if (!may_be(reader)) race(reader, false, *name, access, here->first, segment.end);
        segment.write = mark;
        segment.reads.clear();
      } else {
        std::erase_if(segment.reads, [&](const Mark& reader) {
          return ordered(reader, clock) && (reader.slot != mark.slot || reader.scope == mark.scope);
        });
        segment.reads.push_back(mark);
      }
      at = segment.end;
    }
  }
  accesses.clear();
}

}  // namespace

Accesses::Accesses(std::vector<OpPtr> ops, const std::string& name)
    : ops_(std::move(ops)), name_(std::make_shared<const std::string>(name)) {}

void Accesses::add(Address begin, Address end, bool write, Ordering::Scope scope) {
  for (std::size_t back = 0; back < 4 && back < list_.size(); ++back) {
    Access& last = list_[list_.size() - 1 - back];
    if (last.write == write && last.scope == scope && begin <= last.end && end >= last.begin) {
      last.begin = std::min(last.begin, begin);
      last.end = std::max(last.end, end);
      return;
    }
  }
  list_.push_back({begin, end, write, scope});
}

void Accesses::access(Address begin, std::size_t bytes, bool write, Ordering ordering) {
  const Address end = begin + bytes;
  if (ordering.scope == Ordering::none) return add(begin, end, write, Ordering::none);
  if (!write || ordering.is_update) hear(begin, end, ordering);
  add(begin, end, write, ordering.scope);
  if (write) publish(begin, end, ordering);
}

// A strong load joins what was published, at once or with the next fence.
void Accesses::hear(Address begin, Address end, Ordering ordering) {
  const Op& op = *ops_.front();
  Clock heard;
  {
    std::lock_guard guard(shadow_mutex);
    auto& map = published();
    if (map.empty()) return;
    auto at = map.upper_bound(begin);
    if (at != map.begin()) --at;
    for (; at != map.end() && at->first < end; ++at)
      if (at->second.end > begin && at->second.clock &&
          together(at->second.scope, at->second.device, ordering.scope, op.device))
        heard.join(*at->second.clock);
  }
  heard_.join(heard);
  if (ordering.acquires) acquire();
}

void Accesses::acquire() {
  Op& op = *ops_.front();
  note(op, list_, name_);
  op.clock.join(heard_);
  heard_ = {};
}

// What has been done so far happens before what others do who hear of it.
std::shared_ptr<const Clock> Accesses::release() {
  Op& op = *ops_.front();
  note(op, list_, name_);
  auto clock = std::make_shared<const Clock>(op.clock);
  op.lane_time = ++op.lane->time;
  op.clock.set(op.lane_slot, op.lane_time);
  return clock;
}

void Accesses::publish(Address begin, Address end, Ordering ordering) {
  std::shared_ptr<const Clock> clock = ordering.releases ? release() : fenced_;
  std::lock_guard guard(shadow_mutex);
  auto& map = published();
  if (clock == nullptr && (map.empty() || ordering.is_update)) return;  // an update goes on with a release
  split(map, begin);
  split(map, end);
  map.erase(map.lower_bound(begin), map.lower_bound(end));
  if (clock) map.emplace(begin, Published{end, std::move(clock), ordering.scope, ops_.front()->device});
}

void Accesses::fence(Ordering) {
  acquire();
  fenced_ = release();
}

void Accesses::end() {
  Clock joined = ops_.front()->clock;
  for (const OpPtr& op : ops_) joined.join(op->clock);
  for (const OpPtr& op : ops_) {
    op->clock = joined;
    op->lane->clock = joined;
  }
  note(*ops_.front(), list_, name_);
}

void race_forget(Address begin, Address end) {
  if (!machine().config.race_check) return;
  std::lock_guard guard(shadow_mutex);
  auto& map = shadow();
  split(map, begin);
  split(map, end);
  map.erase(map.lower_bound(begin), map.lower_bound(end));
  split(published(), begin);
  split(published(), end);
  published().erase(published().lower_bound(begin), published().lower_bound(end));
}

void host_saw(const OpPtr& op) {
  if (machine().config.race_check) machine().host_clock.join(op->clock);
}

}  // namespace vgpu::rt
