#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "input/pipeline/pipeline.hpp"

/// Iterators over several pipelines.
namespace lockstep::detail {

/// @param first, second  the structures of two datasets' elements, as ElementType::text. @throws
/// InvalidArgument  they differ.
void check_structures(const std::string& first, const std::string& second);

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

 private:
  PipelineHandle first_, second_;
  IterationKey key_;
  bool is_checked_;
  bool in_second_ = false;
  std::unique_ptr<Iterator<FlatElement>> input_;
};

/// Takes one element of each pipeline, until one ends.
class ZipIterator final : public Iterator<FlatElement> {
 public:
  explicit ZipIterator(std::vector<std::unique_ptr<Iterator<FlatElement>>> inputs)
      : inputs_(std::move(inputs)) {}
  std::optional<FlatElement> next() override;

 private:
  std::vector<std::unique_ptr<Iterator<FlatElement>>> inputs_;
  bool ended_ = false;
};

}  // namespace lockstep::detail
