#include <algorithm>
#include <map>

#include <lockstep/collectives/cross_device_ops.hpp>
#include <lockstep/collectives/fusion.hpp>
#include <lockstep/error.hpp>
#include <lockstep/ops.hpp>

#include "collectives/packed_all_reduce.hpp"
#include "detail/expects.hpp"

namespace lockstep {

namespace {

using Batches = std::vector<std::vector<Tensor>>;  // [rank][k]

/// Combines the parts on `device`, in their order, as an axis reduction of their stack: accumulated and
/// rounded once.
Tensor combine(ReduceOp op, const std::vector<Tensor>& parts, const Device& device, DType out_dtype,
               double divisor) {
  const Shape shape = parts[0].shape();
  std::vector<Tensor> rows;
  for (const Tensor& part : parts) rows.push_back(part.to(device).reshape({1, part.size()}));
  if (shape.empty()) return Tensor::empty(shape, out_dtype, device);
  return reduce_axes(op, concatenate(rows, 0), 0, out_dtype, divisor).reshape(shape);
}

Tensor combine(ReduceOp op, const std::vector<Tensor>& parts, const Device& device) {
  const bool is_mean = op == ReduceOp::mean;
  return combine(is_mean ? ReduceOp::sum : op, parts, device, reduced_dtype(op, parts[0].dtype()),
                 is_mean ? static_cast<double>(parts.size()) : 1.0);
}

/// All ranks' k-th tensors.
std::vector<Tensor> column(const Batches& inputs, std::size_t begin, std::size_t end, std::size_t k) {
  std::vector<Tensor> parts;
  for (std::size_t rank = begin; rank < end; ++rank) parts.push_back(inputs[rank][k]);
  return parts;
}

void deliver(const Tensor& result, const std::vector<Device>& devices, int root, Batches& results) {
  for (std::size_t rank = 0; rank < devices.size(); ++rank)
    if (root < 0 || static_cast<int>(rank) == root) {
      // Results are each rank's own: none shares storage with another's.
      Tensor own = result.to(devices[rank]);
      results[rank].push_back(own.is_same_object(result) && root < 0 ? own.clone() : own);
    }
}

}  // namespace

Batches ReductionToOneDevice::reduce(ReduceOp op, const Batches& inputs, const std::vector<Device>& devices,
                                     int root) {
  const Device& device = reduce_to_ ? *reduce_to_ : devices[static_cast<std::size_t>(std::max(root, 0))];
  Batches results(devices.size());
  for (std::size_t k = 0; k < inputs[0].size(); ++k)
    deliver(combine(op, column(inputs, 0, inputs.size(), k), device), devices, root, results);
  return results;
}

Batches HierarchicalCopyAllReduce::reduce(ReduceOp op, const Batches& inputs,
                                          const std::vector<Device>& devices, int root) {
  const std::size_t n = devices.size();
  const std::size_t half = (n + 1) / 2;
  const bool is_mean = op == ReduceOp::mean;
  const ReduceOp step = is_mean ? ReduceOp::sum : op;
  Batches results(n);
  for (std::size_t k = 0; k < inputs[0].size(); ++k) {
    // The sums of halves keep the accumulator's precision, so that the result is rounded once.
    const DType dtype = inputs[0][k].dtype();
    const bool is_integer_mean = is_mean && is_integer(dtype);  // its sum may wrap although the mean fits
    const DType wide = is_integer_mean ? DType::f64 : accumulator_dtype(dtype);
    std::vector<Tensor> parts = column(inputs, 0, n, k);
    if (is_integer_mean)
      for (Tensor& part : parts) part = part.cast(wide);
    const auto middle = parts.begin() + static_cast<std::ptrdiff_t>(half);
    std::vector<Tensor> halves{combine(step, {parts.begin(), middle}, devices[0], wide, 1)};
    if (half < n) halves.push_back(combine(step, {middle, parts.end()}, devices[half], wide, 1));
    Tensor whole = combine(step, halves, devices[0], wide, 1);
    if (is_mean) whole.div_(static_cast<double>(n));
    deliver(whole.cast(reduced_dtype(op, dtype)), devices, root, results);
  }
  return results;
}

NcclAllReduce::NcclAllReduce(int num_packs) : num_packs_(num_packs) {
  LOCKSTEP_EXPECTS(num_packs >= 0, InvalidArgument, "NcclAllReduce: num_packs is ", num_packs,
                   ". Pass a positive number, or 0 for no packing.");
}

void NcclAllReduce::all_reduce(ReduceOp op, const Batches& inputs, const Batches& outputs) {
  std::vector<detail::OwnedBatch> owned;
  std::vector<RankBatch> batches;
  owned.reserve(inputs.size());
  for (std::size_t rank = 0; rank < inputs.size(); ++rank)
    owned.emplace_back(static_cast<int>(rank), current_stream(communicator_->devices()[rank]), inputs[rank],
                       outputs[rank]);
  for (const detail::OwnedBatch& mine : owned) batches.push_back(mine.batch());
  communicator_->all_reduce(op, batches);
}

Batches NcclAllReduce::reduce(ReduceOp op, const Batches& inputs, const std::vector<Device>& devices,
                              int root) {
  if (!communicator_ || communicator_->devices() != devices) communicator_ = Communicator::create(devices);
  const std::size_t n = devices.size();
  Batches results(n);
  for (std::size_t rank = 0; rank < n; ++rank)
    for (Tensor& result : detail::empty_results(op, inputs[rank], devices[rank]))
      results[rank].push_back(std::move(result));
  if (num_packs_ == 0) {
    all_reduce(op, inputs, results);
  } else {
    std::map<DType, std::vector<std::size_t>> by_dtype;
    for (std::size_t k = 0; k < inputs[0].size(); ++k) by_dtype[inputs[0][k].dtype()].push_back(k);
    Batches packs(n), reduced(n), flat(n);  // flat[rank]: one buffer per dtype, of which `reduced` has views
    for (const auto& [dtype, members] : by_dtype)
      for (std::size_t rank = 0; rank < n; ++rank) {
        std::vector<Tensor> parts;
        for (std::size_t k : members) parts.push_back(inputs[rank][k].reshape({inputs[rank][k].size()}));
        const Tensor joined = concatenate(parts, 0);
        flat[rank].push_back(Tensor::empty(joined.shape(), reduced_dtype(op, dtype), devices[rank]));
        std::int64_t begin = 0;
        for (std::int64_t size : pack_by_count(joined.size(), num_packs_)) {
          packs[rank].push_back(joined.slice(begin, begin + size));
          reduced[rank].push_back(flat[rank].back().slice(begin, begin + size));
          begin += size;
        }
      }
    all_reduce(op, packs, reduced);
    for (std::size_t rank = 0; rank < n; ++rank) {
      auto buffer = flat[rank].begin();
      for (const auto& [dtype, members] : by_dtype) {
        std::int64_t begin = 0;
        for (std::size_t k : members) {
          Tensor& result = results[rank][k];
          result.copy_(buffer->slice(begin, begin + result.size()).reshape(result.shape()));
          begin += result.size();
        }
        ++buffer;
      }
    }
  }
  for (std::size_t rank = 0; rank < n; ++rank)
    if (root >= 0 && static_cast<int>(rank) != root) results[rank].clear();
  return results;
}

}  // namespace lockstep
