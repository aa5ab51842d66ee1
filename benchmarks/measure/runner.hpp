#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "collectives/collective.hpp"
#include "measure/worker.hpp"
#include "options/options.hpp"
#include "report/results.hpp"

namespace lockstep::bench {

/// The lines of "Using devices" about the ranks of all processes, which make the call together.
/// @param groups  one colour for each rank.
std::vector<RankInfo> rank_infos(const Options& options, const std::vector<int>& groups,
                                 const Processes& processes);

/// Measures one collective: -t threads in each process, all started before anything is timed, each driving
/// its ranks through the same sweep. All processes make theirs together.
class Runner {
 public:
  /// @pre all sizes of `options` but the largest fit into memory; see fit_to_memory.
  Runner(const Options& options, const Collective& collective, const Processes& processes)
      : team_(options, collective, processes) {}

  /// Colours of the groups of all ranks.
  std::vector<int> groups() const;
  /// The bytes of all buffers of this process, once `run` has begun.
  std::int64_t allocated_bytes() const;

  /// Runs the sweep; `on_row` is called on the calling thread after each row, with the same row in all
  /// processes.
  /// Rethrows the first failure of any thread; then the other processes' sweeps throw PeerLost.
  void run(const std::function<void(const Row&)>& on_row);

 private:
  void work(int thread, const std::function<void(const Row&)>& on_row) noexcept;
  void fail(std::exception_ptr failure) noexcept;

  Team team_;
  std::mutex mutex_;  // guards failure_
  std::exception_ptr failure_;
};

/// Cuts the largest size, and the smallest if it is larger still, to the size that fits into memory. @return
/// whether it cut.
/// @throws OptionError  the sizes were listed, one by one.
bool fit_to_memory(Options& options, const SharedMemory& memory);

}  // namespace lockstep::bench
