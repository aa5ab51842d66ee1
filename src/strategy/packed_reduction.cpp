#include <exception>
#include <utility>

#include <lockstep/strategy/packed_reduction.hpp>

#include "collectives/collective_checks.hpp"
#include "collectives/packed_all_reduce.hpp"
#include "strategy/runtime/replica_run.hpp"

namespace lockstep {

PackedReduction::PackedReduction(ReplicaContext& context, ReduceOp op, const CommunicationOptions& options,
                                 Values values)
    : context_(context), op_(op), values_(values), options_(options.merged_over({})) {
  limit_ = options_.bytes_per_pack;
  if (limit_ == 0) limit_ = kDefaultBytesPerPack;
  options_.bytes_per_pack = 0;  // each call is one pack, in one buffer where that pays
}

void PackedReduction::add(const Tensor& value) {
  pack_.push_back({value, {}});
  pack_bytes_ += value.nbytes();
  if (pack_bytes_ > limit_) start();
}

void PackedReduction::start() {
  auto pack = std::exchange(pack_, {});
  pack_bytes_ = 0;
  try {
    const bool is_in_place = values_ == Values::given && context_.run_ != nullptr &&
                             context_.run_->state().cross_device_ops() == nullptr;
    auto [work, results] = is_in_place ? start_in_place(std::move(pack))
                                       : context_.start_all_reduce_batch(op_, std::move(pack), {}, options_);
    started_.push_back({std::move(work), std::move(results)});
  } catch (const Error&) {
    if (!refused_) refused_ = std::current_exception();
    throw;
  }
}

PackedReduction::StartedBatch PackedReduction::start_in_place(
    detail::RecycledVector<detail::Contribution> pack) {
  context_.check_current("start_all_reduce");
  detail::StrategyState& state = context_.run_->state();
  const CommunicationOptions merged = options_.merged_over(state.options());
  detail::ReplicaGroup& group = state.groups().agree_on_current(
      context_.local_index(), operation_name(detail::Collective::all_reduce, op_), merged.timeout);
  const Device& here = group.devices()[static_cast<std::size_t>(context_.local_index())];
  const StreamRef stream = context_.stream();
  const StreamRef communication = group.communication_stream(context_.local_index());
  detail::RecycledVector<Tensor> operands, results;
  operands.reserve(pack.size());
  results.reserve(pack.size());
  for (detail::Contribution& value : pack) {
    const Tensor& operand = operands.emplace_back(value.tensor.to(here).contiguous());
    const DType dtype = reduced_dtype(op_, operand.dtype());
    const bool fits = dtype == operand.dtype() && !operand.is_read_only();
    results.push_back(fits ? operand : Tensor::empty(operand.shape(), dtype, here));
    value.tensor = results.back();
  }
  communication.wait(stream);
  try {
    const detail::OwnedBatch batch(context_.replica_id_, communication, operands, results);
    detail::all_reduce(group.communicator(), op_, {&batch.batch(), 1}, merged);
  } catch (...) {
    stream.wait(communication);
    throw;
  }
  StartedBatch started{detail::StartedWork(), std::move(pack)};
  started.first.add(communication, std::move(operands));
  return started;
}

std::vector<Tensor> PackedReduction::wait() {
  try {
    // An empty batch starts, too: replicas must agree that it is empty.
    if (!pack_.empty() || (started_.empty() && !refused_)) start();
  } catch (const Error&) {  // kept in refused_
  }
  auto started = std::exchange(started_, {});
  if (const auto refused = std::exchange(refused_, nullptr)) std::rethrow_exception(refused);
  std::size_t num_results = 0;
  for (const Started& one : started) num_results += one.results.size();
  std::vector<Tensor> results;
  results.reserve(num_results);
  for (Started& one : started) {
    one.work.join();
    for (detail::Contribution& result : one.results) {
      detail::give_to_current_stream(result.tensor);
      results.push_back(std::move(result.tensor));
    }
  }
  return results;
}

}  // namespace lockstep
