#include "strategy/runtime/cross_replica_reduce.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include <lockstep/ops.hpp>

#include "arithmetic/operators.hpp"
#include "arithmetic/scaled_sum.hpp"
#include "detail/cpu_0.hpp"
#include "detail/expects.hpp"
#include "divided.hpp"
#include "trace/span.hpp"
#include "values/sparse.hpp"
#include "wide_sum.hpp"

namespace lockstep::detail {

namespace {

/// The number that changes no minimum, or no maximum.
Scalar identity(ReduceOp op, DType dtype) {
  std::optional<Scalar> result;
  dispatch(dtype, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>)
      result = op == ReduceOp::min ? arithmetic::Min::identity<T>() : arithmetic::Max::identity<T>();
  });
  return *result;
}

/// The position of `device` among the replicas' devices; -1: none of them.
int replica_on(std::span<const Device> devices, const Device& device) {
  const auto found = std::ranges::find(devices, device);
  return found == devices.end() ? -1 : static_cast<int>(found - devices.begin());
}

}  // namespace

void CrossReplicaReduce::check_num_components(const ReduceValue& value) const {
  LOCKSTEP_EXPECTS(value.num_components() == state_.num_local_replicas(), InvalidArgument, what_, "(", op_,
                   "): the value has ", value.num_components(), " components, but ", state_.kind().name,
                   " has ", state_.num_local_replicas(),
                   " local replicas. Pass values made by this strategy.");
}

bool CrossReplicaReduce::is_mirrored(const ReduceValue& value) const {
  return value.kind() == ReduceValue::Kind::mirrored &&
         (value.num_components() > 1 || state_.num_local_replicas() == 1);
}

bool CrossReplicaReduce::is_unchanged(const ReduceValue& value) const {
  if (value.kind() == ReduceValue::Kind::per_replica) {
    check_num_components(value);
    // One replica is reduced, too: its mean of integers is floating.
    return !state_.kind().synchronises;
  }
  if (!state_.kind().synchronises) return true;
  const bool is_mean = op_ == ReduceOp::mean;
  const bool is_mirrored = this->is_mirrored(value);
  if (is_mirrored) check_num_components(value);
  if (!is_mirrored && state_.workers() != nullptr) return false;
  LOCKSTEP_EXPECTS(is_mean || (state_.num_replicas() == 1 && !is_mirrored), InvalidArgument, what_, "(", op_,
                   "): a ", is_mirrored ? "mirrored" : "plain", " value is the same on all ",
                   state_.num_replicas(), " replicas, so that its ", op_,
                   " over them is undefined. Pass a per-replica value, as run returns it, or use mean.");
  return true;
}

std::size_t CrossReplicaReduce::logical_device_for(const ReduceValue& value,
                                                   std::span<const Device> destination) const {
  if (state_.groups().size() == 1) return 0;
  int on = state_.groups().find(destination);
  if (on < 0) {
    RecycledVector<Device> own;
    for (const Tensor& tensor : value.tensors()) own.push_back(tensor.device());
    on = state_.groups().find(own);
  }
  return on < 0 ? state_.groups().current_index() : static_cast<std::size_t>(on);
}

RecycledVector<Tensor> CrossReplicaReduce::components(const ReduceValue& value,
                                                      std::span<const Device> devices) const {
  RecycledVector<Tensor> result;
  result.reserve(value.tensors().size());
  const Tensor& first = value.tensors()[0];
  static_cast<void>(reduced_dtype(op_, first.dtype()));  // refuses booleans
  for (std::size_t i = 0; i < value.tensors().size(); ++i) {
    const Tensor& tensor = value.tensors()[i];
    LOCKSTEP_EXPECTS(tensor.dtype() == first.dtype() && tensor.shape() == first.shape(), CollectiveMismatch,
                     what_, "(", op_, "): replica ", id_of(i), "'s component ", tensor.shape(), " ",
                     tensor.dtype(), " differs from replica ", id_of(0), "'s ", first.shape(), " ",
                     first.dtype(), ". Pass equal shapes and dtypes, or reduce along the axis that differs.");
    result.push_back(tensor.to(devices[i]).contiguous());
  }
  return result;
}

