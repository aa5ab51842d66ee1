#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "input/pipeline/element_error.hpp"
#include "input/pipeline/pipeline.hpp"

/// Iterators that call the user's functions.
namespace lockstep::detail {

/// The tensors on the host, contiguous, in memory of their own: the function that made them may reuse its
/// memory.
FlatElement host_element(FlatElement&& element);

/// Calls a function for each element, on the thread that takes the element.
class MapIterator final : public Iterator<FlatElement> {
 public:
  MapIterator(std::unique_ptr<Iterator<FlatElement>> input, ElementFunction fn)
      : input_(std::move(input)), fn_(std::move(fn)) {}
  std::optional<FlatElement> next() override;

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
  ElementFunction fn_;
  std::int64_t index_ = 0;
};

class FilterIterator final : public Iterator<FlatElement> {
 public:
  FilterIterator(std::unique_ptr<Iterator<FlatElement>> input, ElementPredicate predicate)
      : input_(std::move(input)), predicate_(std::move(predicate)) {}
  std::optional<FlatElement> next() override;

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
  ElementPredicate predicate_;
  std::int64_t index_ = 0;
};

/// Calls the user's iterator; not again after its end, and not at all if it cannot be started.
class UserIterator final : public Iterator<FlatElement> {
 public:
  explicit UserIterator(GeneratorIteratorFactory open) : open_(std::move(open)) {}
  std::optional<FlatElement> next() override;

 private:
  GeneratorIteratorFactory open_;
  std::unique_ptr<Iterator<FlatElement>> input_;
  std::int64_t index_ = 0;
  bool has_ended_ = false;
};

}  // namespace lockstep::detail
