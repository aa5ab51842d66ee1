#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// An algorithm by which a strategy combines values over its devices. Without one the strategy uses its
/// Communicator, and every replica's thread does its part (NCCL between GPUs, shared memory between host
/// replicas). All algorithms follow the same rules for shapes, dtypes and the mean; sums of floats may differ
/// in their last bits, because the order of additions differs.
///
/// One object belongs to one strategy, which serialises its calls.
class CrossDeviceOps {
 public:
  virtual ~CrossDeviceOps() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// Combines one batch. Enqueued on the devices' current streams; the inputs are not changed.
  /// @param inputs   inputs[rank][k]: contiguous, on devices[rank], with shapes and dtypes equal on all
  /// ranks; `op` is defined on the dtypes.
  /// @param devices  one per rank.
  /// @param root     the rank that gets the results; -1: all ranks.
  /// @return results[rank][k], of inputs[rank][k]'s shape and dtype reduced_dtype(op), on devices[rank]; an
  /// empty list for each rank that gets no results. The strategy refuses any other result (InvalidArgument).
  [[nodiscard]] virtual std::vector<std::vector<Tensor>> reduce(
      ReduceOp op, const std::vector<std::vector<Tensor>>& inputs, const std::vector<Device>& devices,
      int root) = 0;
};

/// Copies all inputs to one device, adds them there in rank order, and copies the result to the ranks that
/// get it.
class ReductionToOneDevice : public CrossDeviceOps {
 public:
  /// @param reduce_to  the device that adds; empty: the first device that gets the result.
  explicit ReductionToOneDevice(std::optional<Device> reduce_to = {}) : reduce_to_(std::move(reduce_to)) {}
  std::string_view name() const noexcept override { return "ReductionToOneDevice"; }
  [[nodiscard]] std::vector<std::vector<Tensor>> reduce(ReduceOp op,
                                                        const std::vector<std::vector<Tensor>>& inputs,
                                                        const std::vector<Device>& devices,
                                                        int root) override;

 private:
  std::optional<Device> reduce_to_;
};

/// Adds the inputs of each half of the devices on its first device, then the two sums on the first device of
/// all, and copies the result back the same way. Fewer transfers then cross between the halves, which pays if
/// that link is slow.
class HierarchicalCopyAllReduce : public CrossDeviceOps {
 public:
  std::string_view name() const noexcept override { return "HierarchicalCopyAllReduce"; }
  [[nodiscard]] std::vector<std::vector<Tensor>> reduce(ReduceOp op,
                                                        const std::vector<std::vector<Tensor>>& inputs,
                                                        const std::vector<Device>& devices,
                                                        int root) override;
};

/// Concatenates a batch, dtype by dtype, and all-reduces it in `num_packs` pieces with a Communicator (NCCL
/// between GPUs).
class NcclAllReduce : public CrossDeviceOps {
 public:
  /// @param num_packs  0: no packing. @throws InvalidArgument  num_packs is negative.
  explicit NcclAllReduce(int num_packs = 1);
  std::string_view name() const noexcept override { return "NcclAllReduce"; }
  [[nodiscard]] std::vector<std::vector<Tensor>> reduce(ReduceOp op,
                                                        const std::vector<std::vector<Tensor>>& inputs,
                                                        const std::vector<Device>& devices,
                                                        int root) override;

 private:
  void all_reduce(ReduceOp op, const std::vector<std::vector<Tensor>>& inputs,
                  const std::vector<std::vector<Tensor>>& outputs);

  int num_packs_;
  std::optional<Communicator> communicator_;  // made by the first call, over that call's devices
};

}  // namespace lockstep

#pragma GCC visibility pop
