#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collectives/collective.hpp"
#include "detail/barrier.hpp"
#include "measure/calls.hpp"
#include "measure/collective_floor.hpp"
#include "measure/replica.hpp"
#include "measure/verify.hpp"
#include "options/options.hpp"
#include "report/results.hpp"

namespace lockstep::bench {

/// Thrown in threads that wait for a thread that has failed. It is no error of their own.
struct Stopped {};

/// The results of each thread, which thread 0 combines.
struct Measurement {
  double seconds = 0;
  std::array<double, kFloorLoops.size()> floor_seconds{};
  std::int64_t wrong = 0;
  std::vector<double> iteration_seconds;
};

/// The state that the threads share. The barrier orders writes and reads.
struct Team {
  Team(const Options& all_options, const Collective& measured);

  const Options& options;
  const Collective& collective;
  std::vector<Group> groups;
  std::vector<Replica> replicas;
  std::vector<Measurement> measurements;  ///< One per thread.
  detail::Barrier barrier;

  /// Waits for the other threads. @throws Stopped  one of them has failed.
  void meet();
};

/// One thread's part of the sweep; all threads make the same steps.
class Worker {
 public:
  Worker(Team& team, int thread);

  /// @param on_row  called by thread 0.
  void sweep(const std::function<void(const Row&)>& on_row);

 private:
  void sweep_case(const DataCase& data, int root, const std::function<void(const Row&)>& on_row);
  void warm_up(const DataCase& data, int root);
  Placement measure(const Layout& layout);
  void time_calls(Calls& calls, int first_iteration, int last_iteration);
  void time_floor(const Layout& layout, const Calls& calls, std::size_t loop, int first_iteration,
                  int last_iteration);
  void run_floor(std::size_t loop, std::int64_t operation) const;
  void prepare_floor(const Layout& layout);
  std::size_t num_floor_loops() const;
  void check(const Layout& layout, Calls& calls, int pass);
  void fill_input(const Layout& layout, const Replica& replica, const Pattern& pattern) const;
  std::int64_t count_wrong_of(const Layout& layout, const Group& group, const Pattern& pattern) const;
  std::int64_t num_wrong() const;
  Placement combine_measurements(const Layout& layout) const;

  Layout layout(const DataCase& data, int root, std::int64_t size_bytes, PlacementKind placement) const;
  void fill_with_ones(DType dtype, std::int64_t size_bytes);
  int group_size() const { return team_.groups.front().communicator.num_ranks(); }

  Team& team_;
  const Options& options_;
  int thread_;
  std::span<Replica> replicas_;  // the ranks that this thread drives
  CollectiveFloor floor_;
};

}  // namespace lockstep::bench
