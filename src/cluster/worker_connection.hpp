#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/engine.hpp>
#include <lockstep/cluster/environment.hpp>

#include "workers/control/control_connection.hpp"

namespace lockstep::detail {

/// What a group of workers hears of the others. Called on the connection's thread.
class WorkerReports {
 public:
  virtual ~WorkerReports() = default;
  /// A worker's call has failed, after it sent its message of round `num_rounds`.
  virtual void on_failure(int worker, std::uint64_t epoch, std::uint64_t num_rounds, std::string text) = 0;
  /// The group has ended for all.
  virtual void on_end(const std::string& cause) = 0;
  /// A worker has left, after it sent its message of round `num_rounds`.
  virtual void on_left(int worker, std::uint64_t num_rounds) = 0;
};

/// This process's connection with the other workers of a cluster, which all its groups share: as many
/// strategies as it makes of them. It lives until the process ends; once a worker is lost, or no strategy
/// uses it, until the process opens another one that it would be in the way of.
///
/// Thread safety: any thread.
class WorkerConnection final : private ControlListener {
 public:
  /// The connection of that cluster: the one that is there, else a new one. Every worker calls it equally
  /// often.
  /// @param variables  name the launcher, and so the engine. @throws as WorkerGroup::connect
  static std::shared_ptr<WorkerConnection> open(ControlOptions options,
                                                const cluster::EnvironmentVariables& variables);
  ~WorkerConnection() override;

  ControlConnection& control() noexcept { return *control_; }
  /// A worker is lost.
  bool is_over() const noexcept { return is_over_.load(); }
  /// A new channel of the engine. @throws Unsupported  the engine was not built.
  std::unique_ptr<backend::Channel> open_channel();

  /// Counts passes over data, from 1.
  std::uint32_t next_pass() noexcept { return ++num_passes_; }

  /// Adds a group, which hears what concerns it, also what came before. All workers add theirs in the same
  /// order. @return its number.
  std::uint32_t add(WorkerReports& group);
  /// This worker cannot make a group that the others may wait for: they take it for lost.
  void give_up(std::string_view why) noexcept;
  /// The group hears nothing more, and the other workers that this one has left it.
  void remove(std::uint32_t group, std::uint64_t num_rounds) noexcept;
  void announce_failure(std::uint32_t group, std::uint64_t epoch, std::uint64_t num_rounds,
                        std::string_view text) noexcept;
  void announce_end(std::uint32_t group, std::string_view cause) noexcept;

 private:
  struct Report {
    enum class Kind : char { failure = 'f', end = 'e', left = 'l' } kind;
    int worker;
    std::uint64_t epoch, num_rounds;
    std::string text;
  };

  WorkerConnection(ControlOptions options, std::string engine_name,
                   std::unique_ptr<backend::Engine> launched);
  void on_failure(int worker, std::uint64_t epoch, std::string text) override;
  void on_lost(int worker, std::string cause) override;
  void on_left(int worker) override;
  void announce(std::uint32_t group, const Report& report) noexcept;
  void deliver(std::uint32_t group, const Report& report);
  void deliver_to_all(const Report& report);
  static void deliver(WorkerReports& group, const Report& report);

  const std::string engine_name_;
  const std::string own_host_;
  const std::chrono::milliseconds silence_limit_;
  std::unique_ptr<backend::Engine> engine_;
  std::atomic<bool> is_over_{false};
  std::atomic<std::uint32_t> num_passes_{0};

  std::recursive_mutex mutex_;  // guards what follows; held while groups are told
  std::uint32_t num_groups_ = 0;
  std::map<std::uint32_t, WorkerReports*> groups_;
  std::map<std::uint32_t, std::vector<Report>> early_;  // for groups that are not added yet
  std::vector<Report> for_all_;                         // what every group is to know

  std::unique_ptr<ControlConnection> control_;  // its thread uses what is above
};

}  // namespace lockstep::detail
