#include "simulation/scenario.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "detail/concat.hpp"
#include "simulation/flatness.hpp"
#include "simulation/start_process.hpp"
#include "simulation/training.hpp"

namespace lockstep::simulation {
namespace {

using detail::concat;

constexpr Time kJobLimit = 2'000 * kSecond;

// For what is under way between two processes that find each other, where nothing goes wrong.
constexpr Time kJoinTime = 2500 * kMillisecond;

/// One process since all were started.
struct Member {
  int worker = 0;
  Process* process = nullptr;
  const Member* leader = nullptr;  ///< Whom it was to join; null: it has started with the others.
  Time begin = 0, end = 0;         ///< 0: it has not ended.
  int num_disturbances = 0;        ///< At its begin.
  std::uint64_t num_grows_in_vain = 0;
  bool is_undisturbed = false;  ///< There were no more until its end.
  Time returns_after = 0;       ///< So long after its end another one comes in its place; 0: none.
  WorkerReport report{};
  bool is_killed = false;
  bool is_suspect = false;  ///< The others may have taken it for lost, or it them.

  bool is_trustworthy() const { return !is_killed && !is_suspect; }
  bool has_trained() const { return !report.cluster.empty(); }
};

class Scenario {
 public:
  Scenario(const Plan& plan, System& system, Network& network)
      : plan_(plan),
        system_(system),
        network_(network),
        suspect_until_(static_cast<std::size_t>(plan.num_workers)),
        flatness_(system, network) {}

  std::string run() {
    observed_.expected = undisturbed_weights(plan_);
    std::thread faults([this] { bring_faults(); });
    int restart = 0;
    for (start(restart); !has_finished(); start(++restart)) {
      if (num_disturbances() == num_at_start_)
        fail("the workers have not come to the end, and nothing has disturbed them");
    }
    is_over_ = true;
    faults.join();
    std::string text = concat("steps ", observed_.num_steps, " saves ", observed_.num_saves, " resumes ",
                              observed_.num_resumes, " shrinks ", observed_.num_shrinks, " joins ",
                              observed_.num_joins, " joiners ", num_joiners_, " grows ", observed_.num_grows,
                              " grows_in_vain ", observed_.num_grows_in_vain, " full_disks ",
                              observed_.num_full_disks, " restarts ", restart, " losses ", num_named_,
                              " exceptions ", observed_.num_exceptions, " hang ", observed_.num_hangs);
    if (plan_.is_long) text += concat(' ', flatness_.describe());
    for (const auto& [kind, count] : num_faults_) text += concat(' ', kind, ' ', count);
    for (const auto& [kind, count] : num_ends_) text += concat(' ', kind, ' ', count);
    return text;
  }

 private:
  [[noreturn]] void fail(const std::string& what) {
    std::string text = concat(what, "\n  ", plan_.describe());
    for (const Member& member : members_) {
      text += concat("\n  worker ", member.worker, member.leader == nullptr ? "" : " (joining)",
                     member.is_killed ? " (killed)" : "", member.is_suspect ? " (suspect)" : "",
                     member.report.has_finished ? " has finished" : " has not finished");
      for (const HeardLoss& loss : member.report.losses) text += concat("\n    lost: ", loss.cause);
      if (!member.report.error.empty()) text += concat("\n    error: ", member.report.error);
    }
    system_.fail(text);
  }

  /// Starts all, and waits until all have ended.
  void start(int restart) {
    num_at_start_ = num_disturbances();
    const int num_losses_before = num_losses_;
    const std::uint64_t num_hangs_before = observed_.num_hangs;
    if (std::ranges::any_of(suspect_until_, [&](Time until) { return system_.now() < until; }))
      --num_at_start_;
    observed_.num_done = 0;
    members_.clear();
    for (int w = 0; w < plan_.num_workers; ++w) launch(w, restart, nullptr);
    const Time limit = system_.now() + kJobLimit + 2 * plan_.num_steps * plan_.step_time;
    while (!std::ranges::all_of(members_, [&](const Member& m) { return system_.has_ended(*m.process); })) {
      if (system_.now() > limit) fail("the workers do not end");
      bring_back(restart);
      system_.sleep_until(system_.now() + plan_.look);
    }
    check();
    check_grows();
    const bool is_disturbed = num_losses_ > num_losses_before ||
                              std::ranges::any_of(members_, [](const Member& m) { return m.is_suspect; });
    if (observed_.num_hangs > num_hangs_before && !is_disturbed) check_hang();
  }

