#include "simulation/plan.hpp"

#include <algorithm>
#include <utility>

#include "detail/concat.hpp"

namespace lockstep::simulation {
namespace {

using detail::concat;

constexpr int kPort = 2222;

// What a message that was lost may add to a silence, with the time that calls take.
constexpr Time kSlack = 500 * kMillisecond;

Fault draw_fault(const Plan& plan, Random& random) {
  Fault fault;
  fault.kind = kFaultKinds[random.below(std::size(kFaultKinds))];
  fault.worker = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.num_workers)));
  fault.other = static_cast<int>((static_cast<std::uint64_t>(fault.worker) + 1 +
                                  random.below(static_cast<std::uint64_t>(plan.num_workers) - 1)) %
                                 static_cast<std::uint64_t>(plan.num_workers));
  if (plan.is_one_host && fault.kind == FaultKind::crash) fault.kind = FaultKind::kill;
  if (plan.is_one_host && fault.kind == FaultKind::cut) fault.kind = FaultKind::pause;
  if (random.once_in(4)) fault.cue = Cue::loss;
  fault.at_step = static_cast<int>(random.between(0, plan.num_steps - 1));
  const bool is_early = fault.at_step == 0 || fault.cue == Cue::loss;  // while workers find each other
  fault.delay = random.between(0, is_early ? 200 * kMillisecond : 30 * kMillisecond);
  const Time heartbeat = plan.heartbeat.count() * kMillisecond;
  if (fault.kind == FaultKind::hang) fault.duration = random.between(3 * heartbeat, 6 * heartbeat);
  if (fault.kind == FaultKind::hang || fault.kind == FaultKind::kill || fault.kind == FaultKind::crash ||
      fault.kind == FaultKind::exception)
    return fault;
  fault.duration = random.once_in(2) ? random.between(kMillisecond, heartbeat / 4)
                                     : random.between(heartbeat, 4 * heartbeat);
  return fault;
}

/// Steps take time, so that whoever is lost comes back before training ends; and somebody is lost.
void draw_joins(Plan& plan, Random& random) {
  plan.joins = true;
  plan.num_steps += static_cast<int>(random.between(4, 12));
  plan.step_time = random.between(10, 400) * kMillisecond;
  plan.join_limit = std::chrono::milliseconds(random.once_in(4) ? random.between(50, 3'000)
                                                                : random.between(20'000, 60'000));
  Fault loss = draw_fault(plan, random);
  loss.kind = plan.is_one_host || random.once_in(2) ? FaultKind::kill : FaultKind::crash;
  loss.at_step = static_cast<int>(random.between(1, plan.num_steps / 2));
  loss.cue = Cue::step;
  loss.duration = 0;
  plan.faults.push_back(loss);
  for (std::uint64_t num_more = random.below(3); num_more > 0; --num_more)
    plan.faults.push_back(draw_fault(plan, random));
  if (random.once_in(2)) {
    Fault fault = draw_fault(plan, random);
    fault.cue = Cue::grow;
    fault.at_step = loss.at_step;
    fault.delay = random.between(0, 40 * kMillisecond);
    if (random.once_in(3) && fault.worker != loss.worker)  // whoever joins
      fault.other = std::exchange(fault.worker, loss.worker);
    plan.faults.push_back(fault);
  }
  for (Fault& fault : plan.faults)
    if (fault.kind != FaultKind::hang && !plan.is_harmless(fault))
      fault.returns_after = random.between(kMillisecond, 800 * kMillisecond);
}

}  // namespace

const char* name(FaultKind kind) {
  switch (kind) {
    case FaultKind::kill: return "kill";
    case FaultKind::crash: return "crash";
    case FaultKind::pause: return "pause";
    case FaultKind::cut: return "cut";
    case FaultKind::full_disk: return "full disk";
    case FaultKind::exception: return "exception";
    case FaultKind::hang: return "hang";
  }
  return "";
}

