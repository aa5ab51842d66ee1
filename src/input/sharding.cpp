#include <algorithm>

#include <lockstep/error.hpp>
#include <lockstep/input/sharding.hpp>

#include "detail/expects.hpp"

namespace lockstep {

std::vector<std::int64_t> balanced_batch_sizes(std::int64_t global_batch, const InputContext& context) {
  const std::int64_t num_replicas = context.num_replicas_in_sync();
  const std::int64_t num_workers = context.num_input_pipelines();
  LOCKSTEP_EXPECTS(global_batch >= 0, InvalidArgument, "balanced_batch_sizes: a global batch of ",
                   global_batch, " rows. Pass at least 0.");
  LOCKSTEP_EXPECTS(num_replicas % num_workers == 0, InvalidArgument, "balanced_batch_sizes: ", num_replicas,
                   " replicas cannot be divided by ", num_workers,
                   " input pipelines. Give every worker the same number of replicas.");
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(num_replicas), global_batch / num_replicas);
  for (std::int64_t i = 0; i < global_batch % num_replicas; ++i) ++sizes[static_cast<std::size_t>(i)];
  // A worker starts where the previous workers end in their first step.
  std::rotate(sizes.begin(), sizes.begin() + context.input_pipeline_id() * (num_replicas / num_workers),
              sizes.end());
  return sizes;
}

}  // namespace lockstep
