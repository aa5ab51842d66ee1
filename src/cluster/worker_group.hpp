#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/backend/process_group.hpp>
#include <lockstep/cluster/environment.hpp>
#include <lockstep/cluster/resolver.hpp>
#include <lockstep/detail/shared_function.hpp>
#include <lockstep/input/step_exchange.hpp>

#include "cluster/worker_connection.hpp"
#include "detail/concat.hpp"
#include "workers/control/joining/join.hpp"
#include "workers/worker_meeting.hpp"

namespace lockstep::detail {

class WorkerGroup;

/// How workers find each other.
struct WorkerGroupOptions {
  std::chrono::milliseconds start_timeout{0};  ///< For all to come; 0: none.
  std::chrono::milliseconds silence_limit{5000};
  std::string token{};        ///< As WorkerOptions's.
  std::string listen_host{};  ///< As WorkerOptions's.
  /// The group from which this one is made: of its workers that are left, or of all and those that it has
  /// invited. The start ends with PeerLost once that group has lost more than num_lost workers, or one of the
  /// invited is gone. Null: all are new.
  WorkerGroup* former = nullptr;
  std::size_t num_lost = 0;
  /// Of a group of those that are left: who does not come in time is lost.
  bool goes_on_without = false;
  control::Invitation* invitation = nullptr;  ///< Of a process that joins, which ends the start; null: none.
  bool listens_alone = false;                 ///< ControlOptions's.
  bool shares_connection = true;  ///< With later groups of the same cluster; else it ends with the group.
};

/// The workers of one strategy, as one of them: who they are, and the place where they meet.
///
/// When a worker is lost, waiting calls end, and the group cannot be used any more.
class WorkerGroup final : public backend::ProcessGroup, private WorkerReports {
 public:
  /// Connects with the other workers of the resolver's cluster, in whatever order they start.
  /// @pre the cluster has a chief or workers, and this process is one of them.
  /// @throws InvalidArgument  worker 0's address is missing. @throws Unsupported  workers on several hosts,
  /// and no engine that suits the launcher: says what to install. @throws as ControlConnection; as
  /// make_together.
  static std::shared_ptr<WorkerGroup> connect(const cluster::Resolver& resolver,
                                              const WorkerGroupOptions& options,
                                              const cluster::EnvironmentVariables& variables);
  ~WorkerGroup() override { leave(); }

  /// Leaves the group: the functions of call_at_end are not called any more, and none is under way.
  void leave() noexcept;

  int num_processes() const noexcept override { return connection_->control().num_workers(); }
  int process() const noexcept override { return connection_->control().worker(); }
  const std::string& label(int process) const override { return connection_->control().label(process); }
  int host(int process) const noexcept override { return connection_->control().host(process); }
  /// @throws CollectiveAborted  a worker's make_together has failed: has its text; or a worker has left.
  /// @throws CollectiveMismatch, PeerLost  as ControlConnection.
  std::vector<std::string> all_gather(std::string_view what, std::string own) override;
  void throw_if_lost(std::string_view operation) override { meeting_->throw_if_lost(operation); }
  std::shared_ptr<backend::Loss> loss() override { return meeting_->loss(); }
  void break_off(std::string_view cause) noexcept override { meeting_->break_off(std::string(cause)); }
  std::unique_ptr<backend::Channel> open_channel() override;

  /// How many wait to become workers. Worker 0 knows; elsewhere none.
  int num_waiting();
  /// Worker 0 lets all who wait become workers of a group whose `former` is this. @return their addresses,
  /// which may be empty; elsewhere nobody's.
  std::vector<std::string> invite();
  /// @param has_grown  the new group takes this one's place: it keeps the socket, and no later group shares
  /// this one's connection. Else who was invited is sent away, and may come again.
  void end_invitation(bool has_grown);
  /// Waits at the chief until a group invites this process. @param address  its own; may be empty.
  /// @param options  start_timeout: of the wait. @throws as control::wait_to_join
  static control::Invitation wait_to_join(const std::string& chief, const std::string& address,
                                          const WorkerGroupOptions& options,
                                          const cluster::EnvironmentVariables& variables);
  /// Lets go of a cluster that has not become one. @param chief  its address.
  static void forget_unused(const std::string& chief) { WorkerConnection::forget_unused(chief); }

