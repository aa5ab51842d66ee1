#include <cstdint>

#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/sharded_tensor.hpp>

#include "detail/expects.hpp"

namespace lockstep {

namespace {

/// Tile k of `whole`, which has dims[axis] equal tiles along each axis, numbered in row-major order.
Tensor tile(Tensor whole, const std::vector<int>& dims, int k) {
  for (std::size_t axis = dims.size(); axis-- > 0; k /= dims[axis]) {
    const auto along = static_cast<int>(axis);
    const std::int64_t extent = whole.shape()[along] / dims[axis];
    const std::int64_t begin = k % dims[axis] * extent;
    whole = whole.narrow(along, begin, begin + extent);
  }
  return whole;
}

/// "[2, 3]".
std::string text(const std::vector<int>& dims) {
  std::string list;
  for (const int n : dims) list += (list.empty() ? "" : ", ") + std::to_string(n);
  return "[" + list + "]";
}

}  // namespace

ShardedTensor ShardedTensor::split(const Tensor& whole, const std::vector<int>& dims,
                                   const std::vector<Device>& devices) {
  const auto what = [&] {
    return detail::concat("splitting ", describe(whole), " in ", text(dims), " tiles");
  };
  LOCKSTEP_EXPECTS(static_cast<int>(dims.size()) == whole.rank(), InvalidArgument, what(), ": there are ",
                   dims.size(), " numbers of tiles for ", whole.rank(), " axes. Give one for each axis.");
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    const std::int64_t extent = whole.shape()[static_cast<int>(axis)];
    LOCKSTEP_EXPECTS(dims[axis] >= 1 && extent % dims[axis] == 0, InvalidArgument, what(), ": ", dims[axis],
                     " tiles do not divide axis ", axis, " of size ", extent,
                     ". Pad it, or choose a divisor of its size.");
  }
  const auto num_devices = static_cast<std::int64_t>(devices.size());
  std::int64_t num_tiles = 1;
  for (const int n : dims)
    if (num_tiles <= num_devices) num_tiles *= n;  // more would be too many anyway; this avoids overflow
  LOCKSTEP_EXPECTS(num_tiles == num_devices, InvalidArgument, what(), ": a replica has ", num_devices,
                   " logical devices, each of which holds one tile. Give numbers whose product is that.");
  std::vector<Tensor> shards;
  for (std::size_t k = 0; k < devices.size(); ++k)
    shards.push_back(tile(whole, dims, static_cast<int>(k)).contiguous().to(devices[k]));
  return {whole.shape(), dims, std::move(shards)};
}

ShardedTensor ShardedTensor::replicate(const Tensor& whole, const std::vector<Device>& devices) {
  LOCKSTEP_EXPECTS(!devices.empty(), InvalidArgument, "ShardedTensor::replicate of ", describe(whole),
                   ": there are no devices. Pass one or more.");
  std::vector<Tensor> shards;
  for (const Device& device : devices) shards.push_back(whole.contiguous().to(device));
  return {whole.shape(), std::vector<int>(static_cast<std::size_t>(whole.rank()), 1), std::move(shards)};
}

const std::vector<Tensor>& ShardedTensor::shards() const {
  if (shards_.empty()) detail::raise_moved_from("ShardedTensor");
  return shards_;
}

const Tensor& ShardedTensor::shard(int k) const& {
  LOCKSTEP_EXPECTS(k >= 0 && k < num_shards(), InvalidArgument, "ShardedTensor: there is no shard ", k,
                   ". Pass a number from 0 to ", num_shards() - 1, ".");
  return shards_[static_cast<std::size_t>(k)];
}

Tensor ShardedTensor::value() const {
  const Device& here = current_device();
  if (shards().front().shape() == shape_) {  // the tensor is replicated, or has one tile
    for (const Tensor& shard : shards_)
      if (shard.device() == here) return shard;
    return shards_.front().to(here);
  }
  Tensor whole = Tensor::empty(shape_, dtype(), here);
  for (int k = 0; k < num_shards(); ++k) tile(whole, dims_, k).copy_(shard(k));
  return whole;
}

}  // namespace lockstep