  void launch(int w, int restart, const Member* leader) {
    Member& member = members_.emplace_back(
        Member{.worker = w,
               .leader = leader,
               .begin = system_.now(),
               .num_disturbances = num_disturbances(),
               .num_grows_in_vain = observed_.num_grows_in_vain,
               .is_suspect = system_.now() < suspect_until_[static_cast<std::size_t>(w)]});
    network_.switch_on(plan_.host_of(w));
    const std::string address = leader == nullptr ? std::string() : plan_.address_of(leader->worker);
    member.process = &start_process(system_, plan_.host_of(w), [this, restart, address, &member] {
      train(plan_, member.worker, restart, address, observed_, member.report);
      member.end = system_.now();
      member.is_undisturbed = num_disturbances() == member.num_disturbances &&
                              observed_.num_grows_in_vain == member.num_grows_in_vain;
    });
  }

  /// Starts others in the place of those that have ended, where somebody trains.
  void bring_back(int restart) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      Member& member = members_[i];
      if (member.returns_after == 0 || member.report.has_finished || !system_.has_ended(*member.process))
        continue;
      if (member.end == 0) member.end = system_.now();
      const Member* const leader =
          system_.now() < member.end + member.returns_after ? nullptr : find_leader();
      if (leader == nullptr) continue;
      member.returns_after = 0;
      system_.note(concat("worker ", member.worker, " comes back, to worker ", leader->worker));
      ++num_joiners_;
      launch(member.worker, restart, leader);
    }
  }

  /// The first of those that train, in the order of one's cluster; null: nobody does.
  const Member* find_leader() const {
    const auto trains = [&](const Member& member) {
      return member.is_trustworthy() && member.has_trained() && !system_.has_ended(*member.process);
    };
    const auto one = std::ranges::find_if(members_, trains);
    if (one == members_.end()) return nullptr;
    for (const std::string& address : one->report.cluster)
      for (const Member& member : members_)
        if (trains(member) && plan_.address_of(member.worker) == address) return &member;
    return nullptr;
  }

  /// Of faults after which calls of all may fail.
  int num_disturbances() const { return num_losses_ + static_cast<int>(observed_.num_hangs); }

  /// Those that have waited for too long know for whom. Others see those leave.
  void check_hang() {
    const int worker = observed_.hang->worker;
    const bool is_named = std::ranges::any_of(members_, [&](const Member& member) {
      return member.report.error_kind == "timeout" &&
             member.report.error.find(plan_.address_of(worker)) != std::string::npos;
    });
    if (!is_named) fail(concat("nobody names worker ", worker, ", which hangs"));
  }

  bool has_finished() const {
    const auto is_done = [](const Member& m) { return m.report.has_finished; };
    if (!plan_.shrinks) return std::ranges::all_of(members_, is_done);
    return std::ranges::any_of(members_, is_done) && std::ranges::all_of(members_, [&](const Member& m) {
             return is_done(m) || !m.is_trustworthy() || (m.leader != nullptr && !m.has_trained());
           });
  }

