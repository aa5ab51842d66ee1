#pragma once

#include <cstddef>
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

/// Iterates over copies of the cached elements.
class ReplayIterator final : public Iterator<FlatElement> {
 public:
  explicit ReplayIterator(CachedElements elements) : elements_(std::move(elements)) {}
  std::optional<FlatElement> next() override;

 private:
  CachedElements elements_;
  std::size_t next_ = 0;
};

/// Passes the input's elements on; fills the cache at the end, unless an element threw.
class RecordIterator final : public Iterator<FlatElement> {
 public:
  RecordIterator(std::unique_ptr<Iterator<FlatElement>> input, std::shared_ptr<ElementCache> cache)
      : input_(std::move(input)),
        cache_(std::move(cache)),
        elements_(std::make_shared<std::vector<FlatElement>>()) {}
  ~RecordIterator() override;
  std::optional<FlatElement> next() override;

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
  std::shared_ptr<ElementCache> cache_;                 // owners: the pipeline and its passes
  std::shared_ptr<std::vector<FlatElement>> elements_;  // null: the elements are not kept
};

}  // namespace lockstep::detail
