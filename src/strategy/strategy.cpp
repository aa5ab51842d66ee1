#include <algorithm>
#include <mutex>

#include <lockstep/collectives/cross_device_ops.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/input/distribute.hpp>
#include <lockstep/ops.hpp>
#include <lockstep/strategy/strategy.hpp>

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

std::vector<Device> checked(std::vector<Device> devices, std::string_view strategy) {
  DeviceManager& manager = DeviceManager::instance();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    LOCKSTEP_EXPECTS(devices[i].is_local(), ContextError, strategy, ": device ", devices[i],
                     " belongs to another task. Pass devices of this process.");
    for (std::size_t j = 0; j < i; ++j)
      LOCKSTEP_EXPECTS(
          devices[j] != devices[i], InvalidArgument, strategy, ": device ", devices[i],
          " is listed twice, for replicas ", j, " and ", i,
          ". List each device once; several replicas on one GPU are virtual devices (set_virtual_devices).");
    try {
      manager.open(devices[i]);
    } catch (const NotFound& error) {
      detail::raise<NotFound>(error.context().location, detail::concat(strategy, ": ", error.what()));
    }
  }
  return devices;
}

std::vector<std::vector<Device>> checked(std::vector<std::vector<Device>> logical_devices,
                                         std::string_view strategy) {
  std::vector<Device> all;
  for (const std::vector<Device>& devices : logical_devices)
    all.insert(all.end(), devices.begin(), devices.end());
  checked(std::move(all), strategy);
  return logical_devices;
}

}  // namespace

Strategy::Strategy(const detail::StrategyKind& kind, std::vector<Device> devices,
                   std::vector<Device> parameter_devices, const CommunicationOptions& options)
    : state_(new detail::StrategyState(
          *this, kind, std::vector<std::vector<Device>>{checked(std::move(devices), kind.name)},
          checked(std::move(parameter_devices), kind.name), options)) {}

Strategy::Strategy(const detail::StrategyKind& kind, std::vector<std::vector<Device>> logical_devices,
                   std::shared_ptr<cluster::Resolver> resolver, const CommunicationOptions& options)
    : state_(new detail::StrategyState(*this, kind, checked(std::move(logical_devices), kind.name),
                                       std::vector<Device>(), options)) {
  state_->cluster_resolver = std::move(resolver);
}

Strategy::~Strategy() {
  if (state_->close()) delete state_;  // else somebody may still use it, who finds it where it was
}

StrategyExtended& Strategy::extended() noexcept { return state_->extended; }
int Strategy::num_replicas_in_sync() const noexcept { return state_->num_replicas(); }
int Strategy::num_logical_devices() const noexcept { return state_->num_logical_devices(); }
std::shared_ptr<cluster::Resolver> Strategy::cluster_resolver() const noexcept {
  return state_->cluster_resolver;
}
int Strategy::num_local_replicas() const noexcept { return state_->num_replicas(); }
void Strategy::use(std::unique_ptr<CrossDeviceOps> cross_device_ops) {
  state_->cross_device_ops = std::move(cross_device_ops);
}
const detail::StrategyKind& Strategy::kind() const noexcept { return state_->kind; }
std::string_view Strategy::name() const noexcept { return kind().name; }

detail::InputTarget Strategy::input_target() const {
  return {.devices = state_->groups.front().devices,
          .context = InputContext(1, 0, num_replicas_in_sync()),
          .splits = kind().synchronises,
          .strategy_name = std::string(name()),
          .per_replica_datasets = kind().has_per_replica_input,
          .check_caller = detail::check_not_in_replica};
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
  for (const detail::ReplicaGroup& group : state_->groups)
    devices.push_back(group.devices[static_cast<std::size_t>(replica)]);
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

namespace {
// The default strategy's runs are each thread's own.
thread_local std::vector<ReplicaFailure> default_failures;
}  // namespace

std::vector<ReplicaFailure> Strategy::last_failures() const {
  if (this == &detail::default_strategy()) return default_failures;
  std::vector<std::exception_ptr> errors;
  {
    const std::lock_guard lock(state_->failures_mutex);
    errors = state_->failures;
  }
  std::vector<ReplicaFailure> failures;
  for (std::size_t i = 0; i < errors.size(); ++i)
    if (errors[i]) failures.push_back({static_cast<int>(i), errors[i], detail::message_of(errors[i])});
  return failures;
}

void Strategy::remember(const std::shared_ptr<detail::VariableState>& variable) {
  std::lock_guard lock(state_->variables_mutex);
  auto& variables = state_->variables;
  if (variables.size() >= state_->max_variables) {
    std::erase_if(variables, [](const auto& weak) { return weak.expired(); });
    state_->max_variables = std::max(state_->max_variables, 2 * variables.size());
  }
  variables.push_back(variable);
}

namespace {

void run_default(detail::FunctionRef<void(ReplicaContext&, int)> job) {
  ReplicaContext& context = detail::default_replica_context();
  std::optional<detail::ContextFrame> frame;  // in a merge function of its own
  if (detail::ContextFrame::top() != nullptr)
    frame.emplace(detail::ContextFrame::Mode::replica, detail::default_strategy(), &context);
  try {
    job(context, 0);
  } catch (...) {
    default_failures = {{0, std::current_exception(), detail::message_of(std::current_exception())}};
    throw;
  }
  default_failures.clear();
}

}  // namespace

void Strategy::run_replicas(detail::FunctionRef<void(ReplicaContext&, int)> job) {
  extended().in_cross_replica_context("run", [&] {
    if (this == &detail::default_strategy()) return run_default(job);
    for (std::size_t i = 0; i < state_->failures.size(); ++i) state_->set_failure(i, nullptr);
    detail::ReplicaRun run(*this, *state_);
    state_->run_on_replicas([&](int i) { run.run_replica(i, job); }, detail::OfFailures::told);
  });
}

detail::RecycledVector<Contribution> Strategy::reduce_batch(ReduceOp op,
                                                            const detail::RecycledVector<ReduceValue>& values,
                                                            const Axes& axes) {
  detail::RecycledVector<Contribution> results;
  extended().in_cross_replica_context("reduce", [&] {
    detail::CrossReplicaReduce reduction(*this, *state_, op, "reduce");
    results = axes.empty() ? reduction.to_device(values, current_device())
                           : reduction.along(values, axes, current_device());
  });
  return results;
}

detail::RecycledVector<Contribution> Strategy::gather_batch(const detail::RecycledVector<ReduceValue>& values,
                                                            std::int64_t axis) {
  detail::RecycledVector<Contribution> results;
  results.reserve(values.size());
  extended().in_cross_replica_context("gather", [&] {
    for (const ReduceValue& value : values) {
      LOCKSTEP_EXPECTS(!value.is_sparse(), Unsupported,
                       "gather: IndexedSlices cannot be gathered. Gather their values and indices instead.");
      const Device here = current_device();
      if (value.kind() == ReduceValue::Kind::plain) {
        results.push_back({value.tensors()[0].to(here), {}});
        continue;
      }
      LOCKSTEP_EXPECTS(value.num_components() == 1 || value.num_components() == num_local_replicas(),
                       InvalidArgument, "gather: the value has ", value.num_components(), " components, but ",
                       name(), " has ", num_local_replicas(),
                       " local replicas. Pass values made by this strategy.");
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
