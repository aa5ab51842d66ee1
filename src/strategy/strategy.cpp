#include <algorithm>
#include <mutex>

#include <lockstep/collectives/cross_device_ops.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/input/distribute.hpp>
#include <lockstep/ops.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "cluster/worker_group.hpp"
#include "detail/exception_text.hpp"
#include "detail/expects.hpp"
#include "strategy/context/context.hpp"
#include "strategy/context/default_strategy.hpp"
#include "strategy/runtime/cross_replica_reduce.hpp"
#include "strategy/runtime/replica_run.hpp"
#include "strategy/runtime/strategy_state.hpp"
#include "values/gather_checks.hpp"

namespace lockstep {

using detail::Contribution;

namespace {

std::unique_ptr<detail::StrategyState> make_state(Strategy& strategy, detail::StrategyConfig&& config) {
  const std::shared_ptr<detail::WorkerGroup> workers = config.workers;
  const auto make = [&] { return std::make_unique<detail::StrategyState>(strategy, std::move(config)); };
  return workers == nullptr ? make() : workers->make_together(config.kind.name, make);
}

}  // namespace

Strategy::Strategy(detail::StrategyConfig&& config)
    : state_(make_state(*this, std::move(config)).release()) {}

Strategy::~Strategy() {
  if (state_->calls().close()) delete state_;  // else other threads may still use it
}

StrategyExtended& Strategy::extended() noexcept { return state_->extended(); }
int Strategy::num_replicas_in_sync() const noexcept { return state_->num_replicas(); }
int Strategy::num_logical_devices() const noexcept { return static_cast<int>(state_->groups().size()); }
std::shared_ptr<cluster::Resolver> Strategy::cluster_resolver() const noexcept {
  return state_->config().cluster_resolver;
}
int Strategy::first_replica() const noexcept { return state_->first_replica(); }
int Strategy::num_local_replicas() const noexcept { return state_->num_local_replicas(); }
std::string_view Strategy::name() const noexcept { return state_->kind().name; }

detail::InputTarget Strategy::input_target() const {
  detail::InputTarget target{.devices = state_->groups().front().devices(),
                             .context = state_->input_context(),
                             .splits = state_->kind().synchronises,
                             .strategy_name = std::string(name()),
                             .per_replica_datasets = state_->kind().has_per_replica_input,
                             .check_caller = detail::check_not_in_replica};
  if (state_->workers() != nullptr) target.open_exchange = state_->workers()->step_opener();
  return target;
}

std::vector<Device> Strategy::logical_devices_here(std::string_view what) const {
  if (this == &detail::default_strategy()) return {current_device()};
  const detail::ContextFrame* const top = detail::ContextFrame::top();
  if (top != nullptr) detail::check_is_of(*top, *this, what);
  using Mode = detail::ContextFrame::Mode;
  int replica = 0;
  if (top != nullptr && top->mode() == Mode::replica) replica = top->replica_context()->local_index();
  if (top != nullptr && top->mode() == Mode::update && top->update_index() < num_local_replicas())
    replica = top->update_index();
  std::vector<Device> devices;
  for (const detail::ReplicaGroup& group : state_->groups())
    devices.push_back(group.devices()[static_cast<std::size_t>(replica)]);
  return devices;
}

Tensor Strategy::assign_to_logical_device(const Tensor& tensor, int logical_device) {
  const std::vector<Device> devices = logical_devices_here("assign_to_logical_device");
  detail::check_logical_device(*this, logical_device, "assign_to_logical_device");
  return tensor.to(devices[static_cast<std::size_t>(logical_device)]);
}

ShardedTensor Strategy::split_to_logical_devices(const Tensor& tensor, const std::vector<int>& dims) {
  return ShardedTensor::split(tensor, dims, logical_devices_here("split_to_logical_devices"));
}

ShardedTensor Strategy::replicate_to_logical_devices(const Tensor& tensor) {
  return ShardedTensor::replicate(tensor, logical_devices_here("replicate_to_logical_devices"));
}

Report Strategy::report() const { return state_->report(); }

namespace {
// Each thread's last run of the default strategy.
thread_local std::vector<ReplicaFailure> default_failures;
}  // namespace

std::vector<ReplicaFailure> Strategy::last_failures() const {
  if (this == &detail::default_strategy()) return default_failures;
  return state_->failures().list();
}

namespace {

void run_default(detail::FunctionRef<void(ReplicaContext&, int)> job) {
  ReplicaContext& context = detail::default_replica_context();
  std::optional<detail::ContextFrame> frame;  // only in a merge function
  if (detail::ContextFrame::top() != nullptr)
    frame.emplace(detail::ContextFrame::Mode::replica, detail::default_strategy(), &context);
  try {
    job(context, 0);
  } catch (...) {
    default_failures = {{0, std::current_exception(), detail::exception_text(std::current_exception())}};
    throw;
  }
  default_failures.clear();
}

}  // namespace

void Strategy::run_replicas(detail::FunctionRef<void(ReplicaContext&, int)> job) {
  detail::call_serialised(*this, "run", [&] {
    if (this == &detail::default_strategy()) return run_default(job);
    state_->failures().clear();
    if (state_->workers() != nullptr) state_->workers()->meeting().begin_run();
    detail::ReplicaRun run(*this);
    state_->executor().run([&](int i) { run.run_replica(i, job); }, &state_->failures());
  });
}

detail::RecycledVector<Contribution> Strategy::reduce_batch(ReduceOp op,
                                                            const detail::RecycledVector<ReduceValue>& values,
                                                            const Axes& axes) {
  detail::RecycledVector<Contribution> results;
  detail::call_serialised(*this, "reduce", [&] {
    detail::CrossReplicaReduce reduction(*state_, op, "reduce");
    results = axes.empty() ? reduction.to_device(values, current_device())
                           : reduction.along(values, axes, current_device());
  });
  return results;
}

detail::RecycledVector<Contribution> Strategy::gather_batch(const detail::RecycledVector<ReduceValue>& values,
                                                            std::int64_t axis) {
  detail::RecycledVector<Contribution> results;
  results.reserve(values.size());
  detail::call_serialised(*this, "gather", [&] {
    for (const ReduceValue& value : values) {
      LOCKSTEP_EXPECTS(!value.is_sparse(), Unsupported,
                       "gather: IndexedSlices cannot be gathered. Gather their values and indices instead.");
      const Device here = current_device();
      const bool is_plain = value.kind() == ReduceValue::Kind::plain;
      if (is_plain && state_->workers() == nullptr) {
        results.push_back({value.tensors()[0].to(here), {}});
        continue;
      }
      LOCKSTEP_EXPECTS(
          is_plain || value.num_components() == 1 || value.num_components() == num_local_replicas(),
          InvalidArgument, "gather: the value has ", value.num_components(), " components, but ", name(),
          " has ", num_local_replicas(), " local replicas. Pass values made by this strategy.");
      if (state_->workers() != nullptr) {
        results.push_back({state_->gather(value, axis).to(here), {}});
        continue;
      }
      detail::RecycledVector<std::span<const TensorView>> parts;
      for (const Tensor& tensor : value.tensors()) parts.emplace_back(&tensor.view(), 1);
      detail::check_gather(parts, axis, "gather");
      detail::RecycledVector<Tensor> here_parts;
      for (const Tensor& tensor : value.tensors()) here_parts.push_back(tensor.to(here));
      results.push_back({concatenate(here_parts, axis), {}});
    }
  });
  return results;
}

}  // namespace lockstep
