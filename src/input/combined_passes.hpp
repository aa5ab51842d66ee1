#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/detail/pipeline.hpp>

/// Passes over several pipelines.
namespace lockstep::detail {

/// One's elements, then the other's.
class ConcatenatePass final : public Pass<FlatElement> {
 public:
  ConcatenatePass(PipelineHandle first, PipelineHandle second)
      : first_(std::move(first)), second_(std::move(second)), input_(first_->open()) {}
  /// @throws InvalidArgument  elements of different structures.
  std::optional<FlatElement> next() override;

 private:
  PipelineHandle first_, second_;
  bool in_second_ = false;
  std::unique_ptr<Pass<FlatElement>> input_;
};

/// One element of each, until one ends.
class ZipPass final : public Pass<FlatElement> {
 public:
  explicit ZipPass(std::vector<std::unique_ptr<Pass<FlatElement>>> inputs) : inputs_(std::move(inputs)) {}
  std::optional<FlatElement> next() override;

 private:
  std::vector<std::unique_ptr<Pass<FlatElement>>> inputs_;
  bool ended_ = false;
};

/// Blocks of the passes that a function makes of elements, in turn.
class InterleavePass final : public Pass<FlatElement> {
 public:
  /// @param num_threads  how many of the passes in the cycle have a thread that reads them ahead.
  InterleavePass(std::unique_ptr<Pass<FlatElement>> input, PassFunction fn, std::int64_t cycle_length,
                 std::int64_t block_length, std::int64_t num_threads)
      : input_(std::move(input)),
        fn_(std::move(fn)),
        cycle_length_(cycle_length),
        block_length_(block_length),
        num_threads_(num_threads) {}
  std::optional<FlatElement> next() override;

 private:
  void advance() noexcept;
  /// A pass in the current place, unless there are no more.
  void fill();

  std::unique_ptr<Pass<FlatElement>> input_;  // null at its end
  PassFunction fn_;
  std::int64_t index_ = 0;  // of the next element of the input
  std::int64_t cycle_length_, block_length_;
  std::int64_t num_threads_;
  std::vector<std::unique_ptr<Pass<FlatElement>>> cycle_;  // grows as places are first reached
  std::int64_t place_ = 0;                                 // in the cycle
  std::int64_t block_ = 0;                                 // elements taken there in a row
  std::int64_t num_open_ = 0;
};

}  // namespace lockstep::detail
