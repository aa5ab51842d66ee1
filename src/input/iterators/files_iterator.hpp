#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "input/pipeline/pipeline.hpp"

namespace lockstep::detail {

using FilePaths = std::shared_ptr<const std::vector<std::filesystem::path>>;  // owners: pipelines and passes

/// The elements of files, one file after the other.
class FilesIterator final : public Iterator<FlatElement> {
 public:
  FilesIterator(FilePaths paths, FileIteratorFactory open)
      : paths_(std::move(paths)), open_(std::move(open)) {}
  /// Rethrows exceptions of the reader with path and index.
  std::optional<FlatElement> next() override;
  std::optional<RowBlock> next_rows(std::int64_t most) override;
  void transfer(PassState& state) override;

 private:
  /// What take() returns for the current file, or for one of the next as long as `has_ended` is true of it.
  template <class Take, class Ended>
  auto from_file(const Take& take, const Ended& has_ended) -> decltype(take());

  FilePaths paths_;
  FileIteratorFactory open_;
  std::size_t file_ = 0;
  std::unique_ptr<Iterator<FlatElement>> input_;  // of the current file
  std::int64_t index_ = 0;                        // of the next element
};

}  // namespace lockstep::detail
