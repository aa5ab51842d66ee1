#include "strategy/runtime/replica_run.hpp"

#include "cluster/worker_group.hpp"
#include "collectives/rendezvous.hpp"
#include "detail/expects.hpp"
#include "trace/span.hpp"

namespace lockstep::detail {

void ReplicaRun::run_replica(int i, FunctionRef<void(ReplicaContext&, int)> job) {
  const Span span(SpanKind::run, "run", state_.first_replica() + i);
  ReplicaContext context(strategy_, state_.first_replica() + i, this);
  ContextFrame frame(ContextFrame::Mode::replica, strategy_, &context);
  DeviceScope here(context.device());
  try {
    job(context, i);
  } catch (...) {
    if (i != 0 || !merge_error_) throw;
  }
  if (i == 0 && merge_error_) std::rethrow_exception(merge_error_);
}

void ReplicaRun::merge(int i, const MergeArguments& arguments,
                       FunctionRef<void(std::span<void* const>)> combine, FunctionRef<void()> merge_fn,
                       void* result, FunctionRef<void(void*)> take) {
  const Span span(SpanKind::run, arguments.operation);
  const std::uint64_t mine = merges_done_.load(std::memory_order_relaxed) + 1;
  Rendezvous& rendezvous = state_.groups().rendezvous();
  const auto check = [&](std::span<const Arrival* const> arrivals) {
    auto brought = [&](std::size_t r) -> const MergeArguments& {
      return *static_cast<const MergeArguments*>(arrivals[r]->payload);
    };
    for (std::size_t r = 1; r < arrivals.size(); ++r)
      LOCKSTEP_EXPECTS(*brought(r).type == *brought(0).type, InvalidArgument, arguments.operation, ": ",
                       rendezvous.label(static_cast<int>(r)),
                       " brought arguments or a merge function of other types than ", rendezvous.label(0),
                       ". Make the same calls on every replica.");
    RecycledVector<void*> all;
    all.reserve(arrivals.size());
    for (std::size_t r = 0; r < arrivals.size(); ++r) all.push_back(brought(r).arguments);
    combine(all);
  };
  try {
    rendezvous.meet(i, {.operation = arguments.operation, .payload = &arguments}, check,
                    state_.options().timeout);
  } catch (const CollectiveAborted&) {
    if (state_.workers() != nullptr) state_.workers()->throw_if_lost(arguments.operation);
    throw;
  }
  if (i == 0) {
    merge_on_first(merge_fn, result, take);
    return;
  }
  if (waiting_.fetch_add(1, std::memory_order_seq_cst) + 2 == state_.num_local_replicas())
    state_.executor().threads().wake();
  {
    const SpanWait waits;
    state_.executor().threads().serve(i,
                                      [&] { return merges_done_.load(std::memory_order_seq_cst) >= mine; });
  }
  if (merge_failed_) throw Released{};
  struct Done {
    ReplicaRun& run;
    ~Done() {
      if (run.takers_.fetch_sub(1, std::memory_order_seq_cst) == 1) run.state_.executor().threads().wake();
    }
  } done{*this};
  take(result_);
}

void ReplicaRun::merge_on_first(FunctionRef<void()> merge_fn, void* result, FunctionRef<void(void*)> take) {
  // A nested run may use the rendezvous only when all replicas have left it.
  const int num_others = state_.num_local_replicas() - 1;
  state_.executor().threads().await([&] { return waiting_.load(std::memory_order_seq_cst) == num_others; });
  waiting_.store(0, std::memory_order_relaxed);
  auto publish = [&](bool failed) {
    merge_failed_ = failed;
    result_ = result;
    takers_.store(num_others, std::memory_order_relaxed);
    merges_done_.fetch_add(1, std::memory_order_seq_cst);
    state_.executor().threads().wake();
  };
  try {
    ContextFrame frame(ContextFrame::Mode::cross_replica, strategy_);
    DeviceScope here{Device()};
    merge_fn();
  } catch (const Released&) {  // no failure of this run: its replicas wait here
    merge_error_ = late_release(0);
  } catch (...) {
    merge_error_ = std::current_exception();
  }
  if (merge_error_) {
    // Also if replica 0 swallows the error: the other replicas will not meet it again.
    state_.groups().rendezvous().fail(0);
    publish(true);
    std::rethrow_exception(merge_error_);
  }
  publish(false);
  struct AwaitTakers {  // the result is on this replica's stack
    ReplicaRun& run;
    ~AwaitTakers() {
      run.state_.executor().threads().await([&] { return run.takers_.load(std::memory_order_seq_cst) == 0; });
    }
  } await{*this};
  take(result);
}

}  // namespace lockstep::detail
