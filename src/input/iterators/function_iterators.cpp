#include "input/iterators/function_iterators.hpp"

#include "input/rows/host_rows.hpp"

namespace lockstep::detail {

FlatElement host_element(FlatElement&& element) {
  for (Tensor& leaf : element) {
    leaf = on_host(leaf);
    if (leaf.is_shared() || leaf.is_borrowed()) leaf = leaf.clone();
  }
  return std::move(element);
}

std::optional<FlatElement> MapIterator::next() {
  const std::int64_t index = index_++;
  std::optional<FlatElement> element = input_->next();
  if (!element) return std::nullopt;
  return call_for_element(what_, index, [&] { return host_element(fn_(std::move(*element))); });
}

std::optional<FlatElement> ScanIterator::next() {
  const std::int64_t index = index_++;
  std::optional<FlatElement> element = input_->next();
  if (!element) return std::nullopt;
  return call_for_element("Dataset::scan", index,
                          [&] { return host_element(fn_->call(std::move(*element))); });
}

std::optional<FlatElement> FilterIterator::next() {
  for (;;) {
    const std::int64_t index = index_++;
    std::optional<FlatElement> element = input_->next();
    if (!element || call_for_element("Dataset::filter", index, [&] { return predicate_(*element); }))
      return element;
  }
}

std::optional<FlatElement> TakeWhileIterator::next() {
  if (!input_) return std::nullopt;
  const std::int64_t index = index_++;
  std::optional<FlatElement> element = input_->next();
  if (element && call_for_element("Dataset::take_while", index, [&] { return predicate_(*element); }))
    return element;
  input_.reset();
  return std::nullopt;
}

std::optional<FlatElement> SeedIterator::next() {
  const std::uint64_t index = index_++;  // counts also if the element throws
  std::optional<FlatElement> element = input_->next();
  if (element) element->push_back(Tensor::scalar(mix(seed_, index), input_device()));
  return element;
}

std::optional<FlatElement> UserIterator::next() {
  if (has_ended_) return std::nullopt;
  auto element = call_for_element("Dataset::from_generator", index_++, [&]() -> std::optional<FlatElement> {
    if (!input_) {
      has_ended_ = true;  // set before the call, which may throw
      input_ = open_();
      has_ended_ = false;
    }
    std::optional<FlatElement> next = input_->next();
    if (next) next = host_element(std::move(*next));
    return next;
  });
  if (!element) has_ended_ = true;
  return element;
}

}  // namespace lockstep::detail
