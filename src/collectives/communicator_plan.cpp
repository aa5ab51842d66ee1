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

bool Communicator::Impl::is_in_rank_order(const CollectiveCall& call) const {
  if (!call.reduces() || !call.route.in_rank_order || backend->combines_in_rank_order()) return false;
  if (call.tensors().empty()) return false;
  const TensorView& tensor = call.tensors().front();
  return !call.is({Collective::all_reduce, Collective::reduce}) ||
         !backend->plan(call.op, reduced_dtype(call.op, tensor.dtype), 1, 1, call.route).in_rank_order;
}

CommunicationPlan Communicator::Impl::plan(ReduceOp op, DType dtype, std::int64_t size_bytes, int num_tensors,
                                           const backend::Route& route, bool one_thread) const {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const bool converts = op == ReduceOp::mean && is_integer(dtype);
  const std::int64_t count = std::max<std::int64_t>(1, size_bytes / size / num_tensors);
  const DType combined = reduced_dtype(op, dtype);
  const std::int64_t combined_bytes = num_tensors * count * static_cast<std::int64_t>(size_of(combined));
  CommunicationPlan plan = backend->plan(op, combined, count, num_tensors, route);
  plan.op = op;
  plan.dtype = dtype;
  plan.size_bytes = size_bytes;
  plan.num_tensors = num_tensors;
  plan.num_ranks = num_ranks();
  const int num_local = static_cast<int>(num_local_ranks());
  if (size_bytes == 0) {
    plan.reason = "there is nothing to combine";
    plan.memory = {};
    plan.in_window = false;
    plan.bytes_read = plan.bytes_written = 0;
    plan.num_launches = 0;
    return plan;
  }
  if (!converts && num_tensors == 1 && comes_with_meeting(size_bytes, one_thread)) {
    plan.path = CommunicationPath::with_meeting;
    plan.reason = "the input is so short that it comes with its rank";
  }
  if (route.in_rank_order && !plan.in_rank_order) {
    plan.path = CommunicationPath::nccl_in_order;
    plan.memory = {};
    plan.in_window = false;
    plan.reason = "the option is deterministic, and NCCL chooses its order";
    plan.in_rank_order = true;
    plan.bytes_read = (1 + num_ranks()) * combined_bytes;  // NCCL's, and the combining kernel's
    plan.bytes_written = (num_ranks() + 1) * combined_bytes;
    plan.num_launches = 2 * num_local * num_tensors;
  }
  if (converts) {
    plan.bytes_read += size_bytes;
    plan.bytes_written += combined_bytes;
    if (plan.num_launches > 0) plan.num_launches += num_local * num_tensors;
  }
  return plan;
}

void Communicator::Impl::log_plan(ReduceOp op, std::span<const RankBatch> batches,
                                  const CommunicationOptions& options) {
  const std::span<const TensorView> inputs = batches.front().inputs;
  if (!logs_plans || batches.front().rank != first_rank || inputs.empty()) return;
  const TensorView& first = inputs.front();
  const bool are_equal = std::ranges::all_of(inputs, [&](const TensorView& input) {
    return input.dtype == first.dtype && input.size() == first.size();
  });
  if (!are_equal) return;
  const auto num_tensors = static_cast<std::int64_t>(inputs.size());
  const CommunicationPlan made =
      plan(op, first.dtype, num_tensors * first.nbytes(), static_cast<int>(num_tensors), route_of(options),
           batches.size() == num_local_ranks());
  if (std::ranges::find(logged_plans, made) != logged_plans.end()) return;
  logged_plans.push_back(made);
  detail::warn(detail::concat("plan: ", options.label, options.label.empty() ? "" : ": ", made));
}

bool Communicator::Impl::wants_plans() { return log_has("plan"); }

CommunicationPlan Communicator::plan(ReduceOp op, DType dtype, std::int64_t size_bytes,
                                     const CommunicationOptions& options, bool one_thread,
                                     int num_tensors) const {
  const CommunicationOptions merged = options.merged_over({});
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  LOCKSTEP_EXPECTS(!is_boolean(dtype), InvalidArgument, "Communicator::plan: all_reduce(", op, ") of ", dtype,
                   ": booleans are not numbers. Pass a numeric dtype.");
  LOCKSTEP_EXPECTS(num_tensors > 0, InvalidArgument, "Communicator::plan: all_reduce(", op, ") of ",
                   num_tensors, " tensors. Pass at least one.");
  LOCKSTEP_EXPECTS(size_bytes >= 0 && size_bytes % (size * num_tensors) == 0, InvalidArgument,
                   "Communicator::plan: all_reduce(", op, ") of ", size_bytes, " bytes of ", dtype,
                   ". Pass a multiple of ", size * num_tensors, ", at least 0.");
  return impl().plan(op, dtype, size_bytes, num_tensors, Impl::route_of(merged),
                     one_thread || impl().num_local_ranks() == 1);
}

}  // namespace lockstep
