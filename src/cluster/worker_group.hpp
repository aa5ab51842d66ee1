#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/process_group.hpp>
#include <lockstep/cluster/environment.hpp>
#include <lockstep/cluster/resolver.hpp>
#include <lockstep/detail/shared_function.hpp>
#include <lockstep/input/step_exchange.hpp>

#include "cluster/worker_connection.hpp"
#include "workers/worker_meeting.hpp"

namespace lockstep::detail {

/// How workers find each other.
struct WorkerGroupOptions {
  std::chrono::milliseconds start_timeout{0};  ///< For all to come; 0: none.
  std::chrono::milliseconds silence_limit{5000};
};

/// The workers of one strategy, as one of them: who they are, and the place where they meet.
///
/// When a worker is lost, waiting calls end, and the group cannot be used any more.
class WorkerGroup final : public backend::ProcessGroup, private WorkerReports {
 public:
  /// Connects with the other workers of the resolver's cluster, in whatever order they start.
  /// @pre the cluster has a chief or workers, and this process is one of them.
  /// @throws InvalidArgument  worker 0's address is missing. @throws Unsupported  workers on several hosts,
  /// and no engine that suits the launcher: says what to install. @throws as ControlConnection.
  static std::unique_ptr<WorkerGroup> connect(const cluster::Resolver& resolver,
                                              const WorkerGroupOptions& options,
                                              const cluster::EnvironmentVariables& variables);
  ~WorkerGroup() override { leave(); }

  /// Leaves the group: the functions of call_at_end are not called any more, and none is under way.
  void leave() noexcept;

  int num_processes() const noexcept override { return connection_->control().num_workers(); }
  int process() const noexcept override { return connection_->control().worker(); }
  const std::string& label(int process) const override { return connection_->control().label(process); }
  int host(int process) const noexcept override { return connection_->control().host(process); }
  std::vector<std::string> all_gather(std::string_view what, std::string own) override {
    return connection_->control().all_gather(what, std::move(own), {});
  }
  void throw_if_lost(std::string_view operation) override { meeting_->throw_if_lost(operation); }
  void break_off(std::string_view cause) noexcept override { meeting_->break_off(std::string(cause)); }
  std::unique_ptr<backend::Channel> open_channel() override { return connection_->open_channel(); }

  bool is_on_one_host() const noexcept;
  /// InputTarget::open_exchange; may outlive the group, whose passes then end.
  SharedFunction<std::shared_ptr<StepExchange>()> step_opener() const;
  WorkerMeeting& meeting() noexcept { return *meeting_; }

  /// A call of this worker has thrown.
  void fail(const std::exception_ptr& error) noexcept;
  /// `abort(cause)` is called, on any thread, when the group ends before this is destroyed; at once if it
  /// has.
  void call_at_end(std::function<void(const std::string& cause)> abort);

 private:
  explicit WorkerGroup(std::shared_ptr<WorkerConnection> connection);

  void on_failure(int worker, std::uint64_t epoch, std::uint64_t num_rounds, std::string text) override {
    meeting_->report_failure(worker, epoch, num_rounds, std::move(text));
  }
  void on_end(const std::string& cause) override;
  void on_left(int worker, std::uint64_t num_rounds) override { meeting_->report_left(worker, num_rounds); }

  const std::shared_ptr<WorkerConnection> connection_;  // owners: groups and their passes over data
  std::unique_ptr<WorkerMeeting> meeting_;

  std::mutex mutex_;   // guards what follows
  std::string cause_;  // of the end; empty: there was none
  std::vector<std::function<void(const std::string& cause)>> aborts_;

  std::optional<std::uint32_t> number_;  // in the connection; nothing: it has left
};

}  // namespace lockstep::detail
