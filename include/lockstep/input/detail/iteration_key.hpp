#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <lockstep/detail/mutex.hpp>
#include <lockstep/detail/shared_function.hpp>

#pragma GCC visibility push(default)

/// Identifies a pass among all passes over a pipeline.
namespace lockstep::detail {

class PassState;
class PassStatistics;  // input/statistics/pass_statistics.hpp

/// Numbers the passes over one transformation's elements, separately for each shard, from 0. Thread-safe.
class IterationCounter {
 public:
  std::uint64_t next(std::uint64_t shard);
  /// After this, `reach` of the shard takes no memory.
  void make_room(std::uint64_t shard);
  /// The next pass has this number. @pre make_room
  void reach(std::uint64_t shard, std::uint64_t number) noexcept;

 private:
  LeafMutex mutex_;  // guards num_passes_
  std::map<std::uint64_t, std::uint64_t> num_passes_;
};

/// A transformation whose passes differ, and the shard for which they are made; 0: the whole dataset.
struct IterationCount {
  std::shared_ptr<IterationCounter> counter;  // owners: the pipelines derived from it
  std::uint64_t shard = 0;
};

/// A hash of both numbers.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept;

/// The state, beside the seeds, on which the random orders of a pass depend. An iterator takes one number for
/// each of its pipeline's `counts` when it is made. Passes that it opens later below itself, on whichever
/// thread, are distinguished by their places within it. Immutable.
class IterationKey {
 public:
  /// The next pass of a pipeline with these counts.
  static IterationKey next(const std::vector<IterationCount>& counts);
  /// The pass of this number, from 0, of a pipeline with these counts, as if no others were made.
  static IterationKey of_epoch(const std::vector<IterationCount>& counts, std::uint64_t epoch);
  /// Writes the numbers of a pipeline's pass, or reads them. @throws FileFault  they are not as many as
  /// counts.
  static IterationKey transferred(PassState& state, const IterationKey* key,
                                  const std::vector<IterationCount>& counts);
  explicit IterationKey(std::vector<std::uint64_t>&& numbers);
  /// A number for each count, as of a pass that was opened for a user.
  const std::vector<std::uint64_t>& numbers() const noexcept { return *numbers_; }
  /// Makes what lets the next passes come after this one.
  SharedFunction<void()> reaching(std::vector<IterationCount> counts) const;
  /// The key of a pass over a pipeline that a function has made, opened within this pass. It takes no numbers
  /// of counters.
  IterationKey inside(const std::vector<IterationCount>& counts) const;

  /// The key for an input whose counts begin with this pass's count `first`.
  IterationKey from(std::size_t first) const;
  /// The key of the n-th pass that the transformation at a position opens; the first one keeps its place.
  IterationKey repetition(int position, std::int64_t n) const;
  /// The key of the pass that the transformation at a position, with a count, opens for element n.
  IterationKey element(int position, std::size_t count, std::int64_t n) const;
  /// The key of a pass that other processes read too, to keep other elements of it.
  IterationKey common() const;
  /// The key for an input of a `shuffle` of so many elements; 0: its elements are not those that are
  /// shuffled.
  IterationKey shuffled(std::int64_t buffer_size) const;
  std::int64_t shuffle_buffer() const noexcept { return shuffle_buffer_; }
  /// The key of a pass whose stages are measured. @param statistics  owners: the keys, and what measures.
  IterationKey measured(std::shared_ptr<PassStatistics> statistics) const;
  /// Null: nobody measures.
  const std::shared_ptr<PassStatistics>& statistics() const noexcept { return statistics_; }

  bool is_common() const noexcept { return is_common_; }
  /// Words that distinguish the random numbers of the transformation at a position, with a count, from all
  /// others.
  std::array<std::uint32_t, 8> seed_words(std::uint64_t seed, int position, std::size_t count) const;

 private:
  std::uint64_t number(std::size_t count) const { return (*numbers_)[first_ + count]; }

  std::shared_ptr<const std::vector<std::uint64_t>> numbers_;  // owners: an iterator's keys
  std::size_t first_ = 0;  // index of the pipeline's first count in numbers_
  std::uint64_t place_ = 0;
  bool is_common_ = false;
  std::int64_t shuffle_buffer_ = 0;
  std::shared_ptr<PassStatistics> statistics_;
};

}  // namespace lockstep::detail

#pragma GCC visibility pop
