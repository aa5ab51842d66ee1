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

/// An explicit choice of how a strategy combines values over its devices. Without one it uses its
/// Communicator: every replica's thread takes its share (NCCL between GPUs, shared memory between host
/// replicas). All choices follow the same rules for shapes, dtypes and MEAN; sums of floats may differ in
/// their last bits, as the order of additions does.
///
/// One object belongs to one strategy, which serialises its calls.
class CrossDeviceOps {
 public:
  virtual ~CrossDeviceOps() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// Combines one batch. Enqueued on the devices' current streams; sources are not changed.
  /// @param inputs   inputs[rank][k]: contiguous, on devices[rank], alike on all ranks; dtypes on which `op`
  /// is defined.
  /// @param devices  one per rank.
  /// @param root     the rank that gets the results, or -1: all.
  /// @return results[rank][k], of inputs[rank][k]'s shape, dtype reduced_dtype(op), on devices[rank]; empty
  /// lists for ranks that get none. The strategy refuses other ones (InvalidArgument).
  [[nodiscard]] virtual std::vector<std::vector<Tensor>> reduce(
      ReduceOp op, const std::vector<std::vector<Tensor>>& inputs, const std::vector<Device>& devices,
      int root) = 0;
};

/// Copies everything to one device, adds up there in rank order, and copies the result to whoever gets it.
class ReductionToOneDevice : public CrossDeviceOps {
 public:
  /// @param reduce_to  the device that adds; none: the first that gets the result.
  explicit ReductionToOneDevice(std::optional<Device> reduce_to = {}) : reduce_to_(std::move(reduce_to)) {}
  std::string_view name() const noexcept override { return "ReductionToOneDevice"; }
  [[nodiscard]] std::vector<std::vector<Tensor>> reduce(ReduceOp op,
                                                        const std::vector<std::vector<Tensor>>& inputs,
                                                        const std::vector<Device>& devices,
                                                        int root) override;

 private:
  std::optional<Device> reduce_to_;
};

/// Adds up in each half of the devices on its first one, then the two halves' sums on the first of all, then
/// copies back the same way: fewer transfers cross from one half to the other, where that is the slow link.
class HierarchicalCopyAllReduce : public CrossDeviceOps {
 public:
  std::string_view name() const noexcept override { return "HierarchicalCopyAllReduce"; }
  [[nodiscard]] std::vector<std::vector<Tensor>> reduce(ReduceOp op,
                                                        const std::vector<std::vector<Tensor>>& inputs,
                                                        const std::vector<Device>& devices,
                                                        int root) override;
};

/// Concatenates a batch (dtype by dtype) and all-reduces it in `num_packs` pieces by a Communicator: NCCL
/// between GPUs.
class NcclAllReduce : public CrossDeviceOps {
 public:
  /// @param num_packs  0: no packing. @throws InvalidArgument  negative.
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
  std::optional<Communicator> communicator_;  // made by the first call, over its devices
};

}  // namespace lockstep

#pragma GCC visibility pop
