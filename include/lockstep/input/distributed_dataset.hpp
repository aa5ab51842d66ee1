#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/detail/nest_types.hpp>
#include <lockstep/detail/range_iterator.hpp>
#include <lockstep/detail/shared_function.hpp>
#include <lockstep/input/detail/pipeline.hpp>
#include <lockstep/input/input_statistics.hpp>
#include <lockstep/input/iterator_state.hpp>
#include <lockstep/input/tensor_spec.hpp>
#include <lockstep/values/per_replica.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

namespace detail {

/// One element for each local replica.
using Step = std::vector<FlatElement>;

/// The number of a pass among those of a distributed dataset, and how many steps it has given.
struct PassNumbers {
  std::int64_t epoch = 0;
  std::int64_t num_taken = 0;
  std::vector<std::vector<std::uint64_t>> orders{};  ///< IterationKey::numbers of each dataset's pass.
};

/// One pass over steps.
class StepIterator : public Iterator<Step> {
 public:
  /// DistributedIterator::num_waits.
  virtual std::int64_t num_waits() const noexcept = 0;
  virtual const PassNumbers& numbers() const noexcept = 0;
  /// DistributedIterator::save_state.
  virtual IteratorState save() = 0;
  /// DistributedIterator::statistics.
  virtual InputStatistics statistics() const = 0;
};

/// A pass that has not taken the place of another yet.
struct RestoredSteps {
  std::unique_ptr<StepIterator> pass;
  RestoreActions actions;
};

/// The steps of a distributed dataset, element types erased.
struct Steps {
  /// The next pass, or that of an epoch. @throws InvalidArgument  the epoch is negative.
  SharedFunction<std::unique_ptr<StepIterator>(std::optional<std::int64_t> epoch)> open;
  /// A pass that goes on where a saved one was. @throws as DistributedIterator::restore_state.
  SharedFunction<RestoredSteps(const IteratorState& state)> restore;
  std::vector<std::vector<TensorSpec>> spec;  ///< Specs of each replica's element, leaf by leaf, if known.
};

template <class D>
struct DistributedState {
  Steps steps;
  SharedFunction<D(Step&&)> assemble;
};

/// The specs of a nest's tensors, in the nest's structure; a struct becomes a tuple of its members.
template <class T, class Next>
auto spec_nest(const T& nest, Next& next) {
  return map_leaves(nest, [&next](const auto& leaf) {
    using Leaf = std::remove_cvref_t<decltype(leaf)>;
    if constexpr (is_per_replica<Leaf>::value)
      return spec_nest(leaf[0], next);
    else
      return next();
  });
}
template <RecordNest T, class Next>
auto spec_nest(const T& record, Next& next) {
  return std::apply(
      [&next](const auto&... member) {
        return std::tuple<decltype(spec_nest(member, next))...>{spec_nest(member, next)...};
      },
      lockstep_nest_members(record));
}

template <class D>
auto element_spec(const DistributedState<D>& state) {
  const auto& spec = state.steps.spec;
  Step step(spec.size());
  for (std::size_t replica = 0; replica < spec.size(); ++replica) step[replica].resize(spec[replica].size());
  std::size_t leaf = 0;
  auto next = [&] {
    std::vector<TensorSpec> components;
    for (const auto& replica : spec)
      components.push_back(leaf < replica.size() ? replica[leaf] : TensorSpec::unknown());
    ++leaf;
    return PerReplica<TensorSpec>(std::move(components));
  };
  return spec_nest(state.assemble(std::move(step)), next);
}

/// @throws OutOfRange  always.
[[noreturn]] void raise_end_of_input(std::string_view what, std::int64_t count, std::string_view unit);
/// @throws ContextError  always.
[[noreturn]] void raise_iterator_moved_from(std::string_view type);

}  // namespace detail

