#include "collectives/checked_reduce.hpp"

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

RecycledVector<RecycledVector<Tensor>> checked_reduce(CrossDeviceOps& ops, ReduceOp op,
                                                      std::span<const RecycledVector<Tensor>> inputs,
                                                      const std::vector<Device>& devices, int root) {
  std::vector<std::vector<Tensor>> given;
  for (const auto& input : inputs) given.emplace_back(input.begin(), input.end());
  const std::vector<std::vector<Tensor>> results = ops.reduce(op, given, devices, root);
  LOCKSTEP_EXPECTS(results.size() == devices.size(), InvalidArgument, ops.name(), "::reduce(", op,
                   ") returned ", results.size(), " lists of results for ", devices.size(),
                   " ranks. Return one for each rank.");
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    if (root >= 0 && static_cast<int>(rank) != root) continue;
    LOCKSTEP_EXPECTS(results[rank].size() == inputs[rank].size(), InvalidArgument, ops.name(), "::reduce(",
                     op, ") returned ", results[rank].size(), " results for rank ", rank, ", which gave ",
                     inputs[rank].size(), " tensors. Return one for each.");
    for (std::size_t k = 0; k < results[rank].size(); ++k) {
      const Tensor& result = results[rank][k];
      const Tensor& input = inputs[rank][k];
      const DType dtype = reduced_dtype(op, input.dtype());
      LOCKSTEP_EXPECTS(result.defined() && result.shape() == input.shape() && result.dtype() == dtype &&
                           result.device() == devices[rank],
                       InvalidArgument, ops.name(), "::reduce(", op, ") returned ", describe(result),
                       " as tensor ", k, " of rank ", rank, ", where ", input.shape(), " ", dtype, " on ",
                       devices[rank], " is due. Return results of the inputs' shape, on the rank's device.");
    }
  }
  RecycledVector<RecycledVector<Tensor>> checked;
  for (const auto& result : results) checked.emplace_back(result.begin(), result.end());
  return checked;
}

}  // namespace lockstep::detail
