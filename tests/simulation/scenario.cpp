#include "simulation/scenario.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
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

/// One worker's process since all were started.
struct Member {
  Process* process = nullptr;
  WorkerReport report{};
  bool is_killed = false;
  bool is_suspect = false;  ///< The others may have taken it for lost, or it them.
};

class Scenario {
 public:
  Scenario(const Plan& plan, System& system, Network& network)
      : plan_(plan),
        system_(system),
        network_(network),
        members_(static_cast<std::size_t>(plan.num_workers)),
        suspect_until_(members_.size()),
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
                              observed_.num_resumes, " shrinks ", observed_.num_shrinks, " full_disks ",
                              observed_.num_full_disks, " restarts ", restart, " losses ", num_named_,
                              " exceptions ", observed_.num_exceptions, " hang ", observed_.num_hangs);
    if (plan_.step_time > 0) text += concat(' ', flatness_.describe());
    for (const auto& [kind, count] : num_faults_) text += concat(' ', kind, ' ', count);
    for (const auto& [kind, count] : num_ends_) text += concat(' ', kind, ' ', count);
    return text;
  }

 private:
  [[noreturn]] void fail(const std::string& what) {
    std::string text = concat(what, "\n  ", plan_.describe());
    for (std::size_t w = 0; w < members_.size(); ++w) {
      const Member& member = members_[w];
      text +=
          concat("\n  worker ", w, member.is_killed ? " (killed)" : "", member.is_suspect ? " (suspect)" : "",
                 member.report.has_finished ? " has finished" : " has not finished");
      for (const std::string& loss : member.report.losses) text += concat("\n    lost: ", loss);
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
    for (int w = 0; w < plan_.num_workers; ++w) {
      Member& member = members_[static_cast<std::size_t>(w)];
      member = {.is_suspect = system_.now() < suspect_until_[static_cast<std::size_t>(w)]};
      network_.switch_on(plan_.host_of(w));
      member.process = &start_process(system_, plan_.host_of(w), [this, w, restart, &member] {
        train(plan_, w, restart, observed_, member.report);
      });
    }
    const Time limit = system_.now() + kJobLimit + 2 * plan_.num_steps * plan_.step_time;
    while (!std::ranges::all_of(members_, [&](const Member& m) { return system_.has_ended(*m.process); })) {
      if (system_.now() > limit) fail("the workers do not end");
      system_.sleep_until(system_.now() + plan_.look);
    }
    check();
    const bool is_disturbed = num_losses_ > num_losses_before ||
                              std::ranges::any_of(members_, [](const Member& m) { return m.is_suspect; });
    if (observed_.num_hangs > num_hangs_before && !is_disturbed) check_hang();
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
    return std::ranges::any_of(members_, [](const Member& m) { return m.report.has_finished; }) &&
           std::ranges::all_of(members_,
                               [&](const Member& m) {
                                 return m.report.has_finished || m.is_killed ||
                                        (plan_.shrinks && m.is_suspect);
                               }) &&
           (plan_.shrinks ||
            std::ranges::all_of(members_, [](const Member& m) { return m.report.has_finished; }));
  }

  /// Whoever is neither killed nor suspect names the same causes in the same order.
  void check() {
    const Member* first = nullptr;
    for (const Member& member : members_) {
      if (member.is_killed || member.is_suspect) continue;
      num_named_ += member.report.losses.size();
      if (!member.report.error.empty())
        ++num_ends_[(plan_.shrinks ? "shrinking_ended_" : "ended_") + member.report.error_kind];
      if (num_disturbances() == num_at_start_ &&
          !(member.report.has_finished && member.report.losses.empty()))
        fail("a worker has not finished, though nothing has disturbed it");
      for (const std::string& loss : member.report.losses) {
        if (!names_one_that_is_lost(loss)) fail("a worker names one that was not lost");
      }
      if (first == nullptr) first = &member;
      const std::size_t n = std::min(first->report.losses.size(), member.report.losses.size());
      for (std::size_t i = 0; i < n; ++i)
        if (first->report.losses[i] != member.report.losses[i])
          fail("two workers name different causes of one loss");
      const std::size_t num_common =
          std::min(first->report.first_steps.size(), member.report.first_steps.size());
      for (std::size_t i = 0; i < num_common; ++i)
        if (first->report.first_steps[i] != member.report.first_steps[i])
          fail("two workers begin with different steps");
    }
  }

  /// Or says that it could not go on itself, as the link between two others was cut.
  bool names_one_that_is_lost(const std::string& loss) const {
    if (loss.find(" could not go on: ") != std::string::npos)
      return std::ranges::any_of(members_, [](const Member& m) { return m.is_killed || m.is_suspect; });
    for (std::size_t w = 0; w < members_.size(); ++w)
      if (loss.find(concat('(', plan_.address_of(static_cast<int>(w)), ')')) != std::string::npos)
        return members_[w].is_killed || members_[w].is_suspect;
    return false;
  }

  void bring_faults() {
    for (const Fault& fault : plan_.faults) {
      const std::uint64_t num_told = observed_.num_told;
      const auto has_come = [&] {
        return fault.follows_loss ? observed_.num_told > num_told : observed_.num_done >= fault.at_step;
      };
      look_until(has_come);
      system_.sleep_until(system_.now() + fault.delay);
      if (is_over_) return;
      bring(fault);
    }
    if (plan_.step_time > 0) look_until([] { return false; });
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
    Member& member = members_[static_cast<std::size_t>(fault.worker)];
    if (member.process == nullptr || system_.has_ended(*member.process)) return;
    ++num_faults_[fault.kind == FaultKind::full_disk ? "full_disk" : name(fault.kind)];
    system_.note(concat(name(fault.kind), " of worker ", fault.worker));
    const Time end = system_.now() + fault.duration;
    if (!plan_.is_harmless(fault)) ++num_losses_;
    switch (fault.kind) {
      case FaultKind::crash: network_.switch_off(member.process->host); [[fallthrough]];
      case FaultKind::kill:
        member.is_killed = true;
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
    const auto w = static_cast<std::size_t>(worker);
    members_[w].is_suspect = true;
    // What was lost meanwhile is sent again some time later.
    suspect_until_[w] = std::max(suspect_until_[w], system_.now() + 2 * fault.duration);
  }

  const Plan& plan_;
  System& system_;
  Network& network_;
  std::vector<Member> members_;
  std::vector<Time> suspect_until_;  // by worker
  Observed observed_{};
  Flatness flatness_;
  bool is_over_ = false;
  int num_losses_ = 0, num_at_start_ = 0;  // faults after which a worker may be lost
  std::size_t num_named_ = 0;
  std::map<std::string, int> num_faults_{}, num_ends_{};
};

}  // namespace

std::string run_scenario(const Plan& plan, System& system, Network& network) {
  system.note(plan.describe());
  if (plan.defect == Defect::lost_message) network.lose_message(40);
  return std::make_unique<Scenario>(plan, system, network)->run();
}

}  // namespace lockstep::simulation
