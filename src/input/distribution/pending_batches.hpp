#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/detail/mutex.hpp>

#include "input/iterators/prefetch_iterator.hpp"
#include "input/rows/batch.hpp"

namespace lockstep::detail {

/// A place in the batches of a pass, between two steps.
struct BatchMark {
  std::int64_t batch = 0;  ///< Number of the first batch with rows of later steps.
  std::int64_t row = 0;    ///< The first of these rows.
  std::size_t slice = 0;   ///< The slice with which the next step begins (BalancedSplitIterator).
};

/// What the user has had of the batches of a pass.
struct SeenBatches {
  BatchMark next{};
  std::int64_t num_given = 0;  ///< Batches that threw up to here have done so.
};

/// The dataset of which a worker reads a share, and the shares that others read.
struct ShareSource {
  /// The dataset of worker `index` of `num_shards`.
  std::function<PipelineHandle(std::int64_t num_shards, std::int64_t index)> pipeline;
  std::int64_t num_shards = 1, index = 0;  ///< This worker's; if all read the whole, 0 of 1.
  bool is_common = false;                  ///< Whether all workers read all of it, to keep other slices.
};

/// The batches of a pass, and those of them that the user has not seen yet: steps are made ahead, and the
/// state of a pass is that of what the user has seen.
///
/// If the workers read parts of a dataset, a pass that other numbers of workers have saved goes on with their
/// shares: each worker takes some, one after the other.
class PendingBatches final : public Iterator<BatchHandle> {
 public:
  /// Of a pass that has no state. @pre transfer is not called.
  PendingBatches(std::unique_ptr<Iterator<BatchHandle>> batches);  // NOLINT(google-explicit-constructor)
  /// @param key  null: reads nothing, until a state is read.
  /// @param statistics  null: the passes are not measured.
  PendingBatches(std::shared_ptr<const ShareSource> source, const IterationKey* key,
                 std::shared_ptr<PassStatistics> statistics = nullptr);

  std::optional<BatchHandle> next() override;
  /// How many batches `next` has given; one that threw counts.
  std::int64_t num_given() const noexcept { return num_given_; }

  /// Forgets the batches that the user has seen. Any thread may call.
  void set_seen(const SeenBatches& seen);
  /// Writes what the user has not seen; or adds a worker's share to what is read. @pre no thread is in
  /// `next`.
  void transfer(PassState& state) override;
  bool has_shares() const noexcept { return !shares_.empty(); }
  /// Changes the first batch of the share that was read last.
  void edit_first(const std::function<BatchHandle(const BatchHandle&)>& edit);

 private:
  using Given = Outcome<BatchHandle>;
  struct Share {
    std::deque<Given> ready{};  ///< Come before its batches.
    std::int64_t num_shards = 1, index = 0;
    PipelineHandle pipeline{};
    std::optional<IterationKey> key{};
    std::unique_ptr<Iterator<BatchHandle>> batches{};
  };
  struct Log {
    LeafMutex mutex;          // guards all members below
    std::deque<Given> given;  // from number `seen.next.batch` on
    SeenBatches seen;
  };

  void open(Share& share) const;
  void transfer(PassState& state, Share& share);
  std::deque<Given> unseen();

  std::shared_ptr<const ShareSource> source_;   // owners: the distributed dataset and its passes
  std::shared_ptr<PassStatistics> statistics_;  // owners: the passes
  std::deque<Share> shares_;                    // the last one stays at its end
  std::size_t first_read_ = 0;                  // in shares_, of those that were read last
  std::int64_t num_given_ = 0;
  std::unique_ptr<Log> log_ = std::make_unique<Log>();
};

}  // namespace lockstep::detail
