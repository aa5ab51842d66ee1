#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/pipeline/pipeline.hpp"
#include "input/pipeline/stopping.hpp"
#include "input/state/pipeline_state.hpp"

/// Iterators that reorder, repeat and leave out values; the same for elements and for row numbers.
namespace lockstep::detail {

/// Iterates over 0, 1, … below a count.
class CountIterator final : public Iterator<std::int64_t> {
 public:
  explicit CountIterator(std::int64_t count) : count_(count) {}

  std::optional<std::int64_t> next() override {
    check_stop();
    return next_ < count_ ? std::optional(next_++) : std::nullopt;
  }
  void transfer(PassState& state) override { state(next_); }

 private:
  std::int64_t count_;
  std::int64_t next_ = 0;
};

template <class T>
class ShuffleIterator final : public Iterator<T> {
 public:
  ShuffleIterator(std::unique_ptr<Iterator<T>> input, std::int64_t buffer_size, const std::mt19937_64& random)
      : input_(std::move(input)), buffer_size_(static_cast<std::size_t>(buffer_size)), random_(random) {}

  std::optional<T> next() override {
    while (input_ && buffer_.size() < buffer_size_) {
      if (std::optional<T> value = input_->next())
        buffer_.push_back(std::move(*value));
      else
        input_.reset();
    }
    if (buffer_.empty()) return std::nullopt;
    // The remainder is used instead of a standard distribution, so that the order is the same with every
    // standard library.
    std::swap(buffer_[random_() % buffer_.size()], buffer_.back());
    T value = std::move(buffer_.back());
    buffer_.pop_back();
    return value;
  }
  void transfer(PassState& state) override { state(input_, random_, buffer_); }

 private:
  std::unique_ptr<Iterator<T>> input_;  // null at its end
  std::size_t buffer_size_;
  std::mt19937_64 random_;
  std::vector<T> buffer_;
};

template <class T>
class RepeatIterator final : public Iterator<T> {
 public:
  /// @param key, position  for the keys of the input's passes.
  RepeatIterator(IteratorFactory<T> open, const IterationKey& key, int position, std::int64_t count)
      : open_(std::move(open)), key_(key), position_(position), num_left_(count) {}

  std::optional<T> next() override {
    while (num_left_ != 0) {
      const bool starts = input_ == nullptr;
      if (starts) input_ = open_(key_.repetition(position_, num_opened_++));
      if (std::optional<T> value = input_->next()) return value;
      end_pass(starts);
    }
    return std::nullopt;
  }
  std::optional<RowBlock> next_rows(std::int64_t most) override {
    if (!input_) return std::nullopt;  // `next` finds whether the next pass has values
    std::optional<RowBlock> rows = input_->next_rows(most);
    if (!rows || rows->num_rows > 0) return rows;
    end_pass(false);
    return std::nullopt;
  }
  void transfer(PassState& state) override {
    state(num_left_, num_opened_);
    transfer_opened(state, input_, [this] { return open_(key_.repetition(position_, num_opened_ - 1)); });
  }

 private:
  /// @param starts  whether it has given no value.
  void end_pass(bool starts) {
    input_.reset();
    if (starts)
      num_left_ = 0;  // the input is empty, so repeating it is useless
    else if (num_left_ != kForever)
      --num_left_;
  }

  IteratorFactory<T> open_;
  IterationKey key_;
  int position_;
  std::int64_t num_left_;
  std::int64_t num_opened_ = 0;
  std::unique_ptr<Iterator<T>> input_;
};

template <class T>
class TakeIterator final : public Iterator<T> {
 public:
  TakeIterator(std::unique_ptr<Iterator<T>> input, std::int64_t count)
      : input_(std::move(input)), num_left_(count) {}

  std::optional<T> next() override {
    if (num_left_ == 0) return std::nullopt;
    --num_left_;
    return input_->next();
  }
  std::optional<RowBlock> next_rows(std::int64_t most) override {
    if (num_left_ == 0) return RowBlock{};
    --num_left_;  // counts also if the element throws
    std::optional<RowBlock> rows = input_->next_rows(std::min(most, num_left_ + 1));
    num_left_ += 1 - (rows ? rows->num_rows : 0);
    return rows;
  }
  void transfer(PassState& state) override { state(*input_, num_left_); }

 private:
  std::unique_ptr<Iterator<T>> input_;
  std::int64_t num_left_;
};

template <class T>
class SkipIterator final : public Iterator<T> {
 public:
  SkipIterator(std::unique_ptr<Iterator<T>> input, std::int64_t count)
      : input_(std::move(input)), num_left_(count) {}

  std::optional<T> next() override {
    skip();
    return input_->next();
  }
  std::optional<RowBlock> next_rows(std::int64_t most) override {
    skip();
    return input_->next_rows(most);
  }
  void transfer(PassState& state) override { state(*input_, num_left_); }

 private:
  void skip() {
    while (num_left_ > 0) {
      --num_left_;                         // counts also if the element throws
      if (!input_->next()) num_left_ = 0;  // the end, now and for all later calls
    }
  }

  std::unique_ptr<Iterator<T>> input_;
  std::int64_t num_left_;
};

/// Iterates over values index, index + num_shards, … A value that throws counts too.
template <class T>
class ShardIterator final : public Iterator<T> {
 public:
  /// @param needs_all  whether a shard with values fails if there are fewer values than shards.
  ShardIterator(std::unique_ptr<Iterator<T>> input, std::int64_t num_shards, std::int64_t index,
                bool needs_all)
      : input_(std::move(input)),
        num_shards_(num_shards),
        index_(index),
        num_needed_(needs_all ? num_shards : 0) {}

  std::optional<T> next() override {
    if (!own_) {
      while (shard_ != index_)
        if (!take()) return std::nullopt;
      own_ = take();
      if (!own_) return std::nullopt;
    }
    while (num_needed_ > 0) {
      if (take()) continue;
      num_needed_ = 0;
      own_.reset();
      raise<InvalidArgument>(
          {__FILE__, __LINE__, __func__},
          concat("auto_shard: the dataset has fewer than ", num_shards_, " elements, so some of the ",
                 num_shards_, " input pipelines have none. Use fewer, or AutoShardPolicy::off."));
    }
    return std::exchange(own_, std::nullopt);
  }
  void transfer(PassState& state) override {
    state(*input_, shard_, num_needed_, own_);
    if (shard_ < 0 || shard_ >= num_shards_) state.fail("there is no such shard");
  }

 private:
  /// Takes the input's next value, which counts even if it throws.
  std::optional<T> take() {
    shard_ = (shard_ + 1) % num_shards_;
    if (num_needed_ > 0) --num_needed_;
    return input_->next();
  }

  std::unique_ptr<Iterator<T>> input_;
  std::int64_t num_shards_, index_;
  std::int64_t shard_ = 0;   // shard of the input's next value
  std::int64_t num_needed_;  // number of values until every shard has one
  std::optional<T> own_;     // taken before every shard had one
};

/// A shard whose hint has not been filled in.
template <class T>
class UnknownShardIterator final : public Iterator<T> {
 public:
  std::optional<T> next() override {
    raise<ContextError>({__FILE__, __LINE__, __func__},
                        "Dataset::shard(shard_hint, shard_hint): the shard is not known yet. Pass "
                        "AutoShardPolicy::hint to auto_shard or distribute_dataset.");
  }
  void transfer(PassState&) override {}
};

}  // namespace lockstep::detail
