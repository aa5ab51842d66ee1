#pragma once

#include <compare>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

/// Clusters: which processes work together, and which of them this one is, as in TensorFlow's
/// tf.train.ClusterSpec and tf.distribute.cluster_resolver.
namespace lockstep::cluster {

/// One process of a cluster: the job it belongs to ("chief", "worker", "ps", "evaluator" or a name that the
/// user chose), and its index in the job.
struct Task {
  std::string type;
  int index = 0;

  friend std::strong_ordering operator<=>(const Task& a, const Task& b) noexcept;
  friend bool operator==(const Task& a, const Task& b) noexcept;
};

/// "worker 3".
std::ostream& operator<<(std::ostream& out, const Task& task);

/// The tasks of each job of a cluster and their addresses: `ClusterSpec{{"worker", {"w0:2222", "w1:2222"}},
/// {"ps", {{3, "p3:2222"}}}}`. A value; const calls may run at the same time.
///
/// Addresses are not checked. An empty one stands for a task whose address is unknown.
class ClusterSpec {
 public:
  /// The tasks of one job: a list, which is numbered from 0, or a sparse map from index to address.
  class Tasks {
   public:
    Tasks() = default;
    Tasks(std::initializer_list<std::string> addresses);
    Tasks(const std::vector<std::string>& addresses);
    /// @throws InvalidArgument  an index is negative or repeated.
    Tasks(std::initializer_list<std::pair<const int, std::string>> addresses);
    /// @throws InvalidArgument  an index is negative.
    Tasks(std::map<int, std::string> addresses);

   private:
    friend class ClusterSpec;
    std::map<int, std::string> addresses_;
  };

  /// No jobs.
  ClusterSpec() = default;
  /// @throws InvalidArgument  a job has no name or is repeated.
  ClusterSpec(std::initializer_list<std::pair<const std::string, Tasks>> jobs);
  /// @throws InvalidArgument  a job has no name.
  explicit ClusterSpec(const std::map<std::string, Tasks>& jobs);

  /// Whether there are no jobs.
  [[nodiscard]] bool empty() const noexcept { return jobs_.empty(); }
  /// The jobs' names, sorted.
  [[nodiscard]] std::vector<std::string> jobs() const;
  [[nodiscard]] bool contains(std::string_view job) const noexcept;
  [[nodiscard]] bool contains(const Task& task) const noexcept;

  /// The addresses of a job's tasks by their index; a temporary spec returns a copy.
  /// @throws InvalidArgument  there is no such job.
  [[nodiscard]] const std::map<int, std::string>& tasks(std::string_view job) const&;
  [[nodiscard]] std::map<int, std::string> tasks(std::string_view job) const&&;
  /// @throws InvalidArgument  there is no such job.
  [[nodiscard]] int num_tasks(std::string_view job) const;
  /// The number of tasks of all jobs.
  [[nodiscard]] int num_tasks() const noexcept;
  /// The address of a task; a temporary spec returns a copy.
  /// @throws InvalidArgument  there is no such job, or no such index in it.
  [[nodiscard]] const std::string& task_address(std::string_view job, int index) const&;
  [[nodiscard]] std::string task_address(std::string_view job, int index) const&&;
  /// Whether a job's indices differ from 0, 1, 2 and so on, in whatever form they were given.
  /// @throws InvalidArgument  there is no such job.
  [[nodiscard]] bool is_sparse(std::string_view job) const;

  friend bool operator==(const ClusterSpec& a, const ClusterSpec& b);

 private:
  void add(const std::string& job, const Tasks& tasks);

  std::map<std::string, std::map<int, std::string>, std::less<>> jobs_;
};

/// `{ps: {3: p3}, worker: [w0, w1]}`.
std::ostream& operator<<(std::ostream& out, const ClusterSpec& spec);

}  // namespace lockstep::cluster

#pragma GCC visibility pop
