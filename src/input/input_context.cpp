#include <lockstep/error.hpp>
#include <lockstep/input/input_context.hpp>

#include "detail/expects.hpp"

namespace lockstep {

InputContext::InputContext(int num_input_pipelines, int input_pipeline_id, int num_replicas_in_sync)
    : num_pipelines_(num_input_pipelines),
      pipeline_id_(input_pipeline_id),
      num_replicas_(num_replicas_in_sync) {
  LOCKSTEP_EXPECTS(num_pipelines_ >= 1 && num_replicas_ >= 1, InvalidArgument,
                   "InputContext: ", num_pipelines_, " input pipelines for ", num_replicas_,
                   " replicas. There is at least one of each.");
  LOCKSTEP_EXPECTS(0 <= pipeline_id_ && pipeline_id_ < num_pipelines_, InvalidArgument,
                   "InputContext: input pipeline ", pipeline_id_, " is not one of ", num_pipelines_,
                   ". Pass an id in [0, ", num_pipelines_, ").");
}

std::int64_t InputContext::get_per_replica_batch_size(std::int64_t global_batch_size) const {
  LOCKSTEP_EXPECTS(global_batch_size >= 0 && global_batch_size % num_replicas_ == 0, InvalidArgument,
                   "InputContext::get_per_replica_batch_size: a global batch of ", global_batch_size,
                   " rows cannot be divided by ", num_replicas_, " replicas. Pass a multiple of ",
                   num_replicas_, ".");
  return global_batch_size / num_replicas_;
}

}  // namespace lockstep
