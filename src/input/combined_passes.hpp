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

}  // namespace lockstep::detail