RecycledVector<Contribution> CrossReplicaReduce::to_device(std::span<const ReduceValue> values,
                                                           const Device& device) {
  RecycledVector<Contribution> results(values.size());
  RecycledVector<ReduceTo> dense;
  dense.reserve(values.size());
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (values[k].is_sparse())
      results[k].slices = sparse(values[k], device);
    else
      dense.push_back({&values[k], {&device, 1}});
  }
  const auto reduced = to_devices(dense);
  // An unchanged value has not moved; the result of `reduce` is on the current device.
  for (std::size_t d = 0; d < dense.size(); ++d)
    results[static_cast<std::size_t>(dense[d].value - values.data())].tensor = reduced[d][0].to(device);
  return results;
}

RecycledVector<RecycledVector<Tensor>> CrossReplicaReduce::to_devices(std::span<const ReduceTo> reductions) {
  RecycledVector<RecycledVector<Tensor>> results(reductions.size());
  const auto n = static_cast<std::size_t>(state_.num_local_replicas());
  // Values of one batch are reduced over one logical device, and to one replica or to all (-1).
  struct Member {
    std::pair<std::size_t, int> batch;
    std::size_t k;
    RecycledVector<Tensor> contributions;
  };
  RecycledVector<Member> members;
  members.reserve(reductions.size());
  for (std::size_t k = 0; k < reductions.size(); ++k) {
    const ReduceValue& value = *reductions[k].value;
    const std::span<const Device> destination = reductions[k].devices;
    results[k].reserve(destination.size());
    if (value.is_sparse()) {
      const Tensor dense = sparse(value, destination[0]).to_dense();
      for (const Device& device : destination) results[k].push_back(dense.to(device));
    } else if (is_unchanged(value)) {
      if (value.kind() == ReduceValue::Kind::mirrored)
        results[k] = value.tensors();
      else if (op_ == ReduceOp::mean && state_.kind().synchronises && state_.num_replicas() > 1)
        results[k] = {value.tensors()[0]};
      else if (op_ == ReduceOp::mean || !state_.kind().synchronises)
        for (const Device& device : destination) results[k].push_back(value.tensors()[0].to(device));
      else
        for (const Device& device : destination) results[k].push_back(copied_to(value.tensors()[0], device));
    } else if (value.kind() != ReduceValue::Kind::per_replica) {
      const Tensor reduced = over_workers(value.tensors()[0]);
      for (const Device& device : destination) results[k].push_back(reduced.to(device));
    } else {
      const std::size_t logical_device = logical_device_for(value, destination);
      const std::vector<Device>& devices = state_.groups()[logical_device].devices();
      const int root =
          std::ranges::equal(destination, devices) ? -1 : std::max(0, replica_on(devices, destination[0]));
      members.push_back({{logical_device, root}, k, components(value, devices)});
    }
  }
  std::ranges::sort(members, {}, [](const Member& one) { return std::pair(one.batch, one.k); });
  for (auto first = members.begin(); first != members.end();) {
    const auto [logical_device, root] = first->batch;
    const auto last =
        std::find_if(first, members.end(), [&](const Member& one) { return one.batch != first->batch; });
    RecycledVector<RecycledVector<Tensor>> inputs(n);
    for (std::size_t i = 0; i < n; ++i) {
      inputs[i].reserve(static_cast<std::size_t>(last - first));
      for (auto member = first; member != last; ++member)
        inputs[i].push_back(std::move(member->contributions[i]));
    }
    const auto reduced = state_.reduce(state_.groups()[logical_device], op_, inputs, root, options_);
    for (std::size_t m = 0; first != last; ++first, ++m) {
      if (root < 0) {
        for (std::size_t i = 0; i < n; ++i) results[first->k].push_back(reduced[i][m]);
      } else {
        for (const Device& device : reductions[first->k].devices)
          results[first->k].push_back(reduced[static_cast<std::size_t>(root)][m].to(device));
      }
    }
  }
  return results;
}

// One contribution for each worker.
Tensor CrossReplicaReduce::over_workers(const Tensor& own) {
  const RecycledVector<Tensor> contribution{own.to(cpu_0()).contiguous()};
  return state_.reduce(state_.worker_group(), op_, {&contribution, 1}, -1, options_)[0][0];
}

