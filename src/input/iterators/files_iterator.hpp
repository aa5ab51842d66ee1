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
  /// @param shuffle_buffer  of the largest `shuffle` of the elements; 0: there is none.
  FilesIterator(FilePaths paths, FileIteratorFactory open, std::int64_t shuffle_buffer = 0,
                std::shared_ptr<const FirstTime> warns = nullptr)
      : paths_(std::move(paths)),
        open_(std::move(open)),
        shuffle_buffer_(paths_->size() > 1 ? shuffle_buffer : 0),
        warns_(std::move(warns)) {}
  /// Rethrows exceptions of the reader with path and index.
  std::optional<FlatElement> next() override;
  std::optional<RowBlock> next_rows(std::int64_t most) override;
  void transfer(PassState& state) override;

 private:
  /// What take() returns for the current file, or for one of the next as long as `has_ended` is true of it.
  template <class Take, class Ended>
  auto from_file(const Take& take, const Ended& has_ended) -> decltype(take());
  /// The current file has given elements.
  void count_in_file(std::int64_t num_elements);

  FilePaths paths_;
  FileIteratorFactory open_;
  std::size_t file_ = 0;
  std::unique_ptr<Iterator<FlatElement>> input_;  // of the current file
  std::int64_t index_ = 0;                        // of the next element
  std::int64_t shuffle_buffer_;                   // 0: not to be compared with files
  std::int64_t num_in_file_ = 0;                  // elements of the current file since this was made
  std::shared_ptr<const FirstTime> warns_;        // owners: the pipeline and its passes
};

}  // namespace lockstep::detail