Plan::Plan(std::uint64_t seed) {
  Random random(seed ^ 0x706c616e);
  num_workers = static_cast<int>(random.between(2, 5));
  num_replicas = static_cast<int>(random.between(1, 2));
  num_steps = static_cast<int>(random.between(4, 16));
  rows_per_step = static_cast<int>(random.between(1, 12));
  steps_per_save = static_cast<int>(random.between(1, 5));
  if (random.once_in(4)) num_summed = random.between(1'000, 100'000);
  saves_asynchronously = random.once_in(2);
  if (random.once_in(2)) num_shuffled = static_cast<int>(random.between(2, 40));
  num_read_ahead = static_cast<int>(random.between(1, 3));
  if (random.once_in(4)) remake_at = static_cast<int>(random.between(1, num_steps - 1));
  is_one_host = random.once_in(3);
  shrinks = random.once_in(2);
  heartbeat = std::chrono::milliseconds(random.between(1000, 6000));
  const auto num_faults = random.below(5);
  for (std::uint64_t i = 0; i < num_faults; ++i) faults.push_back(draw_fault(*this, random));
  if (shrinks && random.once_in(2)) draw_joins(*this, random);
  std::ranges::stable_sort(faults, {}, &Fault::at_step);
}

Plan::Plan(std::uint64_t seed, double hours) : Plan(seed) {
  constexpr int kStepsPerHour = 3600, kStepsPerFault = 300, kFaultsPerHour = 6;
  Random random(seed ^ 0x686f757273);
  num_workers = 3;
  num_steps = static_cast<int>(hours * 3600);
  rows_per_step = std::max(rows_per_step % 5, 1);
  steps_per_save = 60;
  num_summed = 3;
  is_long = true;
  step_time = kSecond;
  look = 400 * kMillisecond;
  remake_at = 0;
  shrinks = joins = false;
  faults.clear();
  for (int step = kStepsPerFault; step < num_steps; step += kStepsPerFault) {
    if (step % kStepsPerHour > kFaultsPerHour * kStepsPerFault || step % kStepsPerHour == 0) continue;
    Fault fault = draw_fault(*this, random);
    fault.cue = Cue::step;
    fault.at_step = step;
    faults.push_back(fault);
  }
}

Time Plan::longest_delay() const {
  Time sum = 0, longest = 0;
  for (const Fault& fault : faults) {
    sum += 2 * fault.duration;
    longest = std::max(longest, 2 * fault.duration);
  }
  return step_time + (is_long ? longest : sum);
}

std::string Plan::host_of(int worker) const { return concat("10.0.0.", is_one_host ? 1 : worker + 1); }

std::string Plan::address_of(int worker) const { return concat(host_of(worker), ':', kPort + worker); }

std::chrono::milliseconds Plan::timeout() const {
  const bool hangs = std::ranges::any_of(faults, [](const Fault& f) { return f.kind == FaultKind::hang; });
  return hangs ? 2 * heartbeat : std::chrono::milliseconds(0);
}

bool Plan::is_harmless(const Fault& fault) const {
  const bool is_short = fault.duration <= heartbeat.count() * kMillisecond / 4;
  switch (fault.kind) {
    case FaultKind::pause:
    case FaultKind::cut: return is_short && 2 * fault.duration + kSlack < heartbeat.count() * kMillisecond;
    case FaultKind::full_disk:
    case FaultKind::exception: return true;
    default: return false;
  }
}

std::string Plan::describe() const {
  std::string text =
      concat(num_workers, " workers of ", num_replicas, " replicas", is_one_host ? " on one host, " : ", ",
             num_steps, " steps of ", rows_per_step, " rows shuffled by ", num_shuffled, " and sums of ",
             num_summed, " numbers, ", saves_asynchronously ? "an asynchronous" : "a", " save each ",
             steps_per_save, " steps, silence limit ", heartbeat.count(), " ms; ",
             remake_at > 0 ? concat("a new strategy after step ", remake_at, "; ") : std::string(),
             shrinks ? "those left go on" : "all start anew after a loss");
  if (joins)
    text += concat(", lost workers join them within ", join_limit.count(), " ms, a step takes ",
                   step_time / kMillisecond, " ms");
  if (is_long) return concat(text, "; ", faults.size(), " faults");
  for (const Fault& fault : faults) {
    const std::string cue = fault.cue == Cue::step   ? concat("step ", fault.at_step)
                            : fault.cue == Cue::loss ? "a loss"
                                                     : "workers begin to grow";
    text += concat("; after ", cue, " and ", fault.delay / kMicrosecond, " us ", name(fault.kind),
                   " of worker ", fault.worker);
    if (fault.kind == FaultKind::cut) text += concat(" from worker ", fault.other);
    if (fault.duration > 0) text += concat(" for ", fault.duration / kMillisecond, " ms");
    if (fault.returns_after > 0) text += concat(", back after ", fault.returns_after / kMillisecond, " ms");
  }
  return text;
}

}  // namespace lockstep::simulation
