#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/cluster/cluster_spec.hpp>

#pragma GCC visibility push(default)

namespace lockstep::cluster {

/// How many accelerators of each kind: {{"GPU", 8}}.
using AcceleratorCounts = std::map<std::string, int>;

/// What accelerators the tasks of a cluster have: the same ones each, {{"GPU", 8}}, or each its own,
/// {{{"worker", 0}, {{"GPU", 8}}}, {{"worker", 1}, {{"GPU", 4}}}}. A value.
class Accelerators {
 public:
  /// Nobody has told.
  Accelerators() = default;
  /// @throws InvalidArgument  a count is negative.
  Accelerators(AcceleratorCounts of_each_task);
  Accelerators(std::initializer_list<AcceleratorCounts::value_type> of_each_task);
  /// Tasks that are not there have none. @throws InvalidArgument  a count is negative.
  Accelerators(std::map<Task, AcceleratorCounts> by_task);
  Accelerators(std::initializer_list<std::pair<const Task, AcceleratorCounts>> by_task);

  [[nodiscard]] bool empty() const noexcept { return of_each_task_.empty() && by_task_.empty(); }
  /// Those of a task; without one what each task has, or, where each has its own, the sum.
  [[nodiscard]] AcceleratorCounts of(const std::optional<Task>& task) const;

 private:
  AcceleratorCounts of_each_task_;
  std::map<Task, AcceleratorCounts> by_task_;
};

/// What a resolver is told rather than finds out.
struct ResolverOptions {
  std::optional<std::string> task_type{};  ///< The job that this process belongs to.
  std::optional<int> task_id{};            ///< Its index there; at least 0.
  std::optional<std::string> rpc_layer{};  ///< The protocol of addresses, "grpc" for one; empty: none.
  std::string environment{};  ///< A name for the place the job runs in; lockstep only hands it on.
  Accelerators num_accelerators{};
  std::string master{};             ///< What master() gives.
  std::optional<int> local_rank{};  ///< Position among the processes of the cluster on this host; at least 0.
  std::optional<int> local_size{};  ///< The number of these; above local_rank.
};

/// Knows the processes of a cluster, and which of them this one is.
///
/// Thread safety: const calls may run at the same time. Derive from it for another cluster manager.
class Resolver {
 public:
  virtual ~Resolver() = default;

  /// The cluster now. Empty: this process works alone.
  [[nodiscard]] virtual ClusterSpec cluster_spec() const = 0;

  /// The address that coordinates the cluster, "" where none is needed or known; the kind of resolver says
  /// which.
  [[nodiscard]] std::string master() const { return default_master(); }
  /// A task's address, after "LAYER://" where there is an rpc layer.
  /// @throws InvalidArgument  the cluster has no such task.
  [[nodiscard]] std::string master(const std::string& type, int id) const { return task_master(type, id); }

  /// The accelerators by kind of the current task; where there is no current one what each task has, or,
  /// where each has its own, the sum. Kinds that are missing are not there, or not known to be.
  [[nodiscard]] AcceleratorCounts num_accelerators() const;
  [[nodiscard]] AcceleratorCounts num_accelerators(const std::string& type, int id) const;

  // Copies, of a temporary resolver.
  [[nodiscard]] const std::optional<std::string>& task_type() const& noexcept { return options_.task_type; }
  [[nodiscard]] std::optional<std::string> task_type() const&& { return options_.task_type; }
  [[nodiscard]] std::optional<int> task_id() const noexcept { return options_.task_id; }
  [[nodiscard]] const std::optional<std::string>& rpc_layer() const& noexcept { return options_.rpc_layer; }
  [[nodiscard]] std::optional<std::string> rpc_layer() const&& { return options_.rpc_layer; }
  [[nodiscard]] const std::string& environment() const& noexcept { return options_.environment; }
  [[nodiscard]] std::string environment() const&& { return options_.environment; }
  /// Position among the cluster's processes on this host, from 0, and their number, as a launcher tells them:
  /// which of the host's devices are this process's.
  [[nodiscard]] std::optional<int> local_rank() const noexcept { return options_.local_rank; }
  [[nodiscard]] std::optional<int> local_size() const noexcept { return options_.local_size; }

  /// Nothing: not known.
  void set_task_type(std::optional<std::string> type) { options_.task_type = std::move(type); }
  /// @throws InvalidArgument  it is negative.
  void set_task_id(std::optional<int> id);
  void set_rpc_layer(std::optional<std::string> layer) { options_.rpc_layer = std::move(layer); }

 protected:
  /// @throws InvalidArgument  an option out of its range.
  explicit Resolver(ResolverOptions options);
  Resolver(const Resolver&) = default;
  Resolver(Resolver&&) = default;
  Resolver& operator=(const Resolver&) = default;
  Resolver& operator=(Resolver&&) = default;

  /// An address after "LAYER://" where there is an rpc layer.
  std::string behind_rpc_layer(const std::string& address) const;
  /// The address of the current task. @throws InvalidArgument  there is none, or not in the cluster.
  std::string current_task_address() const;

  /// What master() gives: by default what the options say.
  virtual std::string default_master() const { return options_.master; }
  /// What master(type, id) gives.
  virtual std::string task_master(const std::string& type, int id) const;
  /// Called with the current task, if any, or the one asked for: by default what the options say.
  virtual AcceleratorCounts accelerators_of(const std::optional<Task>& task) const;

  const ResolverOptions& options() const noexcept { return options_; }
  std::optional<Task> current_task() const;

 private:
  ResolverOptions options_;
};

}  // namespace lockstep::cluster

#pragma GCC visibility pop
