#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/detail/mutex.hpp>

#include "input/pipeline/pipeline.hpp"

namespace lockstep::detail {

using CachedElements = std::shared_ptr<const std::vector<FlatElement>>;  // owners: the cache and its passes

/// The elements of a whole pass, once a pass has been read to its end. Thread-safe.
class ElementCache {
 public:
  /// Null: there are none yet.
  CachedElements get() const {
    const std::scoped_lock lock(mutex_);
    return elements_;
  }
  /// Whether to warn that elements are not kept; true once, while there are none.
  bool warns() const { return !get() && first_loss_(); }
  void set(CachedElements elements) {
    const std::scoped_lock lock(mutex_);
    if (!elements_) elements_ = std::move(elements);
  }

 private:
  mutable LeafMutex mutex_;  // guards elements_
  CachedElements elements_;
  FirstTime first_loss_;
};

/// Iterates over copies of the cached elements; if there are none yet, passes the input's elements on, and
/// fills the cache at the end, unless an element threw.
class CacheIterator final : public Iterator<FlatElement> {
 public:
  /// @param open  opens the input.
  CacheIterator(std::shared_ptr<ElementCache> cache,
                std::function<std::unique_ptr<Iterator<FlatElement>>()> open);
  ~CacheIterator() override;
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override;

 private:
  std::optional<FlatElement> replay();
  std::optional<FlatElement> record();

  std::shared_ptr<ElementCache> cache_;  // owners: the pipeline and its passes
  std::function<std::unique_ptr<Iterator<FlatElement>>()> open_;
  CachedElements replayed_;  // null: records
  std::size_t next_ = 0;     // in replayed_
  std::unique_ptr<Iterator<FlatElement>> input_;
  std::shared_ptr<std::vector<FlatElement>> recorded_;  // null: the elements are not kept
  bool has_recorded_ = false;                           // false: all of recorded_ comes from a state
};

}  // namespace lockstep::detail
