#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <lockstep/detail/mutex.hpp>

#pragma GCC visibility push(default)

/// Which of a pipeline's passes one is.
namespace lockstep::detail {

/// Numbers the passes over one transformation's elements, those of each shard from 0. Thread-safe.
class IterationCounter {
 public:
  std::uint64_t next(std::uint64_t shard);

 private:
  LeafMutex mutex_;  // guards num_passes_
  std::map<std::uint64_t, std::uint64_t> num_passes_;
};

/// A transformation whose passes differ, and the shard of it that the passes are for; 0: the whole.
struct IterationCount {
  std::shared_ptr<IterationCounter> counter;  // owners: the pipelines made of it
  std::uint64_t shard = 0;
};

/// The numbers in one, so that other numbers make another one.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept;

/// What the random orders of a pass depend on, beside their seeds. An iterator takes one number for each of
/// its pipeline's `counts` when it is made; the passes below it that are opened on the way, by whichever
/// thread, are told apart by their places within it. Immutable.
class IterationKey {
 public:
  /// The next pass of a pipeline with these counts.
  static IterationKey next(const std::vector<IterationCount>& counts);
  /// Of a pipeline that a function has made, opened within this pass: it takes no numbers of others.
  IterationKey inside(const std::vector<IterationCount>& counts) const;

  /// Of an input whose counts begin with this pass's count `first`.
  IterationKey from(std::size_t first) const;
  /// Of the n-th pass that the transformation at a position opens; the first one keeps its place.
  IterationKey repetition(int position, std::int64_t n) const;
  /// Of the pass that the transformation at a position, with a count, opens for element n.
  IterationKey element(int position, std::size_t count, std::int64_t n) const;
  /// Of a pass that other processes read too, to keep other elements of it.
  IterationKey common() const;

  bool is_common() const noexcept { return is_common_; }
  /// What tells the random numbers of the transformation at a position, with a count, from all others.
  std::array<std::uint32_t, 8> seed_words(std::uint64_t seed, int position, std::size_t count) const;

 private:
  explicit IterationKey(std::vector<std::uint64_t>&& numbers);
  std::uint64_t number(std::size_t count) const { return (*numbers_)[first_ + count]; }

  std::shared_ptr<const std::vector<std::uint64_t>> numbers_;  // owners: an iterator's keys
  std::size_t first_ = 0;                                      // the pipeline's, in numbers_
  std::uint64_t place_ = 0;
  bool is_common_ = false;
};

}  // namespace lockstep::detail

#pragma GCC visibility pop
