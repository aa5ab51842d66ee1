#include <lockstep/cluster/resolver.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::cluster {
namespace {

void check_counts(const AcceleratorCounts& counts) {
  for (const auto& [kind, count] : counts)
    LOCKSTEP_EXPECTS(count >= 0, InvalidArgument, "num_accelerators: ", count, " accelerators of the kind '",
                     kind, "'. Pass a count of at least 0.");
}

void check_id(std::optional<int> id) {
  LOCKSTEP_EXPECTS(id.value_or(0) >= 0, InvalidArgument, "Resolver: the task id ", *id,
                   " is negative. Tasks of a job are counted from 0.");
}

}  // namespace

Accelerators::Accelerators(AcceleratorCounts of_each_task) : of_each_task_(std::move(of_each_task)) {
  check_counts(of_each_task_);
}

Accelerators::Accelerators(std::map<Task, AcceleratorCounts> by_task) : by_task_(std::move(by_task)) {
  for (const auto& [task, counts] : by_task_) check_counts(counts);
}

Accelerators::Accelerators(std::initializer_list<AcceleratorCounts::value_type> of_each_task)
    : Accelerators(AcceleratorCounts(of_each_task)) {}

Accelerators::Accelerators(std::initializer_list<std::pair<const Task, AcceleratorCounts>> by_task)
    : Accelerators(std::map<Task, AcceleratorCounts>(by_task)) {}

AcceleratorCounts Accelerators::of(const std::optional<Task>& task) const {
  if (by_task_.empty()) return of_each_task_;
  if (!task) {
    AcceleratorCounts sum;
    for (const auto& [each, counts] : by_task_)
      for (const auto& [kind, count] : counts) sum[kind] += count;
    return sum;
  }
  const auto found = by_task_.find(*task);
  return found == by_task_.end() ? AcceleratorCounts() : found->second;
}

Resolver::Resolver(ResolverOptions options) : options_(std::move(options)) {
  check_id(options_.task_id);
  const int rank = options_.local_rank.value_or(0), size = options_.local_size.value_or(rank + 1);
  LOCKSTEP_EXPECTS(0 <= rank && rank < size, InvalidArgument, "Resolver: the local rank ", rank,
                   " is not one of ", size, " processes. Pass a rank in [0, local_size).");
}

void Resolver::set_task_id(std::optional<int> id) {
  check_id(id);
  options_.task_id = id;
}

std::optional<Task> Resolver::current_task() const {
  if (!options_.task_type || !options_.task_id) return std::nullopt;
  return Task{*options_.task_type, *options_.task_id};
}

std::string Resolver::task_master(const std::string& type, int id) const {
  return behind_rpc_layer(cluster_spec().task_address(type, id));
}

std::string Resolver::behind_rpc_layer(const std::string& address) const {
  if (rpc_layer().value_or("").empty()) return address;
  return *rpc_layer() + "://" + address;
}

std::string Resolver::current_task_address() const {
  const std::optional<Task> task = current_task();
  LOCKSTEP_EXPECTS(task, InvalidArgument, "Resolver: the cluster ", cluster_spec(),
                   " has several tasks, and which of them this process is, is not known. Set task type and "
                   "id, or name a task.");
  return master(task->type, task->index);
}

AcceleratorCounts Resolver::accelerators_of(const std::optional<Task>& task) const {
  return options_.num_accelerators.of(task);
}

AcceleratorCounts Resolver::num_accelerators() const { return accelerators_of(current_task()); }

AcceleratorCounts Resolver::num_accelerators(const std::string& type, int id) const {
  return accelerators_of(Task{type, id});
}

}  // namespace lockstep::cluster
