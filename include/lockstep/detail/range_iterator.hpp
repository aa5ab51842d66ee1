#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#pragma GCC visibility push(default)

namespace lockstep::detail {

/// Adapts an iterator with next_optional() to range-for: an input iterator that ends at
/// std::default_sentinel. Move only.
template <class Iterator>
class RangeIterator {
 public:
  using value_type = typename Iterator::value_type;
  using difference_type = std::ptrdiff_t;

  RangeIterator(Iterator iterator) : iterator_(std::move(iterator)), value_(iterator_.next_optional()) {}
  const value_type& operator*() const { return *value_; }
  const value_type* operator->() const { return &*value_; }
  RangeIterator& operator++() {
    value_ = iterator_.next_optional();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const RangeIterator& iterator, std::default_sentinel_t) { return !iterator.value_; }

 private:
  Iterator iterator_;
  std::optional<value_type> value_;
};

}  // namespace lockstep::detail

#pragma GCC visibility pop
