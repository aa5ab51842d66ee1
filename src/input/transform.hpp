#pragma once

#include <functional>
#include <utility>
#include <variant>

#include <lockstep/detail/pipeline.hpp>

/// How one pipeline is made of another, so that the same can be done again with less files.
namespace lockstep::detail {

/// `result`, which `rebuild` makes of its input, also where that reads some of the files only.
template <class Rebuild>
PipelineHandle with_file_shards(Pipeline&& result, const PipelineHandle& input, Rebuild rebuild) {
  result.shard_files = nullptr;
  if (input->shard_files)
    result.shard_files = [shard_files = input->shard_files, rebuild = std::move(rebuild)](
                             std::int64_t num_shards, std::int64_t index) {
      return rebuild(shard_files(num_shards, index));
    };
  return std::make_shared<const Pipeline>(std::move(result));
}

/// The pipeline with `wrap`, which makes one Opener of another, around its elements or its numbers of rows.
template <class Wrap>
PipelineHandle with_passes(const PipelineHandle& input, const Wrap& wrap) {
  Pipeline result = *input;
  if (auto* rows = std::get_if<TableRows>(&result.elements))
    rows->open = wrap(std::move(rows->open));
  else
    result.elements = wrap(std::get<Opener<FlatElement>>(std::move(result.elements)));
  return with_file_shards(std::move(result), input,
                          [wrap](const PipelineHandle& shard) { return with_passes(shard, wrap); });
}

/// The pipeline with `open(input)` as its passes, and changed by `edit`.
template <class Open, class Edit>
PipelineHandle with_elements(const PipelineHandle& input, const Open& open, const Edit& edit) {
  Pipeline result = *input;
  result.elements = Opener<FlatElement>([input, open] { return open(input); });
  edit(result);
  return with_file_shards(std::move(result), input, [open, edit](const PipelineHandle& shard) {
    return with_elements(shard, open, edit);
  });
}
template <class Open>
PipelineHandle with_elements(const PipelineHandle& input, const Open& open) {
  return with_elements(input, open, [](Pipeline&) {});
}

}  // namespace lockstep::detail
