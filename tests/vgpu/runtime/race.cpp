// The happens-before race detector: a vector clock per stream (and per node of a graph), and for every byte
// range of memory the last writer and the readers since.
#include <algorithm>

#include "runtime/state.hpp"

namespace vgpu::rt {
namespace {

struct Mark {
  std::size_t slot = 0;
  std::uint32_t time = 0;  // 0: none
  std::shared_ptr<const std::string> name;
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
std::set<std::pair<std::string, std::string>>& reported() {
  static auto* set = new std::set<std::pair<std::string, std::string>>;
  return *set;
}

void split(std::map<Address, Segment>& map, Address at) {
  auto next = map.upper_bound(at);
  if (next == map.begin()) return;
  auto here = std::prev(next);
  if (here->first == at || here->second.end <= at) return;
  Segment tail = here->second;
  here->second.end = at;
  map.emplace(at, std::move(tail));
}

bool ordered(const Mark& mark, const Clock& clock) { return mark.time == 0 || mark.time <= clock[mark.slot]; }

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

void race_end(const std::vector<OpPtr>& ops, std::vector<Access>& accesses, const std::string& name) {
  Clock joined = ops.front()->clock;
  for (const OpPtr& op : ops) joined.join(op->clock);
  for (const OpPtr& op : ops) {
    op->clock = joined;
    op->lane->clock = joined;
  }
  if (accesses.empty()) return;
  std::lock_guard guard(shadow_mutex);
  const Mark mark{ops.front()->lane_slot, ops.front()->lane_time, std::make_shared<const std::string>(name)};
  std::sort(accesses.begin(), accesses.end(), [](const Access& a, const Access& b) {
    return a.write != b.write ? a.write < b.write : a.begin < b.begin;
  });
  auto& map = shadow();
  std::size_t index = 0;
  while (index < accesses.size()) {
    Access access = accesses[index++];
    while (index < accesses.size() && accesses[index].write == access.write &&
           accesses[index].begin <= access.end)
      access.end = std::max(access.end, accesses[index++].end);
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
      if (!ordered(segment.write, joined)) race(segment.write, true, name, access, here->first, segment.end);
      if (access.write) {
        for (const Mark& reader : segment.reads)
          if (!ordered(reader, joined)) race(reader, false, name, access, here->first, segment.end);
        segment.write = mark;
        segment.reads.clear();
      } else {
        std::erase_if(segment.reads, [&](const Mark& reader) { return ordered(reader, joined); });
        segment.reads.push_back(mark);
      }
      at = segment.end;
    }
  }
}

void race_forget(Address begin, Address end) {
  if (!machine().config.race_check) return;
  std::lock_guard guard(shadow_mutex);
  auto& map = shadow();
  split(map, begin);
  split(map, end);
  map.erase(map.lower_bound(begin), map.lower_bound(end));
}

void host_saw(const OpPtr& op) {
  if (machine().config.race_check) machine().host_clock.join(op->clock);
}

}  // namespace vgpu::rt