/// One pass over a distributed dataset. Move only; used by one thread at a time.
///
/// With InputOptions::per_replica_buffer_size k > 0 a thread of the pass, started by the first `next`, reads,
/// splits and copies k steps ahead, and then one more; with 0 `next` does this itself. Rows are gathered
/// directly into the replica's memory: on a CPU into the value's own memory, on a GPU into page-locked
/// memory, from which they are copied on a stream of the pass. `next` makes the device's current stream wait
/// for that copy. The host waits for the devices only to stay at most the prepared steps ahead of them.
///
/// Values belong to the caller for as long as it keeps them. When the last handle to a value is gone, its
/// device memory is reused after the work enqueued until then on the stream that was current when `next`
/// returned it. Use on other streams must be ordered before that by events.
///
/// The destructor waits for calls of the dataset's functions that the pass's threads are making, and for
/// nothing else; inside such a call it waits for none. In a fork of the process that made it, the iterator
/// can only be destroyed.
///
/// With several workers a step exists on all of them or on none. It exists as long as a replica of any worker
/// has data; replicas without data get elements without rows, with the others' dtypes and other extents.
/// Workers take iterators, and the steps of several iterators, in the same order. If one worker cannot read,
/// its step fails on all workers, and all continue after it. If one worker drops its iterator before the end,
/// the pass ends for the others once they have taken the steps that it had made.
template <class D>
class DistributedIterator {
 public:
  using value_type = D;

  explicit DistributedIterator(std::shared_ptr<const detail::DistributedState<D>> state,
                               std::optional<std::int64_t> epoch = {})
      : state_(std::move(state)), iterator_(state_->steps.open(epoch)) {}

  /// The next step's values: one component for each local replica, in replica order. Some may have no rows.
  /// @throws OutOfRange  the end of the pass.
  /// @throws ContextError  in a replica function (fetch outside and pass the value to `run`); in a fork of
  /// the process that made this; moved-from.
  /// @throws InvalidArgument  elements cannot be batched or split; with a dataset for each replica, keys,
  /// lengths or dtypes differ between datasets. Exceptions of the dataset's functions pass through at their
  /// step. The next call continues after it with the elements that were read for that step; with several
  /// workers or datasets those elements are dropped.
  /// @throws CollectiveError  another worker could not read its part of the step. @throws CollectiveMismatch
  /// workers' elements have different dtypes. @throws CollectiveAborted  another worker is gone; the pass has
  /// ended. @throws ContextError  a worker without data does not know its elements' lengths or keys yet.
  D next() {
    std::optional<D> value = next_optional();
    if (!value)
      detail::raise_end_of_input("DistributedIterator::next", iterator_->numbers().num_taken, "steps");
    return std::move(*value);
  }
  /// The same, but returns nothing at the end.
  std::optional<D> next_optional() {
    std::optional<detail::Step> step = checked().next();
    if (!step) return std::nullopt;
    return state_->assemble(std::move(*step));
  }
  /// The number of steps so far for which a replica had to wait: `next` found the step not ready, and when it
  /// was ready, the replica had no work left on its device's current stream (a CPU never has). The first step
  /// of a pass usually counts, because it starts the thread; each further one means that the host does not
  /// keep up. Without a thread all steps count.
  /// @throws ContextError  moved-from.
  [[nodiscard]] std::int64_t num_waits() const { return checked().num_waits(); }
  /// The number of this pass among those of its DistributedDataset, from 0: how many were started before, or
  /// what `iterator(epoch)` was given. @throws ContextError  moved-from.
  [[nodiscard]] std::int64_t epoch() const { return checked().numbers().epoch; }

