#pragma once

#include <vector>

#include <lockstep/device.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// One tensor over several devices: on each an equal tile of it, or a copy. Made by
/// Strategy::split_to_logical_devices and replicate_to_logical_devices, for the logical devices of one
/// replica.
///
/// Reads as the whole tensor. A value; the shards are handles. As Tensors: const calls may run at the same
/// time, and copies are ordered by the devices' current streams. A tile or copy that need not move may share
/// the whole's storage. Using a moved-from one throws ContextError.
class ShardedTensor {
 public:
  /// A tile on each device: tile (i, j, ...) on number i * dims[1] * ... + j * ... of them, row-major.
  /// @param dims  [rank]: how many tiles along each axis.
  /// @throws InvalidArgument  not one entry for each axis; an entry that does not divide its axis; their
  /// product is not the number of devices; checked in this order.
  [[nodiscard]] static ShardedTensor split(const Tensor& whole, const std::vector<int>& dims,
                                           const std::vector<Device>& devices);
  /// A copy on each device. @throws InvalidArgument  no devices.
  [[nodiscard]] static ShardedTensor replicate(const Tensor& whole, const std::vector<Device>& devices);

  /// The whole tensor's shape and dtype.
  [[nodiscard]] const Shape& shape() const& { return shards(), shape_; }
  [[nodiscard]] Shape shape() const&& { return shape(); }
  [[nodiscard]] DType dtype() const { return shards().front().dtype(); }
  /// Tiles along each axis, [rank]; of a replicated tensor 1 each.
  [[nodiscard]] const std::vector<int>& dims() const& { return shards(), dims_; }
  [[nodiscard]] std::vector<int> dims() const&& { return dims(); }
  /// One for each device.
  [[nodiscard]] int num_shards() const { return static_cast<int>(shards().size()); }
  /// The tile on device k, contiguous: [shape[axis] / dims[axis], ...].
  /// @throws InvalidArgument  not 0 <= k < num_shards().
  [[nodiscard]] const Tensor& shard(int k) const&;
  [[nodiscard]] Tensor shard(int k) const&& { return shard(k); }

  /// The whole on current_device(): put together there, or the copy that is there.
  [[nodiscard]] Tensor value() const;
  operator Tensor() const { return value(); }

 private:
  ShardedTensor(Shape shape, std::vector<int> dims, std::vector<Tensor> shards)
      : shape_(std::move(shape)), dims_(std::move(dims)), shards_(std::move(shards)) {}
  /// @throws ContextError  this was moved from.
  const std::vector<Tensor>& shards() const;

  Shape shape_;
  std::vector<int> dims_;
  std::vector<Tensor> shards_;
};

}  // namespace lockstep

#pragma GCC visibility pop
