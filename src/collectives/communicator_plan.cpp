#include <algorithm>
#include <cstdlib>

#include <lockstep/error.hpp>

#include "collectives/communicator_impl.hpp"
#include "collectives/mailbox.hpp"
#include "detail/expects.hpp"
#include "detail/warn.hpp"

/// By which path an all_reduce goes.
namespace lockstep {
namespace {

/// Whether the comma-separated list in LOCKSTEP_LOG has the word.
bool log_has(std::string_view word) {
  const char* const text = std::getenv("LOCKSTEP_LOG");
  for (std::string_view rest = text == nullptr ? "" : text; !rest.empty();) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    if (rest.substr(0, end) == word) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

}  // namespace

backend::Route Communicator::Impl::route_of(const CommunicationOptions& options) {
  return {.implementation = options.implementation,
          .in_rank_order = options.deterministic,
          .peer_bytes = options.peer_bytes.is_given() ? std::int64_t{options.peer_bytes} : -1};
}

bool Communicator::Impl::comes_with_meeting(std::int64_t size_bytes, bool one_thread) const {
  if (workers) return backend->shares_memory() && size_bytes <= kMaxMessageBytes;
  return takes_fingerprints && !one_thread &&
         size_bytes <= static_cast<std::int64_t>(detail::Mailbox::kMaxBytes);
}

CommunicationPlan Communicator::Impl::plan_of_one(ReduceOp op, DType dtype,
                                                  const backend::Route& route) const {
  const backend::Segment one{nullptr, nullptr, 1, dtype};
  return backend->plan(op, {&one, 1}, route);
}

bool Communicator::Impl::is_in_rank_order(const CollectiveCall& call) const {
  if (!call.reduces() || !call.route.in_rank_order || backend->combines_in_rank_order()) return false;
  if (call.tensors().empty()) return false;
  const TensorView& tensor = call.tensors().front();
  return !call.is({Collective::all_reduce, Collective::reduce}) ||
         !plan_of_one(call.op, reduced_dtype(call.op, tensor.dtype), call.route).in_rank_order;
}

CommunicationPlan Communicator::Impl::plan(ReduceOp op, std::span<const TensorView> batch,
                                           const backend::Route& route, bool one_thread) const {
  const int num_local = static_cast<int>(num_local_ranks());
  detail::RecycledVector<backend::Segment> segments;
  segments.reserve(batch.size());
  std::int64_t size_bytes = 0, combined_bytes = 0, converted_bytes = 0;
  int num_converted = 0;
  for (const TensorView& tensor : batch) {
    if (tensor.size() == 0) continue;
    const DType combined = reduced_dtype(op, tensor.dtype);
    segments.push_back({nullptr, nullptr, tensor.size(), combined});
    size_bytes += tensor.nbytes();
    combined_bytes += bytes_of(segments.back());
    if (op != ReduceOp::mean || !is_integer(tensor.dtype)) continue;
    ++num_converted;
    converted_bytes += bytes_of(segments.back());
  }
  const bool is_empty = segments.empty();
  if (is_empty) segments.push_back({nullptr, nullptr, 1, reduced_dtype(op, batch.front().dtype)});
  CommunicationPlan plan = backend->plan(op, segments, route);
  plan.op = op;
  plan.dtype = batch.front().dtype;
  plan.size_bytes = size_bytes;
  plan.num_tensors = static_cast<int>(batch.size());
  plan.num_ranks = num_ranks();
  if (is_empty) {
    plan.reason = "there is nothing to combine";
    plan.memory = {};
    plan.in_window = false;
    plan.bytes_read = plan.bytes_written = 0;
    plan.num_packs = plan.num_launches = 0;
    return plan;
  }
  if (batch.size() == 1 && num_converted == 0 && comes_with_meeting(size_bytes, one_thread)) {
    plan.path = CommunicationPath::with_meeting;
    plan.reason = "the input is so short that it comes with its rank";
  }
  if (route.in_rank_order && !plan.in_rank_order) {
    plan.path = CommunicationPath::nccl_in_order;
    plan.memory = {};
    plan.in_window = false;
    plan.reason = "the option is deterministic, and NCCL chooses its order";
    plan.in_rank_order = true;
    plan.num_packs = static_cast<int>(segments.size());
    plan.bytes_read = (1 + num_ranks()) * combined_bytes;  // NCCL's, and the combining kernels'
    plan.bytes_written = (num_ranks() + 1) * combined_bytes;
    plan.num_launches = 2 * num_local * plan.num_packs;
  }
  if (num_converted > 0) {
    for (const TensorView& tensor : batch)
      if (is_integer(tensor.dtype)) plan.bytes_read += tensor.nbytes();
    plan.bytes_written += converted_bytes;
    if (plan.num_launches > 0) plan.num_launches += num_local * num_converted;
  }
  return plan;
}

void Communicator::Impl::log_plan(ReduceOp op, std::span<const RankBatch> batches,
                                  const CommunicationOptions& options) {
  const std::span<const TensorView> inputs = batches.front().inputs;
  if (!logs_plans || batches.front().rank != first_rank || inputs.empty()) return;
  const CommunicationPlan made = plan(op, inputs, route_of(options), batches.size() == num_local_ranks());
  if (std::ranges::find(logged_plans, made) != logged_plans.end()) return;
  logged_plans.push_back(made);
  detail::warn(detail::concat("plan: ", options.label, options.label.empty() ? "" : ": ", made));
}

bool Communicator::Impl::wants_plans() { return log_has("plan"); }

CommunicationPlan Communicator::plan(ReduceOp op, DType dtype, std::int64_t size_bytes,
                                     const CommunicationOptions& options, bool one_thread) const {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  LOCKSTEP_EXPECTS(size_bytes >= 0 && size_bytes % size == 0, InvalidArgument,
                   "Communicator::plan: all_reduce(", op, ") of ", size_bytes, " bytes of ", dtype,
                   ". Pass a multiple of ", size, ", at least 0.");
  const TensorView one(static_cast<void*>(nullptr), Shape(size_bytes / size), dtype);
  return plan(op, {&one, 1}, options, one_thread);
}

CommunicationPlan Communicator::plan(ReduceOp op, std::span<const TensorView> batch,
                                     const CommunicationOptions& options, bool one_thread) const {
  const CommunicationOptions merged = options.merged_over({});
  LOCKSTEP_EXPECTS(!batch.empty(), InvalidArgument, "Communicator::plan: all_reduce(", op,
                   ") of a batch without tensors. Pass at least one.");
  for (const TensorView& tensor : batch)
    LOCKSTEP_EXPECTS(!is_boolean(tensor.dtype), InvalidArgument, "Communicator::plan: all_reduce(", op,
                     ") of ", tensor.dtype, ": booleans are not numbers. Pass a numeric dtype.");
  return impl().plan(op, batch, Impl::route_of(merged), one_thread || impl().num_local_ranks() == 1);
}

}  // namespace lockstep