IndexedSlices CrossReplicaReduce::sparse(const ReduceValue& value, const Device& device) {
  for (const IndexedSlices& slices : value.slices()) check_sparse_reduction(op_, slices);
  const IndexedSlices& first = value.slices()[0];
  if (is_unchanged(value)) return {first.values.to(device), first.indices.to(device), first.dense_shape};
  if (state_.workers() != nullptr) return sparse_over_workers(value, device);
  RecycledVector<Tensor> rows, indices;
  for (std::size_t i = 0; i < value.slices().size(); ++i) {
    const IndexedSlices& slices = value.slices()[i];
    LOCKSTEP_EXPECTS(slices.dense_shape == first.dense_shape && slices.values.dtype() == first.values.dtype(),
                     CollectiveMismatch, what_, "(", op_, "): replica ", id_of(i), "'s sparse rows of ",
                     slices.dense_shape, " ", slices.values.dtype(), " differ from replica ", id_of(0),
                     "'s of ", first.dense_shape, " ", first.values.dtype(),
                     ". Pass rows of one dense tensor.");
    rows.push_back(slices.values.to(device));
    indices.push_back(slices.indices.to(device));
  }
  Tensor all = concatenate(rows, 0);
  if (op_ == ReduceOp::mean) all = divided(all, state_.num_replicas());
  return {std::move(all), concatenate(indices, 0), first.dense_shape};
}

IndexedSlices CrossReplicaReduce::sparse_over_workers(const ReduceValue& value, const Device& device) {
  RecycledVector<Tensor> rows, indices;
  for (const IndexedSlices& slices : value.slices()) {
    rows.push_back(slices.values);
    indices.push_back(slices.indices);
  }
  const auto wrapped = [&](RecycledVector<Tensor>&& tensors) {
    if (value.kind() == ReduceValue::Kind::per_replica)
      return ReduceValue(ValueAccess::per_replica(std::move(tensors)));
    return ReduceValue(tensors[0]);
  };
  const int num_contributions = value.kind() == ReduceValue::Kind::per_replica
                                    ? state_.num_replicas()
                                    : state_.worker_group().num_ranks();
  Tensor all = state_.gather(wrapped(std::move(rows)), 0).to(device);
  if (op_ == ReduceOp::mean) all = divided(all, num_contributions);
  return {std::move(all), state_.gather(wrapped(std::move(indices)), 0).to(device),
          value.slices()[0].dense_shape};
}

// Without memory where they are another worker's.
RecycledVector<TensorView> CrossReplicaReduce::views_of_all(ReplicaGroup& group,
                                                            std::span<const Tensor> parts) const {
  RecycledVector<TensorView> own, all;
  own.reserve(parts.size());
  for (const Tensor& part : parts) own.push_back(part.view());
  if (state_.workers() == nullptr) return own;
  const std::string_view operation = lasting_name(concat(what_, '(', op_, ", axis)"));
  group.meet_all({.operation = operation}, {}, options_.merged_over(state_.options()).timeout, own);
  all.reserve(static_cast<std::size_t>(group.num_ranks()));
  for (int rank = 0; rank < group.num_ranks(); ++rank) all.push_back(group.tensors_at_meeting(rank, 0)[0]);
  return all;
}

RecycledVector<Contribution> CrossReplicaReduce::along(std::span<const ReduceValue> values, const Axes& axes,
                                                       const Device& device) {
  RecycledVector<Contribution> results;
  results.reserve(values.size());
  for (const ReduceValue& value : values) {
    LOCKSTEP_EXPECTS(!value.is_sparse(), InvalidArgument, what_, "(", op_,
                     "): sparse rows have no axes to reduce along. Make them dense with to_dense() first.");
    results.push_back({along_axes(value, axes, device), {}});
  }
  return results;
}

