#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/detail/pipeline.hpp>

/// Passes over the slices of batches.
namespace lockstep::detail {

/// The element without its rows; other extents are kept.
FlatElement empty_like(const FlatElement& element);

/// Each batch of B rows as n slices: ceil(B / n) rows each while they last, then one with the rest, then
/// empty ones. Every component by its own B. Gives n slices for every batch.
class CeilingSplitPass final : public Pass<FlatElement> {
 public:
  CeilingSplitPass(std::unique_ptr<Pass<FlatElement>> batches, std::int64_t num_slices)
      : batches_(std::move(batches)), num_slices_(num_slices) {}
  /// @throws InvalidArgument  a scalar component.
  std::optional<FlatElement> next() override;

 private:
  std::unique_ptr<Pass<FlatElement>> batches_;
  std::int64_t num_slices_;
  std::int64_t slice_ = 0;
  FlatElement batch_;
};

/// All batches as one sequence of rows, cut into slices of the given sizes, over and over. The last slice may
/// be shorter.
class BalancedSplitPass final : public Pass<FlatElement> {
 public:
  /// @param sizes  not all 0.
  BalancedSplitPass(std::unique_ptr<Pass<FlatElement>> batches, std::vector<std::int64_t> sizes)
      : batches_(std::move(batches)), sizes_(std::move(sizes)) {}
  /// @throws InvalidArgument  a scalar component; components of one batch with different numbers of rows.
  std::optional<FlatElement> next() override;

 private:
  /// Makes `batch_` one with rows left. @return false at the end.
  bool fetch();

  std::unique_ptr<Pass<FlatElement>> batches_;
  std::vector<std::int64_t> sizes_;
  std::size_t slice_ = 0;  // position in sizes_
  FlatElement batch_;
  std::int64_t next_row_ = 0;
  std::int64_t num_rows_ = 0;
  bool ended_ = false;
};

}  // namespace lockstep::detail
