#include "input/iterators/file_cache_iterator.hpp"

#include <algorithm>
#include <new>

#include "detail/expects.hpp"
#include "detail/in_quotes.hpp"
#include "detail/warn.hpp"
#include "input/iterators/function_iterators.hpp"
#include "input/pipeline/transform.hpp"
#include "input/state/pipeline_state.hpp"

namespace lockstep::detail {
namespace {

constexpr std::string_view kWhat = "Dataset::cache";
constexpr std::string_view kRemedy = "Delete the file to make it again from the dataset.";

}  // namespace

void FileCacheIterator::start() {
  started_ = true;
  std::error_code error;
  if (std::filesystem::status(cache_->path, error).type() == std::filesystem::file_type::not_found) {
    const std::filesystem::path directory = cache_->path.parent_path();
    remove_abandoned_files(directory.empty() ? "." : directory);
    writer_.emplace(cache_->path, cache_->pipeline);
    input_ = cache_->open_input(key_);
    return;
  }
  open_file();
}

FileCacheIterator::~FileCacheIterator() {
  if (!writer_ || num_written_ == 0 || !cache_->warns()) return;
  try {
    warn(concat(
        kWhat, ": ", cache_->path, ": a pass was dropped after ", num_written_,
        " elements, before it came to its end, so there is no file. Let a pass come to its end, or call "
        "take before cache."));
  } catch (const std::bad_alloc&) {  // there is no memory for the message
  }
}

void FileCacheIterator::check_pipeline() const {
  const auto text = [](const std::vector<std::string>& all, std::size_t i) {
    return i < all.size() ? in_quotes(all[i]) : std::string("none");
  };
  const std::vector<std::string>& own = cache_->pipeline;
  const std::vector<std::string>& found = reader_->pipeline();
  for (std::size_t i = 0; i < std::max(own.size(), found.size()); ++i)
    LOCKSTEP_EXPECTS(text(own, i) == text(found, i), InvalidArgument, kWhat, ": ", cache_->path,
                     " has the elements of another dataset, whose call ", i + 1, " is ", text(found, i),
                     ", but of this one ", text(own, i), ". ", kRemedy);
}

void FileCacheIterator::open_file() {
  try {
    with_file_faults(kWhat, cache_->path, kRemedy, [&] {
      reader_.emplace(cache_->path);
      check_pipeline();
    });
  } catch (...) {
    reader_.reset();
    throw;
  }
}

void FileCacheIterator::load_structure() {
  num_leaves_ = cache_->structure.load(reader_->structure(), reader_->size_bytes());
  if (!num_leaves_) reader_->fail("the elements in it have other lengths or keys than the dataset's type");
}

std::optional<FlatElement> FileCacheIterator::replay() {
  try {
    return with_file_faults(kWhat, cache_->path, kRemedy, [&] {
      if (!num_leaves_ && reader_->num_elements() > 0) load_structure();
      return reader_->next(num_leaves_.value_or(0), cache_->spec);
    });
  } catch (...) {
    reader_.reset();
    throw;
  }
}

std::optional<FlatElement> FileCacheIterator::record() {
  try {
    std::optional<FlatElement> element = input_->next();
    if (element) *element = host_element(std::move(*element));
    if (writer_ && element) {
      writer_->write(*element, cache_->structure.save);
      ++num_written_;
    }
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
  auto cache = std::make_shared<const FileCache>(
      FileCache{path, [input, open](const IterationKey& key) { return open(input, key); }, input->spec,
                structure, element_texts(*input->stage)});
  result.elements = IteratorFactory<FlatElement>(
      [cache](const IterationKey& key) { return std::make_unique<FileCacheIterator>(cache, key); });
  return std::make_shared<const Pipeline>(std::move(result));
}

}  // namespace lockstep::detail