  bool is_on_one_host() const noexcept;
  /// The newest group whose `former` this is, also of a start that has failed, if its workers had met.
  std::shared_ptr<WorkerGroup> take_successor() noexcept { return std::exchange(successor_, nullptr); }
  /// As WorkerConnection::lost_workers.
  std::vector<int> lost_workers(std::chrono::milliseconds limit = {}) {
    return connection_->lost_workers(limit);
  }
  /// Within which a loss is heard, with some patience.
  std::chrono::milliseconds report_limit() const noexcept { return 2 * connection_->silence_limit(); }
  /// Whether a launcher has connected the processes for good, so that they cannot go on without one.
  bool is_launched() const;
  /// InputTarget::open_exchange; may outlive the group, whose passes then end.
  SharedFunction<std::shared_ptr<StepExchange>()> step_opener() const;
  WorkerMeeting& meeting() noexcept { return *meeting_; }

  /// Calls make(), as all workers do, and returns its result when all have succeeded. If it throws on one, it
  /// throws on all: on the others all_gather does.
  template <class Make>
  auto make_together(std::string_view what, const Make& make) {
    try {
      if (meeting_ != nullptr) meeting_->begin_call();  // the others may wait outside of all_gather, too
      auto made = make();
      all_gather(concat("that all have made ", what), {});
      if (meeting_ != nullptr) meeting_->end_call();
      return made;
    } catch (const std::exception& error) {
      end_stream(concat(what, ": ", error.what()));
      throw;
    }
  }

  /// A call of this worker has thrown.
  void fail(const std::exception_ptr& error) noexcept;
  /// `abort(cause)` is called, on another thread, when the group ends before this is destroyed; at once, and
  /// on the caller's, if it has.
  void call_at_end(std::function<void(const std::string& cause)> abort);

  /// @param tell  gives what this worker's ranks did last; called on the connection's thread, until `leave`:
  /// must return soon. Where it throws there is no answer.
  void answer_with(std::function<std::string()> tell);
  /// What the other workers' `tell` gives, by worker. Waits for half a second at most, and not for who has
  /// left the last question unanswered; not for the connection's thread. Empty elements: this worker, and who
  /// has not answered.
  std::vector<std::optional<std::string>> ask();

 private:
  explicit WorkerGroup(std::shared_ptr<WorkerConnection> connection);

  void on_failure(int worker, std::uint64_t epoch, std::uint64_t num_rounds, std::string text) override {
    meeting_->report_failure(worker, epoch, num_rounds, std::move(text));
  }
  void on_end(const std::shared_ptr<backend::Loss>& loss) override;
  void on_left(int worker, std::uint64_t num_rounds) override { meeting_->report_left(worker, num_rounds); }
  void on_ask(int worker, std::uint64_t question) override;
  void on_answer(int worker, int asker, std::uint64_t question, std::string text) override;
  bool on_exit() noexcept override;
  std::unique_ptr<WorkerMeeting> make_meeting();
  void with_waiting_list(FunctionRef<void(control::WaitingList& list)> f, bool changes = false);
  /// The others' calls of all_gather throw. @param failure  why; empty: this worker leaves.
  void end_stream(const std::string& failure) noexcept;

  const std::shared_ptr<WorkerConnection> connection_;  // owners: groups and their passes over data
  std::uint32_t number_ = 0;                            // in the connection
  std::atomic<std::uint32_t> num_steps_{0};             // of its stream
  std::atomic<bool> has_ended_stream_{false}, has_left_{false};
  std::unique_ptr<WorkerMeeting> meeting_;
  std::shared_ptr<WorkerGroup> successor_;  // until it is taken

  std::mutex asking_;  // held by the thread that asks, before mutex_
  std::mutex mutex_;   // guards what follows
  std::string cause_;  // of the end; empty: there was none
  std::vector<std::function<void(const std::string& cause)>> aborts_;
  std::thread aborting_;  // calls them, as some take seconds
  std::function<std::string()> tell_;
  std::uint64_t question_ = 0;                       // the one that asking_'s owner asks
  std::vector<std::optional<std::string>> answers_;  // to it
  std::vector<bool> is_silent_;                      // by worker: an answer has not come yet
  std::condition_variable answered_;
};

}  // namespace lockstep::detail
