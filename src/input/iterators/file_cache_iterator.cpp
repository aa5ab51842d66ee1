#include "input/iterators/file_cache_iterator.hpp"

#include "detail/expects.hpp"
#include "input/iterators/function_iterators.hpp"
#include "input/pipeline/transform.hpp"

namespace lockstep::detail {
namespace {

constexpr std::string_view kWhat = "Dataset::cache";
constexpr std::string_view kRemedy = "Delete the file to make it again from the dataset.";

}  // namespace

void FileCacheIterator::start() {
  started_ = true;
  std::error_code ignored;
  if (!std::filesystem::exists(cache_->path, ignored)) {
    const std::filesystem::path directory = cache_->path.parent_path();
    remove_abandoned_files(directory.empty() ? "." : directory);
    writer_.emplace(cache_->path);
    input_ = cache_->open_input(key_);
    return;
  }
  open_file();
}

void FileCacheIterator::open_file() {
  try {
    with_file_faults(kWhat, cache_->path, kRemedy, [&] {
      reader_.emplace(cache_->path);
      if (reader_->num_elements() == 0) return;
      const auto num_leaves = cache_->structure.load(reader_->structure(), reader_->size_bytes());
      if (!num_leaves) reader_->fail("the elements in it have other lengths or keys than the dataset's type");
      num_leaves_ = *num_leaves;
    });
  } catch (...) {
    reader_.reset();
    throw;
  }
}

std::optional<FlatElement> FileCacheIterator::replay() {
  try {
    return with_file_faults(kWhat, cache_->path, kRemedy,
                            [&] { return reader_->next(num_leaves_, cache_->spec); });
  } catch (...) {
    reader_.reset();
    throw;
  }
}

std::optional<FlatElement> FileCacheIterator::record() {
  try {
    std::optional<FlatElement> element = input_->next();
    if (element) *element = host_element(std::move(*element));
    if (writer_ && element) writer_->write(*element, cache_->structure.save);
    if (writer_ && !element) writer_->commit();
    if (!element) writer_.reset();
    return element;
  } catch (...) {
    writer_.reset();
    throw;
  }
}

void FileCacheIterator::transfer(PassState& state) {
  state(started_);
  if (state.flag(reader_.has_value())) {
    if (!reader_) open_file();
    state(*reader_);
  } else {
    transfer_opened(state, input_, [&] { return cache_->open_input(key_); });
  }
}

std::optional<FlatElement> FileCacheIterator::next() {
  check_stop();
  if (!started_) start();
  if (reader_) return replay();
  return input_ ? record() : std::nullopt;
}

PipelineHandle cached_in_file(const PipelineHandle& input, const std::filesystem::path& path,
                              PartIteratorFactory open, ElementType type, StructureStore structure) {
  LOCKSTEP_EXPECTS(!path.empty(), InvalidArgument, kWhat, ": the path is empty. Name a file.");
  // Each share has a file of its own.
  const auto share = [&](const Resharding& reshard) -> Resharding {
    if (!reshard) return nullptr;
    return [=](std::int64_t num_shards, std::int64_t index) {
      std::filesystem::path shared = path;
      if (num_shards > 1) shared += concat(".", index, "-of-", num_shards);
      return cached_in_file(reshard(num_shards, index), shared, open, type, structure);
    };
  };
  Pipeline result = *input;
  add_stage(result, "cache in a file");
  set_type(result, type);
  result.spec = input->spec;
  result.shard_files = share(input->shard_files);
  result.fill_hints = share(input->fill_hints);
  auto cache = std::make_shared<const FileCache>(FileCache{
      path, [input, open](const IterationKey& key) { return open(input, key); }, input->spec, structure});
  result.elements = IteratorFactory<FlatElement>(
      [cache](const IterationKey& key) { return std::make_unique<FileCacheIterator>(cache, key); });
  return std::make_shared<const Pipeline>(std::move(result));
}

}  // namespace lockstep::detail
