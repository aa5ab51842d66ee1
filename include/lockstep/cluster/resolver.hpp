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

/// The number of accelerators of each kind: {{"GPU", 8}}.
using AcceleratorCounts = std::map<std::string, int>;

/// The accelerators of a cluster's tasks: either the same for each task, {{"GPU", 8}}, or listed by task,
/// {{{"worker", 0}, {{"GPU", 8}}}, {{"worker", 1}, {{"GPU", 4}}}}. A value.
class Accelerators {
 public:
  /// The accelerators are unknown.
  Accelerators() = default;
  /// @throws InvalidArgument  a count is negative.
  Accelerators(AcceleratorCounts of_each_task);
  Accelerators(std::initializer_list<AcceleratorCounts::value_type> of_each_task);
  /// Tasks that are not listed have none. @throws InvalidArgument  a count is negative.
  Accelerators(std::map<Task, AcceleratorCounts> by_task);
  Accelerators(std::initializer_list<std::pair<const Task, AcceleratorCounts>> by_task);

  [[nodiscard]] bool empty() const noexcept { return of_each_task_.empty() && by_task_.empty(); }
  /// The accelerators of `task`. Without a task: those of each task, or their sum if they are listed by task.
  [[nodiscard]] AcceleratorCounts of(const std::optional<Task>& task) const;

 private:
  AcceleratorCounts of_each_task_;
  std::map<Task, AcceleratorCounts> by_task_;
};

/// Facts that the caller gives to a resolver.
struct ResolverOptions {
  std::optional<std::string> task_type{};  ///< The job that this process belongs to.
  std::optional<int> task_id{};            ///< Its index in the job; at least 0.
  std::optional<std::string> rpc_layer{};  ///< The protocol of addresses, such as "grpc"; empty: none.
  std::string environment{};  ///< A name for the place the job runs in; lockstep only returns it.
  Accelerators num_accelerators{};
  std::string master{};             ///< The result of master().
  std::optional<int> local_rank{};  ///< Position among the processes of the cluster on this host; at least 0.
  std::optional<int> local_size{};  ///< The number of those processes; above local_rank.
};

/// Knows the processes of a cluster, and which of them this one is.
///
/// Thread safety: const calls may run at the same time. Derive from it for another cluster manager.
class Resolver {
 public:
  virtual ~Resolver() = default;

  /// The cluster now. Empty: this process works alone.
  [[nodiscard]] virtual ClusterSpec cluster_spec() const = 0;

  /// The address that coordinates the cluster; "" if none is needed or known. Each kind of resolver says
  /// which address this is.
  [[nodiscard]] std::string master() const { return default_master(); }
  /// A task's address, after "LAYER://" if there is an rpc layer.
  /// @throws InvalidArgument  the cluster has no such task.
  [[nodiscard]] std::string master(const std::string& type, int id) const { return task_master(type, id); }

  /// The accelerators of the current task, by kind. Without a current task: those of each task, or their sum
  /// if they are listed by task. A kind that is missing has no accelerators, or none that are known.
  [[nodiscard]] AcceleratorCounts num_accelerators() const;
  [[nodiscard]] AcceleratorCounts num_accelerators(const std::string& type, int id) const;

  // A temporary resolver returns copies.
  [[nodiscard]] const std::optional<std::string>& task_type() const& noexcept { return options_.task_type; }
  [[nodiscard]] std::optional<std::string> task_type() const&& { return options_.task_type; }
  [[nodiscard]] std::optional<int> task_id() const noexcept { return options_.task_id; }
  [[nodiscard]] const std::optional<std::string>& rpc_layer() const& noexcept { return options_.rpc_layer; }
  [[nodiscard]] std::optional<std::string> rpc_layer() const&& { return options_.rpc_layer; }
  [[nodiscard]] const std::string& environment() const& noexcept { return options_.environment; }
  [[nodiscard]] std::string environment() const&& { return options_.environment; }
  /// The position among the cluster's processes on this host, from 0, and their number, as the launcher
  /// reports them. They select the devices of this process among the host's.
  [[nodiscard]] std::optional<int> local_rank() const noexcept { return options_.local_rank; }
  [[nodiscard]] std::optional<int> local_size() const noexcept { return options_.local_size; }

  /// An empty optional means unknown.
  void set_task_type(std::optional<std::string> type) { options_.task_type = std::move(type); }
  /// @throws InvalidArgument  the id is negative.
  void set_task_id(std::optional<int> id);
  void set_rpc_layer(std::optional<std::string> layer) { options_.rpc_layer = std::move(layer); }

 protected:
  /// @throws InvalidArgument  an option is out of its range.
  explicit Resolver(ResolverOptions options);
  Resolver(const Resolver&) = default;
  Resolver(Resolver&&) = default;
  Resolver& operator=(const Resolver&) = default;
  Resolver& operator=(Resolver&&) = default;

  /// The address, after "LAYER://" if there is an rpc layer.
  std::string behind_rpc_layer(const std::string& address) const;
  /// The address of the current task. @throws InvalidArgument  no task is current, or the cluster lacks it.
  std::string current_task_address() const;

  /// The result of master(); by default the option.
  virtual std::string default_master() const { return options_.master; }
  /// The result of master(type, id).
  virtual std::string task_master(const std::string& type, int id) const;
  /// Called with the current task, if any, or with the requested one; by default returns the option's
  /// accelerators.
  virtual AcceleratorCounts accelerators_of(const std::optional<Task>& task) const;

  const ResolverOptions& options() const noexcept { return options_; }
  std::optional<Task> current_task() const;

 private:
  ResolverOptions options_;
};

}  // namespace lockstep::cluster

#pragma GCC visibility pop
