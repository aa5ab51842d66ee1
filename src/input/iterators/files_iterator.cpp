#include "input/iterators/files_iterator.hpp"

#include <string>
#include <utility>

#include <lockstep/error.hpp>
#include <lockstep/input/bad_record.hpp>

#include "detail/expects.hpp"
#include "detail/warn.hpp"
#include "input/iterators/function_iterators.hpp"
#include "input/pipeline/element_error.hpp"
#include "input/pipeline/transform.hpp"

namespace lockstep::detail {
namespace {

/// The pass of a worker if there are too few files: it throws once, and then ends.
class TooFewFilesIterator final : public Iterator<FlatElement> {
 public:
  TooFewFilesIterator(std::size_t num_files, std::int64_t num_shards)
      : num_files_(num_files), num_shards_(num_shards) {}

  std::optional<FlatElement> next() override {
    if (std::exchange(has_thrown_, true)) return std::nullopt;
    raise<CallError>(
        {__FILE__, __LINE__, __func__},
        concat("auto_shard: ", num_files_, " files for ", num_shards_,
               " input pipelines, so some have none. Use fewer, more files, or AutoShardPolicy::data."));
  }
  void transfer(PassState& state) override { state(has_thrown_); }

 private:
  std::size_t num_files_;
  std::int64_t num_shards_;
  bool has_thrown_ = false;
};

/// The files' names and their order count; their folders may be others.
std::string text_of(const std::vector<std::filesystem::path>& paths) {
  std::uint64_t names = 0;
  for (const std::filesystem::path& path : paths)
    for (const char c : path.filename().native() + '/') names = mix(names, static_cast<unsigned char>(c));
  return concat("from_files(", paths.size(), " files, whose names' hash is ", names, ")");
}

PipelineHandle pipeline_of(FilePaths paths, FileIteratorFactory open, ElementType type) {
  Pipeline result{
      IteratorFactory<FlatElement>([=, warns = std::make_shared<const FirstTime>()](const IterationKey& key) {
        return std::make_unique<FilesIterator>(paths, open, key.shuffle_buffer(), warns);
      }),
      {},
      std::nullopt,
      {}};
  result.stage = std::make_shared<Stage>(Stage{text_of(*paths)});
  set_type(result, type);
  result.shard_files = [=](std::int64_t num_shards, std::int64_t index) {
    const auto num_files = static_cast<std::int64_t>(paths->size());
    auto shard = std::make_shared<std::vector<std::filesystem::path>>();
    for (std::int64_t i = index; i < num_files; i += num_shards)
      shard->push_back((*paths)[static_cast<std::size_t>(i)]);
    PipelineHandle reads = counted_as_shard(pipeline_of(std::move(shard), open, type), num_shards, index);
    if (index >= num_files || num_files >= num_shards) return reads;
    Pipeline fails = *reads;
    fails.elements = IteratorFactory<FlatElement>([=](const IterationKey&) {
      return std::make_unique<TooFewFilesIterator>(paths->size(), num_shards);
    });
    return std::make_shared<const Pipeline>(std::move(fails));
  };
  return std::make_shared<const Pipeline>(std::move(result));
}

}  // namespace

template <class Take, class Ended>
auto FilesIterator::from_file(const Take& take, const Ended& has_ended) -> decltype(take()) {
  const std::int64_t index = index_++;
  for (; file_ < paths_->size(); ++file_) {
    check_stop();
    try {
      if (!input_) input_ = open_((*paths_)[file_]);
      if (auto taken = take(); !has_ended(taken)) return taken;
      input_.reset();
      num_in_file_ = 0;
    } catch (const Stopped&) {
      throw;
    } catch (const readers::BadRecord&) {
      const std::string path = concat((*paths_)[file_]);
      if (!input_) ++file_;  // thrown while the file was opened
      raise_at_element("Dataset::from_files", index, path);
    } catch (...) {
      input_.reset();
      num_in_file_ = 0;
      raise_at_element("Dataset::from_files", index, concat((*paths_)[file_++]));
    }
  }
  return {};
}

std::optional<FlatElement> FilesIterator::next() {
  return from_file(
      [this] {
        std::optional<FlatElement> element = input_->next();
        if (element && !input_->owns_memory()) element = host_element(std::move(*element));
        count_in_file(element ? 1 : 0);
        return element;
      },
      [](const auto& element) { return !element; });
}

std::optional<RowBlock> FilesIterator::next_rows(std::int64_t most) {
  const auto take = [&] {
    std::optional<RowBlock> rows = input_->next_rows(most);
    count_in_file(rows ? rows->num_rows : 0);
    return rows;
  };
  std::optional<RowBlock> rows =
      from_file(take, [](const auto& taken) { return taken && taken->num_rows == 0; });
  if (!rows && file_ == paths_->size()) rows.emplace();
  index_ += rows ? rows->num_rows - 1 : -1;
  return rows;
}

void FilesIterator::count_in_file(std::int64_t num_elements) {
  num_in_file_ += num_elements;
  if (shuffle_buffer_ == 0 || num_in_file_ <= shuffle_buffer_) return;
  if (warns_ && (*warns_)())
    warn(concat(
        "Dataset::shuffle: the buffer spans ", shuffle_buffer_, " elements of the files, and ",
        (*paths_)[file_], ", one of ", paths_->size(),
        " files, has more, so that elements of different files are hardly mixed. Pass a buffer for the "
        "elements of several files, or let interleave read several files at a time."));
  shuffle_buffer_ = 0;
}

void FilesIterator::transfer(PassState& state) {
  state(file_, index_);
  if (file_ > paths_->size()) state.fail("there is no such file");
  transfer_opened(state, input_, [&] {
    if (file_ == paths_->size()) state.fail("there is no such file");
    return open_((*paths_)[file_]);
  });
}

PipelineHandle files_pipeline(std::vector<std::filesystem::path> paths, FileIteratorFactory open,
                              ElementType type) {
  return pipeline_of(std::make_shared<const std::vector<std::filesystem::path>>(std::move(paths)),
                     std::move(open), std::move(type));
}

}  // namespace lockstep::detail