  /// Whoever is neither killed nor suspect names the same causes in the same order.
  void check() {
    for (const Member& member : members_) {
      if (!member.is_trustworthy()) continue;
      if (member.leader != nullptr && !member.has_trained()) {
        check_joiner(member);
        continue;
      }
      num_named_ += member.report.losses.size();
      if (!member.report.error.empty())
        ++num_ends_[(plan_.shrinks ? "shrinking_ended_" : "ended_") + member.report.error_kind];
      if (num_disturbances() == num_at_start_ &&
          !(member.report.has_finished && member.report.losses.empty()))
        fail("a worker has not finished, though nothing has disturbed it");
      for (const HeardLoss& loss : member.report.losses) {
        if (!names_one_that_is_lost(loss)) fail("a worker names one that was not lost");
      }
      for (const Member& other : members_)
        if (&other != &member && other.is_trustworthy() && other.has_trained()) compare(member, other);
    }
  }

  /// Whoever has joined begins later than the others.
  void compare(const Member& a, const Member& b) {
    const auto knows_past = [](const Member& m) {
      return m.leader == nullptr || !m.report.first_steps.empty();
    };
    if (!knows_past(a) || !knows_past(b)) return;
    const auto differ = [](const auto& own, std::int64_t own_begin, const auto& others,
                           std::int64_t others_begin, const auto& value) {
      for (std::size_t i = 0; i < own.size(); ++i) {
        const std::int64_t j = own_begin + static_cast<std::int64_t>(i) - others_begin;
        if (j >= 0 && j < std::ssize(others) && value(own[i]) != value(others[static_cast<std::size_t>(j)]))
          return true;
      }
      return false;
    };
    if (differ(a.report.losses, a.report.num_losses_before, b.report.losses, b.report.num_losses_before,
               [](const HeardLoss& loss) { return loss.cause; }))
      fail("two workers name different causes of one loss");
    if (differ(a.report.first_steps, a.report.num_starts_before, b.report.first_steps,
               b.report.num_starts_before, [](std::int64_t step) { return step; }))
      fail("two workers begin with different steps");
  }

  /// Nobody has let it join: they have ended, or go on without whoever led them, or it had too little time.
  void check_joiner(const Member& joiner) {
    ++num_ends_["joining_ended_" + joiner.report.error_kind];
    if (joiner.report.error_kind != "timeout" && joiner.report.error_kind != "context")
      fail("a process that wanted to join has ended with another error");
    const Member& leader = *joiner.leader;
    const bool is_clear = joiner.is_undisturbed && leader.report.has_finished &&
                          std::ranges::none_of(members_, &Member::is_suspect);
    const Time waited =
        std::min(joiner.end, leader.end) - std::max(joiner.begin, leader.report.cluster_since);
    if (is_clear && waited > kJoinTime + 2 * plan_.step_time + plan_.longest_delay())
      fail(concat("those who train have let nobody join for ", waited / kMillisecond, " ms"));
  }

  /// Those who grow in vain do so for one that has not come, or for what goes wrong meanwhile.
  void check_grows() {
    const auto joins = [](const Member& m) { return m.leader != nullptr; };
    const auto first = std::ranges::find_if(members_, joins);
    if (observed_.num_grows_in_vain == members_.front().num_grows_in_vain) return;
    const bool is_explained =
        first != members_.end() &&
        (num_disturbances() > first->num_disturbances || std::ranges::any_of(members_, [&](const Member& m) {
           return m.is_suspect || (joins(m) && !m.has_trained());
         }));
    if (!is_explained) fail("workers have grown in vain, though nothing has disturbed them");
  }

  /// Or says that it could not go on itself, as the link between two others was cut, or as those that it kept
  /// waiting have ended. Whoever comes in the place of one that was killed has its address.
  bool names_one_that_is_lost(const HeardLoss& loss) const {
    if (loss.cause.find(" could not go on: ") != std::string::npos)
      return std::ranges::any_of(
          members_, [](const Member& m) { return !m.is_trustworthy() || m.report.error_kind == "timeout"; });
    const Member* named = nullptr;
    for (const Member& member : members_)
      if (loss.cause.find(concat('(', plan_.address_of(member.worker), ')')) != std::string::npos &&
          (member.leader == nullptr || (member.has_trained() && member.report.trains_since <= loss.time)))
        named = &member;
    return named != nullptr && !named->is_trustworthy();
  }

