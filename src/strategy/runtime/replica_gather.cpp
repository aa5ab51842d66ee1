#include "strategy/runtime/replica_gather.hpp"

#include <lockstep/error.hpp>
#include <lockstep/ops.hpp>

#include "collectives/packed_all_reduce.hpp"
#include "detail/expects.hpp"
#include "values/gather_checks.hpp"

namespace lockstep::detail {

RecycledVector<Tensor> gather_over(ReplicaGroup& group, int i, std::span<const Tensor> values,
                                   std::int64_t axis, std::string_view structure,
                                   const CommunicationOptions& options) {
  const Device& here = group.devices()[static_cast<std::size_t>(i)];
  RecycledVector<Tensor> inputs;
  RecycledVector<TensorView> views;
  inputs.reserve(values.size());
  views.reserve(values.size());
  for (const Tensor& value : values) {
    inputs.push_back(value.to(here).contiguous());
    views.push_back(inputs.back().view());
  }
  const auto check = [&](std::span<const Arrival* const> arrivals) {
    RecycledVector<std::span<const TensorView>> all;
    const Arrival& first = *arrivals[0];
    for (std::size_t r = 0; r < arrivals.size(); ++r) {
      const Arrival& other = *arrivals[r];
      LOCKSTEP_EXPECTS(other.number == first.number, CollectiveMismatch,
                       "all_gather: ", group.label(static_cast<int>(r)), " gathers along axis ", other.number,
                       ", ", group.label(0), " along axis ", first.number,
                       ". Pass the same axis on every replica.");
      LOCKSTEP_EXPECTS(other.text == first.text, CollectiveMismatch,
                       "all_gather: ", group.label(static_cast<int>(r)), "'s nest ", other.text,
                       " differs from ", group.label(0), "'s ", first.text,
                       ". Pass the same keys and lengths on every replica.");
      all.push_back(other.tensors);
    }
    check_gather(all, axis, "all_gather");
  };
  group.meet(i,
             {.operation = "all_gather",
              .tensors = views,
              .number = axis,
              .text = structure,
              .label = options.label},
             check, options.timeout);
  // Every replica keeps its views until the next meeting, so that the others can read their shapes here.
  const auto n = static_cast<std::size_t>(group.num_ranks());
  RecycledVector<RecycledVector<Shape>> shapes(inputs.size());
  for (RecycledVector<Shape>& of_one : shapes) of_one.reserve(n);
  for (std::size_t k = 0; k < inputs.size(); ++k)
    for (std::size_t r = 0; r < n; ++r)
      shapes[k].push_back(group.tensors_at_meeting(static_cast<int>(r), i)[k].shape);

  RecycledVector<Tensor> flat_inputs, flat_outputs;
  flat_inputs.reserve(inputs.size());
  flat_outputs.reserve(inputs.size());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    std::int64_t total = 0;
    for (const Shape& shape : shapes[k]) total += shape.size();
    flat_inputs.push_back(inputs[k].reshape({inputs[k].size()}));
    flat_outputs.push_back(Tensor::empty({total}, inputs[k].dtype(), here));
  }
  const OwnedBatch batch(group.first_rank() + i, current_stream(here), flat_inputs, flat_outputs);
  group.communicator().all_gather({&batch.batch(), 1}, options);

  RecycledVector<Tensor> results;
  results.reserve(inputs.size());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const int along = shapes[k][0].normalize_axis(axis, "all_gather");
    if (along == 0) {
      std::int64_t rows = 0;
      for (const Shape& shape : shapes[k]) rows += shape[0];
      results.push_back(flat_outputs[k].reshape(shapes[k][0].with(0, rows)));
      continue;
    }
    RecycledVector<Tensor> parts;
    std::int64_t begin = 0;
    for (const Shape& shape : shapes[k]) {
      parts.push_back(flat_outputs[k].slice(begin, begin + shape.size()).reshape(shape));
      begin += shape.size();
    }
    results.push_back(concatenate(parts, along));
  }
  return results;
}

}  // namespace lockstep::detail