  /// Where the pass is: what a process that restores it has yet to give is what this one has. Steps that were
  /// made ahead are not lost. It waits for the step that the pass's thread is making, and reads nothing more.
  ///
  /// The state is that of all workers, who all save after the same step. Any worker's serves all of them.
  /// @throws Unsupported  as DatasetIterator::save_state. @throws ContextError  as next.
  /// @throws CollectiveError  another worker could not save. @throws CollectiveAborted  another worker is
  /// gone.
  [[nodiscard]] IteratorState save_state() const { return checked().save(); }
  /// Drops this pass and goes on where the saved one was; its epoch, and those of passes that are made later,
  /// are what they would have been. All workers restore the same state. Datasets are as for
  /// DatasetIterator::restore_state.
  ///
  /// The numbers of replicas may differ: global batches stay what they are, and are split over the replicas
  /// that are there now. So may the number of workers. Those that read the whole dataset (off, and data
  /// where batches are split) go on with its batches. Where each reads files or elements of
  /// its own, or those of its hint, worker i goes on with the shares of the workers i, i + num_workers, …
  /// that saved, one after the other: each row that was left is given once, and a worker without shares gets
  /// rows from the next pass on. Datasets made by a function go on only on as many workers.
  /// @throws InvalidArgument  as DatasetIterator::restore_state; also if the state is of other numbers of
  /// workers or datasets, and a function made the datasets. @throws ContextError  as next.
  void restore_state(const IteratorState& state) { prepare_restore(state)(); }
  /// For the library: all of restore_state that can fail. @return what remains to be done.
  [[nodiscard]] auto prepare_restore(const IteratorState& state) {
    checked();
    return [this, restored = std::make_shared<detail::RestoredSteps>(state_->steps.restore(state))] {
      for (const auto& action : std::exchange(restored->actions, {})) action();
      iterator_ = std::move(restored->pass);
    };
  }

  /// As DatasetIterator::statistics, of this worker. In addition "make a step" is the splitting of batches
  /// and the copying to the replicas, and "steps made ahead" the buffer of per_replica_buffer_size.
  /// @throws ContextError  no recording was on; moved-from.
  [[nodiscard]] InputStatistics statistics() const { return checked().statistics(); }

  /// As DistributedDataset::element_spec. @throws ContextError  moved-from.
  [[nodiscard]] auto element_spec() const {
    checked();
    return detail::element_spec(*state_);
  }

 private:
  detail::StepIterator& checked() const {
    if (iterator_ == nullptr) detail::raise_iterator_moved_from("DistributedIterator");
    return *iterator_;
  }

  std::shared_ptr<const detail::DistributedState<D>> state_;  // owners: the dataset and its iterators
  std::unique_ptr<detail::StepIterator> iterator_;
};

/// A dataset that is distributed over the replicas of a strategy. Made by `distribute_dataset` and
/// `distribute_datasets_from_function`.
///
/// A cheap handle; every `iterator()` and every range-for is a fresh, independent pass. `D` is the dataset's
/// element type with each leaf `T` replaced by `PerReplica<T>`.
template <class D>
class DistributedDataset {
 public:
  using value_type = D;

  explicit DistributedDataset(detail::DistributedState<D> state)
      : state_(std::make_shared<const detail::DistributedState<D>>(std::move(state))) {}
  DistributedDataset(const DistributedDataset&) = default;  // no move: a handle is never empty
  DistributedDataset& operator=(const DistributedDataset&) = default;

  /// Starts a pass. Its random orders are fixed here (Dataset::shuffle).
  [[nodiscard]] DistributedIterator<D> iterator() const { return DistributedIterator<D>(state_); }
  /// Starts the pass of an epoch, as DistributedSampler.set_epoch does: its random orders are those that the
  /// pass of this number, from 0, has in a program that makes no others. Later passes come after it. On
  /// several workers all pass the same. @throws InvalidArgument  epoch < 0.
  [[nodiscard]] DistributedIterator<D> iterator(std::int64_t epoch) const {
    return DistributedIterator<D>(state_, epoch);
  }
  /// Starts a pass for range-for.
  [[nodiscard]] detail::RangeIterator<DistributedIterator<D>> begin() const { return {iterator()}; }
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }

  /// The nest with each Tensor replaced by a `PerReplica<TensorSpec>` (a struct becomes a tuple). The batch's
  /// extent is known only if all batches have the same number of rows on this replica.
  [[nodiscard]] auto element_spec() const { return detail::element_spec(*state_); }

 private:
  std::shared_ptr<const detail::DistributedState<D>> state_;  // owners: the handles and the iterators
};

}  // namespace lockstep

#pragma GCC visibility pop
