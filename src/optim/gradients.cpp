#include "optim/gradients.hpp"

#include <functional>
#include <string>
#include <unordered_set>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "strategy/strategy_access.hpp"

namespace lockstep::detail {

using optim::Gradient;
using optim::GradientAndVariable;
using List = std::vector<GradientAndVariable>;

namespace {

std::string label(const PartSource& source) {
  const std::string name = concat("the gradient of the variable '", source.variable.name(), "'");
  return source.replica < 0 ? name : concat(name, " on replica ", source.replica);
}

std::string describe(const GradientPart& part) {
  if (part.slices)
    return concat("sparse rows of ", part.slices->dense_shape, " ", part.slices->values.dtype());
  return part.tensor.defined() ? lockstep::describe(part.tensor) : "nothing";
}

void check_fits(const GradientPart& part, const PartSource& source) {
  const bool is_defined =
      part.slices ? part.slices->values.defined() && part.slices->indices.defined() : part.tensor.defined();
  LOCKSTEP_EXPECTS(is_defined, InvalidArgument, source.what, ": ", label(source),
                   " is an empty Tensor, default-constructed or moved from. Pass one by this variable, or "
                   "std::nullopt where the loss does not depend on it.");
  if (part.slices) check(*part.slices);
  const Shape& shape = part.slices ? part.slices->dense_shape : part.tensor.shape();
  const DType dtype = part.slices ? part.slices->values.dtype() : part.tensor.dtype();
  LOCKSTEP_EXPECTS(shape == source.variable.shape() && dtype == source.variable.dtype(), InvalidArgument,
                   source.what, ": ", label(source), " is ", describe(part), ", the variable ",
                   source.variable.shape(), " ", source.variable.dtype(),
                   ". Pass the gradient by this variable, cast to its dtype.");
}

GradientPart component(const ReduceValue& value, int i) {
  const auto at = static_cast<std::size_t>(value.num_components() == 1 ? 0 : i);
  return value.is_sparse() ? GradientPart{Tensor(), value.slices()[at]}
                           : GradientPart{value.tensors()[at], {}};
}

void check_not_per_replica(const ReduceValue& value, const PartSource& source, std::string_view remedy) {
  LOCKSTEP_EXPECTS(value.kind() != ReduceValue::Kind::per_replica || value.num_components() == 1,
                   InvalidArgument, source.what, ": ", label(source), " is a per-replica value with ",
                   value.num_components(), " components. ", remedy);
}

/// All replicas have a gradient or none has; all are dense or all sparse.
void check_agree(const GradientPart& part, int replica, const GradientPart& first, int first_replica,
                 const PartSource& source) {
  const bool agree =
      is_nothing(part) == is_nothing(first) && part.slices.has_value() == first.slices.has_value();
  LOCKSTEP_EXPECTS(agree, CollectiveMismatch, source.what, ": the gradient of the variable '",
                   source.variable.name(), "' is ", describe(part), " on replica ", replica, ", ",
                   describe(first), " on replica ", first_replica,
                   ". Give the same kind on every replica: zeros where one has none.");
}

void check_same_lists(std::span<const List* const> lists, int first_replica, std::string_view what) {
  const List& first = *lists[0];
  for (std::size_t i = 1; i < lists.size(); ++i) {
    const List& list = *lists[i];
    const int r = first_replica + static_cast<int>(i);
    LOCKSTEP_EXPECTS(list.size() == first.size(), CollectiveMismatch, what, ": replica ", r, " gave ",
                     list.size(), " gradients, replica ", first_replica, " ", first.size(),
                     ". Give the same variables on every replica.");
    for (std::size_t k = 0; k < list.size(); ++k)
      LOCKSTEP_EXPECTS(list[k].variable == first[k].variable, CollectiveMismatch, what, ": gradient ", k,
                       " is for the variable '", list[k].variable.name(), "' on replica ", r, ", for '",
                       first[k].variable.name(), "' on replica ", first_replica,
                       ". Give the same variables in the same order on every replica.");
  }
}

RecycledVector<Variable> variables_of(const List& list) {
  RecycledVector<Variable> variables;
  variables.reserve(list.size());
  for (const GradientAndVariable& pair : list) variables.push_back(pair.variable);
  return variables;
}

}  // namespace

bool is_nothing(const GradientPart& part) { return !part.slices && !part.tensor.defined(); }

GradientPart part_in_replica(const Gradient& gradient, int replica, const PartSource& source) {
  if (gradient.is_nothing()) return {};
  const ReduceValue& value = *gradient.value();
  check_not_per_replica(value, source,
                        "Pass it to run as an argument, so that each replica gets its component.");
  LOCKSTEP_EXPECTS(value.kind() != ReduceValue::Kind::mirrored || value.num_components() == 1 ||
                       replica < value.num_components(),
                   InvalidArgument, source.what, ": ", label(source), " is a mirrored value with ",
                   value.num_components(), " components. Pass a value of this strategy.");
  const bool is_mirrored = value.kind() == ReduceValue::Kind::mirrored;
  GradientPart part = component(value, is_mirrored ? replica : 0);
  check_fits(part, source);
  return part;
}

void check_variables(std::span<const Variable> variables, std::string_view what) {
  using Identity = const VariableState*;
  std::unordered_set<Identity, std::hash<Identity>, std::equal_to<>, RecyclingAllocator<Identity>> seen;
  seen.reserve(variables.size());
  for (const Variable& variable : variables) {
    LOCKSTEP_EXPECTS(is_floating(variable.dtype()), InvalidArgument, what, ": the variable '",
                     variable.name(), "' is ", variable.shape(), " ", variable.dtype(),
                     ". Only variables of floating-point dtypes can be trained.");
    LOCKSTEP_EXPECTS(seen.insert(VariableAccess::state(variable).get()).second, InvalidArgument, what,
                     ": the variable '", variable.name(),
                     "' is listed twice. Add its gradients, and list it once.");
  }
}

GradientBatch GradientBatch::of_replicas(std::span<const List* const> lists, int first_replica,
                                         bool are_reduced, std::string_view what) {
  check_same_lists(lists, first_replica, what);
  const List& first = *lists[0];
  GradientBatch batch;
  batch.are_summed_ = !are_reduced;
  batch.listed_ = variables_of(first);
  check_variables(batch.listed_, what);
  for (std::size_t k = 0; k < first.size(); ++k) {
    const Variable& variable = first[k].variable;
    RecycledVector<GradientPart> parts;
    parts.reserve(lists.size());
    for (const List* const list : lists) {
      const int r = first_replica + static_cast<int>(parts.size());
      parts.push_back(part_in_replica((*list)[k].gradient, r, {what, variable, r}));
      check_agree(parts.back(), r, parts[0], first_replica, {what, variable});
    }
    if (is_nothing(parts[0])) {
      batch.without_gradient_.push_back(variable);
      continue;
    }
    batch.variables_.push_back(variable);
    if (parts[0].slices) {
      RecycledVector<IndexedSlices> slices;
      for (GradientPart& part : parts) slices.push_back(std::move(*part.slices));
      batch.values_.emplace_back(ValueAccess::per_replica(std::move(slices)));
    } else {
      // Unlike a result of run, one tensor that all replicas give is a contribution from each.
      RecycledVector<Tensor> tensors;
      tensors.reserve(parts.size());
      for (GradientPart& part : parts) tensors.push_back(std::move(part.tensor));
      batch.values_.emplace_back(ValueAccess::per_replica(std::move(tensors)));
    }
  }
  return batch;
}

GradientBatch GradientBatch::of_caller(const List& list, std::string_view what) {
  GradientBatch batch;
  batch.listed_ = variables_of(list);
  check_variables(batch.listed_, what);
  for (const auto& [gradient, variable] : list) {
    if (gradient.is_nothing()) {
      batch.without_gradient_.push_back(variable);
      continue;
    }
    const PartSource source{what, variable};
    const ReduceValue& value = *gradient.value();
    check_not_per_replica(value, source, "Resolve it with reduce_to(op, value, variable) first.");
    const auto num_components = static_cast<int>(VariableAccess::devices(variable).size());
    LOCKSTEP_EXPECTS(value.kind() != ReduceValue::Kind::mirrored || value.num_components() == 1 ||
                         value.num_components() == num_components,
                     InvalidArgument, what, ": ", label(source), " is a mirrored value with ",
                     value.num_components(), " components, the variable has ", num_components,
                     ". Pass a value of the variable's devices.");
    for (int i = 0; i < value.num_components(); ++i) check_fits(component(value, i), source);
    batch.variables_.push_back(variable);
    batch.values_.push_back(value);
  }
  return batch;
}

RecycledVector<RecycledVector<Tensor>> GradientBatch::reduce(Strategy& strategy,
                                                             const CommunicationOptions& options) const {
  const auto devices_of = [&](std::size_t k) -> const std::vector<Device>& {
    return VariableAccess::devices(variables_[k]);
  };
  if (are_summed_) {
    RecycledVector<ReduceTo> reductions;
    reductions.reserve(variables_.size());
    for (std::size_t k = 0; k < variables_.size(); ++k) reductions.push_back({&values_[k], devices_of(k)});
    return reduce_all(strategy, ReduceOp::sum, reductions, options);
  }
  RecycledVector<RecycledVector<Tensor>> results;
  results.reserve(variables_.size());
  for (std::size_t k = 0; k < variables_.size(); ++k) {
    const ReduceValue& value = values_[k];
    RecycledVector<Tensor> dense = value.tensors();
    for (const IndexedSlices& slices : value.slices()) dense.push_back(slices.to_dense());
    const std::vector<Device>& devices = devices_of(k);
    const bool is_by_component = dense.size() > 1 && dense.size() == devices.size();
    RecycledVector<Tensor>& components = results.emplace_back();
    components.reserve(devices.size());
    for (const Device& device : devices)
      components.push_back(dense[is_by_component ? components.size() : 0].to(device));
  }
  return results;
}

}  // namespace lockstep::detail
