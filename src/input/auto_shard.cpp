#include <lockstep/error.hpp>
#include <lockstep/input/auto_shard.hpp>

#include "detail/expects.hpp"
#include "detail/warn.hpp"
#include "input/pipeline/transform.hpp"

namespace lockstep::detail {

AutoShardPolicy resolve_auto_shard(const Pipeline& input, const InputContext& context,
                                   AutoShardPolicy policy) {
  const int num_shards = context.num_input_pipelines();
  if (policy == AutoShardPolicy::automatic && input.shard_files) return AutoShardPolicy::file;
  LOCKSTEP_EXPECTS(policy != AutoShardPolicy::file || num_shards == 1 || input.shard_files, NotFound,
                   "auto_shard: the dataset does not come from from_files alone, so its files cannot be "
                   "shared out over ",
                   num_shards, " input pipelines. Read it with from_files, or pass AutoShardPolicy::data.");
  if (policy != AutoShardPolicy::automatic) return policy;
  if (num_shards > 1 && input.warns())
    warn(concat(
        "auto_shard: the dataset does not come from from_files alone, so each of ", num_shards,
        " input pipelines reads all of it and keeps its share of the elements. Read it with from_files, "
        "or pass AutoShardPolicy::data or ::off to say so."));
  return AutoShardPolicy::data;
}

PipelineHandle auto_sharded(const PipelineHandle& input, const InputContext& context,
                            AutoShardPolicy policy) {
  const int num_shards = context.num_input_pipelines();
  const int index = context.input_pipeline_id();
  policy = resolve_auto_shard(*input, context, policy);
  if (policy == AutoShardPolicy::hint) return with_hints(input, num_shards, index);
  if (policy == AutoShardPolicy::off || num_shards == 1) return input;
  return policy == AutoShardPolicy::file ? input->shard_files(num_shards, index)
                                         : sharded(input, num_shards, index, ShardedBy::auto_shard);
}

}  // namespace lockstep::detail