  /// The worker's last process; null: none has been started.
  Member* find(int worker) {
    Member* found = nullptr;
    for (Member& member : members_)
      if (member.worker == worker) found = &member;
    return found;
  }

  void bring_faults() {
    for (const Fault& fault : plan_.faults) {
      const std::uint64_t num_told = observed_.num_told, num_calls = observed_.num_calls_of_grow;
      const auto has_come = [&] {
        if (fault.cue == Cue::step) return observed_.num_done >= fault.at_step;
        return fault.cue == Cue::loss ? observed_.num_told > num_told
                                      : observed_.num_calls_of_grow > num_calls;
      };
      look_until(has_come);
      system_.sleep_until(system_.now() + fault.delay);
      if (is_over_) return;
      bring(fault);
    }
    if (plan_.is_long) look_until([] { return false; });
  }

  template <class F>
  void look_until(const F& has_come) {
    while (!has_come() && !is_over_) {
      flatness_.look(plan_, observed_.num_done);
      system_.sleep_until(system_.now() + plan_.look / 4);
    }
  }

  void bring(const Fault& fault) {
    if (fault.kind == FaultKind::exception || fault.kind == FaultKind::hang) return;  // the worker's own
    Member* const found = find(fault.worker);
    if (found == nullptr || system_.has_ended(*found->process)) return;
    Member& member = *found;
    ++num_faults_[fault.kind == FaultKind::full_disk ? "full_disk" : name(fault.kind)];
    system_.note(concat(name(fault.kind), " of worker ", fault.worker));
    const Time end = system_.now() + fault.duration;
    if (!plan_.is_harmless(fault)) ++num_losses_;
    switch (fault.kind) {
      case FaultKind::crash: network_.switch_off(member.process->host); [[fallthrough]];
      case FaultKind::kill:
        member.is_killed = true;
        member.returns_after = fault.returns_after;
        system_.kill(*member.process);
        return;
      case FaultKind::pause:
        suspect(fault.worker, fault);
        system_.set_paused(*member.process, true);
        system_.at(end, [this, process = member.process] { system_.set_paused(*process, false); });
        return;
      case FaultKind::cut:
        suspect(fault.worker, fault);
        suspect(fault.other, fault);
        network_.cut(plan_.host_of(fault.worker), plan_.host_of(fault.other), end);
        return;
      case FaultKind::full_disk:
        for (Member& one : members_) one.process->has_full_disk = true;
        system_.at(end, [this] {
          for (Member& one : members_) one.process->has_full_disk = false;
        });
        return;
      case FaultKind::exception:
      case FaultKind::hang: return;
    }
  }

  void suspect(int worker, const Fault& fault) {
    if (plan_.is_harmless(fault)) return;
    Member& member = *find(worker);
    member.is_suspect = true;
    member.returns_after = fault.returns_after;
    // What was lost meanwhile is sent again some time later.
    Time& until = suspect_until_[static_cast<std::size_t>(worker)];
    until = std::max(until, system_.now() + 2 * fault.duration);
  }

  const Plan& plan_;
  System& system_;
  Network& network_;
  std::deque<Member> members_{};     // the plan's workers, then those that join
  std::vector<Time> suspect_until_;  // by worker
  Observed observed_{};
  Flatness flatness_;
  bool is_over_ = false;
  int num_losses_ = 0, num_at_start_ = 0;  // faults after which a worker may be lost
  std::size_t num_named_ = 0;
  int num_joiners_ = 0;
  std::map<std::string, int> num_faults_{}, num_ends_{};
};

}  // namespace

std::string run_scenario(const Plan& plan, System& system, Network& network) {
  system.note(plan.describe());
  if (plan.defect == Defect::lost_message) network.lose_message(40);
  return std::make_unique<Scenario>(plan, system, network)->run();
}

}  // namespace lockstep::simulation
