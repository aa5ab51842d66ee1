#include <ostream>

#include <lockstep/cluster/cluster_spec.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::cluster {
namespace {

void check_index(int index) {
  LOCKSTEP_EXPECTS(index >= 0, InvalidArgument, "ClusterSpec: the index ", index,
                   " of a task is negative. Tasks of a job are counted from 0.");
}

}  // namespace

std::strong_ordering operator<=>(const Task& a, const Task& b) noexcept {
  const std::strong_ordering types = a.type <=> b.type;
  return types != 0 ? types : a.index <=> b.index;
}

bool operator==(const Task& a, const Task& b) noexcept { return a.index == b.index && a.type == b.type; }

std::ostream& operator<<(std::ostream& out, const Task& task) {
  return out << detail::concat(task.type, ' ', task.index);
}

ClusterSpec::Tasks::Tasks(std::initializer_list<std::string> addresses)
    : Tasks(std::vector<std::string>(addresses)) {}

ClusterSpec::Tasks::Tasks(const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses)
    addresses_.emplace_hint(addresses_.end(), static_cast<int>(addresses_.size()), address);
}

ClusterSpec::Tasks::Tasks(std::initializer_list<std::pair<const int, std::string>> addresses) {
  for (const auto& [index, address] : addresses) {
    check_index(index);
    LOCKSTEP_EXPECTS(addresses_.emplace(index, address).second, InvalidArgument, "ClusterSpec: a job's task ",
                     index, " occurs twice, at '", addresses_[index], "' and at '", address,
                     "'. Give each task an index of its own.");
  }
}

ClusterSpec::Tasks::Tasks(std::map<int, std::string> addresses) : addresses_(std::move(addresses)) {
  if (!addresses_.empty()) check_index(addresses_.begin()->first);
}

ClusterSpec::ClusterSpec(std::initializer_list<std::pair<const std::string, Tasks>> jobs) {
  for (const auto& [job, tasks] : jobs) add(job, tasks);
}

ClusterSpec::ClusterSpec(const std::map<std::string, Tasks>& jobs) {
  for (const auto& [job, tasks] : jobs) add(job, tasks);
}

void ClusterSpec::add(const std::string& job, const Tasks& tasks) {
  LOCKSTEP_EXPECTS(!job.empty(), InvalidArgument,
                   "ClusterSpec: a job has no name. Name it, as \"worker\" for one.");
  LOCKSTEP_EXPECTS(jobs_.emplace(job, tasks.addresses_).second, InvalidArgument, "ClusterSpec: the job '",
                   job, "' occurs twice. List each job once, with all its tasks.");
}

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  for (const auto& [job, tasks] : jobs_) names.push_back(job);
  return names;
}

bool operator==(const ClusterSpec& a, const ClusterSpec& b) { return a.jobs_ == b.jobs_; }

bool ClusterSpec::contains(std::string_view job) const noexcept { return jobs_.contains(job); }

bool ClusterSpec::contains(const Task& task) const noexcept {
  const auto found = jobs_.find(task.type);
  return found != jobs_.end() && found->second.contains(task.index);
}

const std::map<int, std::string>& ClusterSpec::tasks(std::string_view job) const& {
  const auto found = jobs_.find(job);
  LOCKSTEP_EXPECTS(found != jobs_.end(), InvalidArgument, "ClusterSpec: there is no job '", job, "' in ",
                   *this, ". Name one of its jobs.");
  return found->second;
}

std::map<int, std::string> ClusterSpec::tasks(std::string_view job) const&& { return tasks(job); }

int ClusterSpec::num_tasks(std::string_view job) const { return static_cast<int>(tasks(job).size()); }

int ClusterSpec::num_tasks() const noexcept {
  int sum = 0;
  for (const auto& [job, tasks] : jobs_) sum += static_cast<int>(tasks.size());
  return sum;
}

const std::string& ClusterSpec::task_address(std::string_view job, int index) const& {
  const std::map<int, std::string>& addresses = tasks(job);
  const auto found = addresses.find(index);
  LOCKSTEP_EXPECTS(found != addresses.end(), InvalidArgument, "ClusterSpec: the job '", job, "' has no task ",
                   index, " in ", *this, ". Name one of its tasks.");
  return found->second;
}

std::string ClusterSpec::task_address(std::string_view job, int index) const&& {
  return task_address(job, index);
}

bool ClusterSpec::is_sparse(std::string_view job) const {
  const std::map<int, std::string>& addresses = tasks(job);
  return !addresses.empty() && addresses.rbegin()->first != static_cast<int>(addresses.size()) - 1;
}

std::ostream& operator<<(std::ostream& stream, const ClusterSpec& spec) {
  constexpr int kMost = 4;  // tasks listed for each job
  std::string out = "{";
  const char* between_jobs = "";
  for (const std::string& job : spec.jobs()) {
    const bool is_sparse = spec.is_sparse(job);
    out += detail::concat(between_jobs, job, ": ", is_sparse ? '{' : '[');
    int num_written = 0;
    for (const auto& [index, address] : spec.tasks(job)) {
      if (num_written > 0) out += ", ";
      if (num_written++ == kMost) {
        out += detail::concat("… ", spec.num_tasks(job), " tasks");
        break;
      }
      if (is_sparse) out += detail::concat(index, ": ");
      out += address.empty() ? "?" : address;
    }
    out += is_sparse ? '}' : ']';
    between_jobs = ", ";
  }
  return stream << out + '}';
}

}  // namespace lockstep::cluster
