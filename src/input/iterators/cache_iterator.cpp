#include "input/iterators/cache_iterator.hpp"

#include <new>

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

CacheIterator::CacheIterator(std::shared_ptr<ElementCache> cache,
                             std::function<std::unique_ptr<Iterator<FlatElement>>()> open)
    : cache_(std::move(cache)), open_(std::move(open)), replayed_(cache_->get()) {
  if (replayed_) return;
  input_ = open_();
  recorded_ = std::make_shared<std::vector<FlatElement>>();
}

CacheIterator::~CacheIterator() {
  if (!has_recorded_ || !recorded_ || recorded_->empty() || !cache_->warns()) return;
  try {
    warn(concat("Dataset::cache: a pass was dropped after ", recorded_->size(),
                " elements, before it came to its end, so they are not kept. Let a pass come to its end, or "
                "call take before cache."));
  } catch (const std::bad_alloc&) {  // there is no memory for the message
  }
}

std::optional<FlatElement> CacheIterator::next() { return replayed_ ? replay() : record(); }

std::optional<FlatElement> CacheIterator::replay() {
  check_stop();
  return next_ < replayed_->size() ? std::optional(clone((*replayed_)[next_++])) : std::nullopt;
}

std::optional<FlatElement> CacheIterator::record() {
  try {
    std::optional<FlatElement> element = input_->next();
    has_recorded_ = true;
    if (recorded_ && element) recorded_->push_back(clone(*element));
    if (recorded_ && !element) cache_->set(std::move(recorded_));
    return element;
  } catch (const Stopped&) {
    throw;  // dropped
  } catch (...) {
    recorded_.reset();
    throw;
  }
}

void CacheIterator::transfer(PassState& state) {
  if (state.flag(replayed_ != nullptr)) {
    auto elements = std::make_shared<std::vector<FlatElement>>();
    if (replayed_ && state.is_saving()) *elements = *replayed_;
    state(*elements, next_);
    if (state.is_saving()) return;
    replayed_ = elements;
    state.when_restored(
        [cache = cache_, elements = CachedElements(std::move(elements))] { cache->set(elements); });
    input_.reset();
    recorded_.reset();
    return;
  }
  replayed_.reset();
  transfer_opened(state, input_, open_);
  if (!input_) state.fail("a pass to be cached has no input");
  if (!state.flag(recorded_ != nullptr)) {
    recorded_.reset();
    return;
  }
  if (!recorded_) recorded_ = std::make_shared<std::vector<FlatElement>>();
  state(*recorded_);
}

PipelineHandle cached(const PipelineHandle& input) {
  Pipeline result = *input;
  auto cache = std::make_shared<ElementCache>();
  result.elements = IteratorFactory<FlatElement>([input, cache](const IterationKey& key) {
    return std::make_unique<CacheIterator>(cache, [input, key] { return input->open(key); });
  });
  add_stage(result, "cache");
  return with_shards(std::move(result), input, cached);
}

}  // namespace lockstep::detail
