#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/engine.hpp>
#include <lockstep/backend/loss.hpp>
#include <lockstep/cluster/environment.hpp>

#include "workers/control/control_connection.hpp"

namespace lockstep::detail {

/// What a group of workers hears of the others. Called on the connection's thread, which holds its mutex and
/// sends the heartbeats of all groups: returns soon.
class WorkerReports {
 public:
  virtual ~WorkerReports() = default;
  /// A worker's call has failed, after it sent its message of round `num_rounds`.
  virtual void on_failure(int worker, std::uint64_t epoch, std::uint64_t num_rounds, std::string text) = 0;
  /// The group has ended for all.
  virtual void on_end(const std::shared_ptr<backend::Loss>& loss) = 0;
  /// A worker has left, after it sent its message of round `num_rounds`.
  virtual void on_left(int worker, std::uint64_t num_rounds) = 0;
  /// A worker asks what this one's ranks did last, and gets an answer to its `question`.
  virtual void on_ask(int worker, std::uint64_t question) = 0;
  /// A worker's answer to a question of worker `asker`.
  virtual void on_answer(int worker, int asker, std::uint64_t question, std::string text) = 0;
  /// This process ends: tells the others where it leaves the group. @return whether that is in a call.
  virtual bool on_exit() noexcept = 0;
};

/// This process's connection with the other workers of a cluster, which its groups share.
///
/// Thread safety: any thread.
class WorkerConnection final : private ControlListener {
 public:
  /// The connection of that cluster: the one that is there, else a new one. Every worker calls it equally
  /// often. It lives until the process ends; once a worker is lost, or no strategy uses it, until the process
  /// opens another one that it would be in the way of, but for `keep`.
  /// @param variables  name the launcher, and so the engine. @throws as WorkerGroup::connect
  static std::shared_ptr<WorkerConnection> open(ControlOptions options,
                                                const cluster::EnvironmentVariables& variables,
                                                const WorkerConnection* keep = nullptr);
  /// A new one, for one group alone, with which it ends. @throws as open
  static std::shared_ptr<WorkerConnection> open_own(ControlOptions options,
                                                    const cluster::EnvironmentVariables& variables);
  /// Whether a launcher of these variables connects the processes for good.
  static bool uses_launched_engine(const cluster::EnvironmentVariables& variables);
  /// No later group shares it.
  static void retire(const WorkerConnection& connection) noexcept;
  /// Leaves the connections to that leader that no strategy uses.
  static void forget_unused(const std::string& leader);
  ~WorkerConnection() override;

  ControlConnection& control() noexcept { return *control_; }
  /// The process ends.
  void exit() noexcept;
  /// A worker is lost.
  bool is_over() const noexcept { return is_over_.load(); }
  /// Who is lost, or has left after that, in the order in which all workers hear of it. Waits for the first
  /// for so long.
  std::vector<int> lost_workers(std::chrono::milliseconds limit = {});
  const std::string& engine_name() const noexcept { return engine_name_; }
  std::chrono::milliseconds silence_limit() const noexcept { return silence_limit_; }
  /// Starts the engine, where it is not there yet. @throws Unsupported  it was not built. @throws
  /// ContextError  it cannot start here.
  void start_engine();
  /// A new channel of the engine, which was started. All workers open it together.
  std::unique_ptr<backend::Channel> open_channel() { return engine_->open_channel(); }

  /// The streams of ControlConnection of passes over data, and of groups, which are counted alike on all
  /// workers.
  std::uint32_t next_pass() noexcept { return ++num_passes_; }
  static std::uint32_t stream_of_group(std::uint32_t number) noexcept { return kGroups | number; }
  /// As ControlConnection::all_gather; a loss that it throws is told.
  std::vector<std::string> all_gather(std::uint32_t stream, std::uint32_t step, std::string_view what,
                                      std::string own, const std::atomic<bool>& is_cancelled);

  /// Sets a new group's number, also where it throws. All workers count theirs in the same order.
  void begin_group(std::uint32_t& number);
  /// From now on the group hears what concerns it; first what came before.
  void add(std::uint32_t number, WorkerReports& group);
  /// The group hears nothing more, and the other workers that this one has left it. @param number  also that
  /// of one that was not added.
  void remove(std::uint32_t number, std::uint64_t num_rounds) noexcept;
  void announce_failure(std::uint32_t group, std::uint64_t epoch, std::uint64_t num_rounds,
                        std::string_view text) noexcept;
  void announce_end(std::uint32_t group, std::string_view cause) noexcept;
  void announce_left(std::uint32_t group, std::uint64_t num_rounds) noexcept;
  void announce_ask(std::uint32_t group, std::uint64_t question) noexcept;
  void announce_answer(std::uint32_t group, int asker, std::uint64_t question, std::string text) noexcept;

 private:
  static constexpr std::uint32_t kGroups = 0x8000'0000;
  struct Report {
    enum class Kind : char { failure = 'f', end = 'e', left = 'l', ask = 'q', answer = 'a' } kind;
    int worker;
    std::uint64_t epoch, num_rounds;  // of a question or an answer: its number, and who asks
    std::string text;
    std::shared_ptr<backend::Loss> loss{};  // of an end; owners: the groups, and GPUs whose results are lost
  };

  WorkerConnection(ControlOptions options, std::string engine_name,
                   std::unique_ptr<backend::Engine> launched);
  static std::shared_ptr<WorkerConnection> connect(ControlOptions options,
                                                   const cluster::EnvironmentVariables& variables,
                                                   std::string engine_name);
  void on_failure(int worker, std::uint64_t epoch, std::string text) override;
  void on_lost(int worker, std::string cause) override;
  void on_left(int worker) override;
  void announce(std::uint32_t group, const Report& report) noexcept;
  void deliver(std::uint32_t group, const Report& report);
  void deliver_to_all(const Report& report);
  static void deliver(WorkerReports& group, const Report& report);
  void tell_losses();

  const std::string engine_name_;
  const std::string own_host_;
  const std::chrono::milliseconds silence_limit_;
  std::mutex starting_;  // of the engine
  std::unique_ptr<backend::Engine> engine_;
  std::atomic<bool> is_over_{false};
  std::atomic<std::uint32_t> num_passes_{0};

  std::mutex mutex_;  // guards what follows; held while groups are told
  std::uint32_t num_groups_ = 0;
  std::map<std::uint32_t, WorkerReports*> groups_;      // null: it is not added yet
  std::map<std::uint32_t, std::vector<Report>> early_;  // for groups that are not added yet
  std::vector<Report> for_all_;                         // what every group is to know
  bool is_told_ = false;                                // of losses
  std::vector<int> lost_;
  std::condition_variable lost_changed_;

  std::unique_ptr<ControlConnection> control_;  // its thread uses what is above
};

}  // namespace lockstep::detail
