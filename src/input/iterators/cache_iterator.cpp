#include "input/iterators/cache_iterator.hpp"

#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "detail/warn.hpp"
#include "input/pipeline/stopping.hpp"
#include "input/pipeline/transform.hpp"

namespace lockstep::detail {
namespace {

FlatElement clone(const FlatElement& element) {
  FlatElement copy;
  copy.reserve(element.size());
  for (const Tensor& leaf : element) copy.push_back(leaf.clone());
  return copy;
}

}  // namespace

std::optional<FlatElement> ReplayIterator::next() {
  check_stop();
  return next_ < elements_->size() ? std::optional(clone((*elements_)[next_++])) : std::nullopt;
}

RecordIterator::~RecordIterator() {
  if (elements_ && !elements_->empty() && cache_->warns())
    warn(concat("Dataset::cache: a pass was dropped after ", elements_->size(),
                " elements, before it came to its end, so they are not kept. Let a pass come to its end, or "
                "call take before cache."));
}

std::optional<FlatElement> RecordIterator::next() {
  try {
    std::optional<FlatElement> element = input_->next();
    if (elements_ && element) elements_->push_back(clone(*element));
    if (elements_ && !element) cache_->set(std::move(elements_));
    return element;
  } catch (const Stopped&) {
    throw;  // dropped
  } catch (...) {
    elements_.reset();
    throw;
  }
}

PipelineHandle cached(const PipelineHandle& input) {
  Pipeline result = *input;
  auto cache = std::make_shared<ElementCache>();
  result.elements = IteratorFactory<FlatElement>(
      [input, cache](const IterationKey& key) -> std::unique_ptr<Iterator<FlatElement>> {
        if (CachedElements elements = cache->get())
          return std::make_unique<ReplayIterator>(std::move(elements));
        return std::make_unique<RecordIterator>(input->open(key), cache);
      });
  return with_shards(std::move(result), input, cached);
}

}  // namespace lockstep::detail
