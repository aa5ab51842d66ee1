#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <lockstep/detail/range_iterator.hpp>
#include <lockstep/input/detail/pipeline.hpp>
#include <lockstep/input/detail/tensor_nest.hpp>
#include <lockstep/input/input_statistics.hpp>
#include <lockstep/input/iterator_state.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

namespace detail {

/// A pass over a pipeline, for user threads.
struct DatasetPass {
  IterationKey key;
  std::unique_ptr<Iterator<FlatElement>> elements{};  ///< Null: moved from.
  std::int64_t num_taken = 0;
  RestoreActions actions{};  ///< Of a pass that has not taken the place of another yet.
};

/// The next pass, or the one of an epoch. @throws InvalidArgument  the epoch is negative.
DatasetPass open_for_user(const PipelineHandle& pipeline, std::optional<std::int64_t> epoch);
/// DatasetIterator::save_state.
IteratorState save_pass(const PipelineHandle& pipeline, const DatasetPass& pass);
/// The pass that goes on where a saved one was. @throws as DatasetIterator::restore_state.
DatasetPass restored_pass(const PipelineHandle& pipeline, const IteratorState& state);
/// The restored pass takes the place of another, which is destroyed.
void replace_pass(DatasetPass& pass, DatasetPass& restored) noexcept;
/// DatasetIterator::statistics.
InputStatistics statistics_of(const DatasetPass& pass);
/// @throws OutOfRange  always.
[[noreturn]] void raise_end_of_input(std::string_view what, std::int64_t count, std::string_view unit);
/// @throws ContextError  always.
[[noreturn]] void raise_iterator_moved_from(std::string_view type);

}  // namespace detail

/// One pass over a dataset, without a strategy. Move only; used by one thread at a time.
///
/// The destructor waits for calls of the dataset's functions that the pass's threads are making, and for
/// nothing else; inside such a call it waits for none. In a fork of the process that made it, the iterator
/// can only be destroyed.
template <class E>
class DatasetIterator {
 public:
  using value_type = E;

  explicit DatasetIterator(detail::PipelineHandle pipeline, std::optional<std::int64_t> epoch = {})
      : pipeline_(std::move(pipeline)), pass_(detail::open_for_user(pipeline_, epoch)) {}

  /// The next element, on the host. @throws OutOfRange  the pass has ended. @throws ContextError  this is
  /// moved-from, or was made by another process before a fork. Exceptions of the dataset's functions pass
  /// through; the next call continues after that element.
  E next() {
    std::optional<E> element = next_optional();
    if (!element) detail::raise_end_of_input("DatasetIterator::next", pass_.num_taken, "elements");
    return std::move(*element);
  }
  /// The same, but returns nothing at the end.
  std::optional<E> next_optional() {
    check();
    std::optional<detail::FlatElement> leaves = pass_.elements->next();
    if (!leaves) return std::nullopt;
    ++pass_.num_taken;
    return detail::unflatten_element<E>(detail::type_of(pipeline_), std::move(*leaves));
  }

  /// Where the pass is: what a process that restores it has yet to give is what this one has. It waits for
  /// the elements that the pass's threads are making, as long as `next` would, and reads nothing more.
  /// @throws Unsupported  `scan`'s state is of a type that has no form as bytes, or elements whose lengths or
  /// keys are not fixed have a struct without a default constructor. @throws ContextError  as next.
  [[nodiscard]] IteratorState save_state() const {
    check();
    return detail::save_pass(pipeline_, pass_);
  }
  /// Drops this pass and goes on where the saved one was; passes that are made later come after that one. The
  /// dataset must be made by the same calls, with the same functions and files. Sources go to their place:
  /// from_generator makes its callable again and drops the elements before, and so do readers without
  /// positions; `interleave` calls its function for the datasets that were open. A pass that was writing a
  /// cache file leaves none.
  /// @throws InvalidArgument  the state is damaged or of another version; it is of another dataset: names the
  /// first stage that differs. @throws ContextError  as next. Exceptions of sources and functions that are
  /// called pass through. After an exception, also if memory has run out, this pass goes on as before, and
  /// the dataset's caches, its seeds, and what is known of its elements are what they were.
  void restore_state(const IteratorState& state) { prepare_restore(state)(); }
  /// For the library: all of restore_state that can fail. @return what remains to be done.
  [[nodiscard]] auto prepare_restore(const IteratorState& state) {
    check();
    return [this, pass = std::make_shared<detail::DatasetPass>(detail::restored_pass(pipeline_, state))] {
      detail::replace_pass(pass_, *pass);
    };
  }

  /// What each stage of the pass has done since it was made or restored, and which one bounds it. A pass is
  /// measured if a recording was on then (trace::start, LOCKSTEP_TRACE), and while one is: two readings of
  /// the clock for an element and stage. Without a recording nothing is counted, and nothing paid.
  /// @throws ContextError  no recording was on; moved-from.
  [[nodiscard]] InputStatistics statistics() const {
    check();
    return detail::statistics_of(pass_);
  }

 private:
  void check() const {
    if (pass_.elements == nullptr) detail::raise_iterator_moved_from("DatasetIterator");
  }

  detail::PipelineHandle pipeline_;
  detail::DatasetPass pass_;
};

}  // namespace lockstep

#pragma GCC visibility pop