Tensor CrossReplicaReduce::along_axes(const ReduceValue& value, const Axes& axes, const Device& device) {
  const auto n = static_cast<std::size_t>(state_.num_local_replicas());
  // A plain value is every replica's component.
  RecycledVector<Tensor> parts = value.tensors();
  const bool is_one_mirrored = value.kind() == ReduceValue::Kind::mirrored && value.num_components() == 1;
  if (value.kind() == ReduceValue::Kind::plain || is_one_mirrored)
    parts.assign(n, value.tensors()[0]);
  else
    check_num_components(value);

  const DType dtype = parts[0].dtype();
  const DType result_dtype = reduced_dtype(op_, dtype);  // refuses booleans
  const bool is_mean = op_ == ReduceOp::mean;
  // The sum of 64-bit integers may wrap where their mean fits.
  const bool is_wide_mean = is_mean && (dtype == DType::i64 || dtype == DType::u64);
  // A mean's sums of floats are kept in double, which holds them at any size.
  const DType sum_dtype = is_mean && is_floating(dtype) ? DType::f64 : accumulator_dtype(dtype);
  const ReduceOp step = is_mean ? ReduceOp::sum : op_;
  const bool needs_elements = op_ == ReduceOp::min || op_ == ReduceOp::max;

  double count = 0;  // elements along the axes, over all replicas
  std::int64_t bytes = 0;
  ReplicaGroup& group = state_.groups()[logical_device_for(value, {&device, 1})];
  const RecycledVector<TensorView> all = views_of_all(group, parts);  // of all replicas
  RecycledVector<std::int64_t> counts(all.size());
  RecycledVector<Shape> kept(all.size());  // without the axes
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Shape& shape = all[i].shape;
    LOCKSTEP_EXPECTS(all[i].dtype == all[0].dtype && shape.rank() == all[0].shape.rank(), CollectiveMismatch,
                     what_, "(", op_, ", axis): replica ", i, "'s component ", shape, " ", all[i].dtype,
                     " differs from replica 0's ", all[0].shape, " ", all[0].dtype,
                     " in rank or dtype. Pass the same on every replica.");
    LOCKSTEP_EXPECTS(shape.rank() > 0, InvalidArgument, what_, "(", op_,
                     ", axis): scalars have no axis. Reduce them without one.");
    const RecycledVector<int> normalized = axes.normalized(shape, "reduce");
    counts[i] = 1;
    kept[i] = shape;
    for (std::size_t a = normalized.size(); a-- > 0;) {
      counts[i] *= shape[normalized[a]];
      kept[i] = kept[i].without(normalized[a]);
    }
    LOCKSTEP_EXPECTS(kept[i] == kept[0], CollectiveMismatch, what_, "(", op_, ", axis): replica ", i,
                     "'s component ", shape, " differs from replica 0's ", all[0].shape,
                     " beside the reduced axes. Only sizes along these may differ.");
    count += static_cast<double>(counts[i]);
  }
  for (const Tensor& part : parts) bytes += part.nbytes();
  LOCKSTEP_EXPECTS(!needs_elements || count > 0 || kept[0].empty(), InvalidArgument, what_, "(", op_,
                   ", axis): no replica has an element along the axis, and the ", op_,
                   " of nothing is undefined. Check that the batch is not empty.");

  const double scale = is_mean && dtype == DType::f64 ? arithmetic::sum_scale(count) : 1;
  RecycledVector<RecycledVector<Tensor>> partial(n);
  const auto reduce_part = [&](int replica) {
    const auto i = static_cast<std::size_t>(replica);
    const Tensor& part = parts[i];
    const bool is_empty = counts[i + static_cast<std::size_t>(group.first_rank())] == 0;
    if (is_wide_mean) {
      WideSum sum = wide_sum(part.to(group.devices()[i]), axes);
      partial[i] = {std::move(sum.wrapped), std::move(sum.rough)};
    } else if (kept[0].empty()) {
      partial[i] = {Tensor::empty(kept[0], sum_dtype, group.devices()[i])};
    } else if (needs_elements && is_empty) {  // the others have some
      partial[i] = {Tensor::empty(kept[0], sum_dtype, group.devices()[i])};
      partial[i][0].fill_(identity(op_, sum_dtype));
    } else {
      partial[i] = {reduce_axes(step, part.to(group.devices()[i]), axes, sum_dtype, scale)};
    }
  };
  state_.executor().for_each(bytes / static_cast<std::int64_t>(n), reduce_part);
  const int root = std::max(0, replica_on(group.devices(), device));
  const RecycledVector<Tensor> sums =
      all.size() == 1 ? partial[0]
                      : state_.reduce(group, step, partial, root, options_)[static_cast<std::size_t>(root)];
  Tensor result = sums[0];
  if (is_wide_mean)
    result = WideSum{sums[0], sums[1]}.over(count);
  else if (is_mean)
    result = divided(result, count / scale);  // one division, one rounding
  return result.cast(result_dtype).to(device);
}

}  // namespace lockstep::detail
