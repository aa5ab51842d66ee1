#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
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
  /// @param what  the call that messages name; a literal.
  MapIterator(std::unique_ptr<Iterator<FlatElement>> input, ElementFunction fn, std::string_view what)
      : input_(std::move(input)), fn_(std::move(fn)), what_(what) {}
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override { state(*input_, index_); }

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
  ElementFunction fn_;
  std::string_view what_;
  std::int64_t index_ = 0;
};

/// Calls a function that keeps a state for each element.
class ScanIterator final : public Iterator<FlatElement> {
 public:
  ScanIterator(std::unique_ptr<Iterator<FlatElement>> input, std::unique_ptr<StatefulFunction> fn)
      : input_(std::move(input)), fn_(std::move(fn)) {}
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override { state(*input_, *fn_, index_); }

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
  std::unique_ptr<StatefulFunction> fn_;
  std::int64_t index_ = 0;
};

class FilterIterator final : public Iterator<FlatElement> {
 public:
  FilterIterator(std::unique_ptr<Iterator<FlatElement>> input, ElementPredicate predicate)
      : input_(std::move(input)), predicate_(std::move(predicate)) {}
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override { state(*input_, index_); }

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
  ElementPredicate predicate_;
  std::int64_t index_ = 0;
};

class TakeWhileIterator final : public Iterator<FlatElement> {
 public:
  TakeWhileIterator(std::unique_ptr<Iterator<FlatElement>> input, ElementPredicate predicate)
      : input_(std::move(input)), predicate_(std::move(predicate)) {}
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override { state(input_, index_); }

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;  // null at the end
  ElementPredicate predicate_;
  std::int64_t index_ = 0;
};

/// Adds a leaf that is another random number for each element.
class SeedIterator final : public Iterator<FlatElement> {
 public:
  SeedIterator(std::unique_ptr<Iterator<FlatElement>> input, std::uint64_t seed)
      : input_(std::move(input)), seed_(seed) {}
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override { state(*input_, index_); }

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
  std::uint64_t seed_;
  std::uint64_t index_ = 0;
};

/// Calls the user's iterator; not again after its end, and not at all if it cannot be started.
class UserIterator final : public Iterator<FlatElement> {
 public:
  explicit UserIterator(GeneratorIteratorFactory open) : open_(std::move(open)) {}
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override {
    state(index_, has_ended_);
    transfer_opened(state, input_, open_);
  }

 private:
  GeneratorIteratorFactory open_;
  std::unique_ptr<Iterator<FlatElement>> input_;
  std::int64_t index_ = 0;
  bool has_ended_ = false;
};

}  // namespace lockstep::detail
