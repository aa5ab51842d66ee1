#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <lockstep/detail/range_iterator.hpp>
#include <lockstep/input/detail/pipeline.hpp>
#include <lockstep/input/detail/tensor_nest.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

namespace detail {

/// The next pass over a pipeline, for user threads. @param what  the call that messages name.
std::unique_ptr<Iterator<FlatElement>> open_for_user(const PipelineHandle& pipeline, std::string_view what);
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

  explicit DatasetIterator(detail::PipelineHandle pipeline)
      : pipeline_(std::move(pipeline)),
        iterator_(detail::open_for_user(pipeline_, "DatasetIterator::next")) {}

  /// The next element, on the host. @throws OutOfRange  the pass has ended. @throws ContextError  this is
  /// moved-from, or was made by another process before a fork. Exceptions of the dataset's functions pass
  /// through; the next call continues after that element.
  E next() {
    std::optional<E> element = next_optional();
    if (!element) detail::raise_end_of_input("DatasetIterator::next", num_elements_, "elements");
    return std::move(*element);
  }
  /// The same, but returns nothing at the end.
  std::optional<E> next_optional() {
    if (iterator_ == nullptr) detail::raise_iterator_moved_from("DatasetIterator");
    std::optional<detail::FlatElement> leaves = iterator_->next();
    if (!leaves) return std::nullopt;
    ++num_elements_;
    return detail::unflatten_element<E>(detail::type_of(pipeline_), std::move(*leaves));
  }

 private:
  detail::PipelineHandle pipeline_;
  std::unique_ptr<detail::Iterator<detail::FlatElement>> iterator_;
  std::int64_t num_elements_ = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
