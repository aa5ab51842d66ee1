#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/collective.hpp"
#include "detail/barrier.hpp"
#include "measure/calls.hpp"
#include "measure/collective_floor.hpp"
#include "measure/floor_arena.hpp"
#include "measure/measurement.hpp"
#include "measure/replica.hpp"
#include "measure/verify.hpp"
#include "options/options.hpp"
#include "processes/processes.hpp"
#include "report/results.hpp"

namespace lockstep::bench {

/// Thrown in threads that wait for a thread that has failed. It is no error of their own.
struct Stopped {};

/// The state that the threads of this process share. The barrier orders writes and reads.
struct Team {
  Team(const Options& all_options, const Collective& measured, const Processes& all_processes);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  const Options& options;
  const Collective& collective;
  const Processes& processes;
  std::vector<Group> groups;
  std::vector<RankBuffers> places;        ///< Of all ranks of all processes; with the floor's buffers.
  std::vector<Replica> replicas;          ///< Of this process.
  std::vector<Measurement> measurements;  ///< One for each thread of each process.
  std::optional<FloorArena> arena;        ///< The host's floor's, where there are several processes.
  std::optional<CapturedCalls> captured;  ///< With -G: the calls of all threads of this process.
  detail::Barrier barrier;

  int first_thread() const { return processes.index() * options.threads; }
  Measurement& measurement_of(int thread) {
    return measurements[static_cast<std::size_t>(first_thread() + thread)];
  }
  /// Null: another process has the rank.
  const Replica* find_replica(int rank) const;
  /// Sets the buffers of `places`. Without an arena a rank of another process, whose buffers this one cannot
  /// reach, is given ones of this process: the floor only counts what that rank moves.
  void find_buffers(std::int64_t offset_bytes);
  /// Ends what threads wait for, here and in the other processes. Any thread.
  void fail(const std::string& cause) noexcept;

  /// Waits for the other threads of this process. @throws Stopped  one of them has failed.
  void meet_threads();
  /// All threads of this process call it, and `act` runs on one of them, while the others wait.
  template <class Act>
  void on_one_thread(int thread, const Act& act) {
    meet_threads();
    if (thread == 0) act();
    meet_threads();
  }
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
  /// Captures operations [0, count) of all threads, and launches them so many times. @return the seconds of
  /// the launches.
  double launch_captured(Calls& calls, int count, int launches);
  void time_floor(const Layout& layout, const Calls& calls, std::size_t loop, int first_iteration,
                  int last_iteration);
  void run_floor(std::size_t loop, std::int64_t operation) const;
  void prepare_floor(const Layout& layout);
  std::size_t num_floor_loops() const;
  void check(const Layout& layout, Calls& calls, int pass);
  void fill_input(const Layout& layout, const Replica& replica, const Pattern& pattern) const;
  std::int64_t count_wrong_of(const Layout& layout, const Group& group, const Pattern& pattern) const;
  /// Waits for all threads of all processes. @throws Stopped  as Team::meet_threads
  void meet();
  /// The same; then all measurements are known.
  void share_measurements();
  Layout layout(const DataCase& data, int root, std::int64_t size_bytes, PlacementKind placement) const;
  void fill_with_ones(DType dtype, std::int64_t size_bytes);
  int group_size() const { return team_.groups.front().num_ranks(); }

  Team& team_;
  const Options& options_;
  int thread_;
  std::span<Replica> replicas_;  // the ranks that this thread drives
  int num_threads_;              // of all processes
  CollectiveFloor floor_;
  std::optional<Counting> counting_;  // of the first thread
};

}  // namespace lockstep::bench
