#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "input/pipeline/pipeline.hpp"

/// Iterators over several pipelines.
namespace lockstep::detail {

/// @param what  the call that messages name. @param first, second  the structures of two datasets' elements,
/// as ElementType::text. @throws InvalidArgument  they differ.
void check_structures(std::string_view what, const std::string& first, const std::string& second);

/// Iterates over the first pipeline's elements, then over the second's.
class ConcatenateIterator final : public Iterator<FlatElement> {
 public:
  /// @param is_checked  whether the elements are known to have the same structure.
  ConcatenateIterator(PipelineHandle first, PipelineHandle second, const IterationKey& key, bool is_checked)
      : first_(std::move(first)),
        second_(std::move(second)),
        key_(key),
        is_checked_(is_checked),
        input_(first_->open(key)) {}
  /// @throws InvalidArgument  elements of different structures.
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override;

 private:
  PipelineHandle first_, second_;
  IterationKey key_;
  bool is_checked_;
  bool in_second_ = false;
  std::unique_ptr<Iterator<FlatElement>> input_;
};

/// Takes each element from the pipeline that another iterator chooses.
class ChooseIterator final : public Iterator<FlatElement> {
 public:
  /// @param what  the call that messages name; a literal. @param passes  one of each pipeline.
  /// @param choices  indices of pipelines.
  ChooseIterator(std::string_view what, std::vector<PipelineHandle> pipelines,
                 std::vector<std::unique_ptr<Iterator<FlatElement>>> passes,
                 std::unique_ptr<Iterator<std::int64_t>> choices, bool stop_on_empty)
      : what_(what),
        pipelines_(std::move(pipelines)),
        passes_(std::move(passes)),
        is_checked_(passes_.size()),
        num_open_(passes_.size()),
        choices_(std::move(choices)),
        stop_on_empty_(stop_on_empty) {}
  /// @throws InvalidArgument  a choice is no index of a pipeline; elements of different structures.
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override;

 private:
  /// Compares the pipeline's structure, of which there is an element now, with those that are known.
  void check_structure(std::size_t choice);

  /// The end of the pass.
  void end() noexcept;

  std::string_view what_;
  std::vector<PipelineHandle> pipelines_;
  std::vector<std::unique_ptr<Iterator<FlatElement>>> passes_;  // null where one has ended
  std::vector<bool> is_checked_;
  std::size_t num_open_;
  std::unique_ptr<Iterator<std::int64_t>> choices_;
  bool stop_on_empty_;
};

/// Draws indices at random.
class RandomChoiceIterator final : public Iterator<std::int64_t> {
 public:
  /// @param weights  of the indices, as a running sum.
  RandomChoiceIterator(std::shared_ptr<const std::vector<double>> weights, const std::mt19937_64& random)
      : weights_(std::move(weights)), random_(random) {}
  std::optional<std::int64_t> next() override;
  void transfer(PassState& state) override;

 private:
  std::shared_ptr<const std::vector<double>> weights_;  // owners: the pipeline's passes
  std::mt19937_64 random_;
};

/// The values of integer scalars.
class IndexIterator final : public Iterator<std::int64_t> {
 public:
  explicit IndexIterator(std::unique_ptr<Iterator<FlatElement>> input) : input_(std::move(input)) {}
  /// @throws InvalidArgument  an element is no integer scalar.
  std::optional<std::int64_t> next() override;
  void transfer(PassState& state) override { state(*input_); }

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
};

/// Takes one element of each pipeline, until one ends.
class ZipIterator final : public Iterator<FlatElement> {
 public:
  explicit ZipIterator(std::vector<std::unique_ptr<Iterator<FlatElement>>> inputs)
      : inputs_(std::move(inputs)) {}
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override {
    for (auto& input : inputs_) state(*input);
    state(ended_);
  }

 private:
  std::vector<std::unique_ptr<Iterator<FlatElement>>> inputs_;
  bool ended_ = false;
};

}  // namespace lockstep::detail
