#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "input/pipeline/cache_file.hpp"
#include "input/pipeline/pipeline.hpp"

namespace lockstep::detail {

/// The state that all passes over a file cache share.
struct FileCache {
  std::filesystem::path path;
  IteratorFactory<FlatElement> open_input;
  std::vector<TensorSpec> spec;  // as Pipeline::spec
  StructureStore structure;
  std::vector<std::string> pipeline{};  // as element_texts
  FirstTime warns{};                    // of a pass that leaves no file
};

/// Reads the elements from the file or, if the file does not exist, from the input, and then writes the file.
class FileCacheIterator final : public Iterator<FlatElement> {
 public:
  FileCacheIterator(std::shared_ptr<const FileCache> cache, const IterationKey& key)
      : cache_(std::move(cache)), key_(key) {}
  ~FileCacheIterator() override;
  std::optional<FlatElement> next() override;
  /// A pass that writes the file writes none once it is restored, and reads on.
  void transfer(PassState& state) override;

 private:
  void start();
  void open_file();
  /// Learns the structure of the file's elements: for the first of them, since a state that opens the file
  /// may be refused.
  void load_structure();
  std::optional<FlatElement> replay();
  std::optional<FlatElement> record();
  /// @throws InvalidArgument  the file is of another pipeline: names the first stage that differs.
  void check_pipeline() const;

  std::shared_ptr<const FileCache> cache_;  // owners: the pipeline and its passes
  IterationKey key_;
  bool started_ = false;
  std::optional<CacheFileReader> reader_;  // empty, and no input: the end
  std::optional<std::size_t> num_leaves_;  // of an element in the file; empty: not loaded yet
  std::unique_ptr<Iterator<FlatElement>> input_;
  std::optional<CacheFileWriter> writer_;  // empty: this pass is not kept
  std::int64_t num_written_ = 0;
};

}  // namespace lockstep::detail
