#include "collectives/packed_all_reduce.hpp"

#include <algorithm>
#include <utility>

#include <lockstep/backend/backend.hpp>
#include <lockstep/collectives/fusion.hpp>
#include <lockstep/device_manager.hpp>

namespace lockstep::detail {

namespace {

/// The place of one value in a pack, in elements of the pack's dtype.
struct Member {
  std::size_t index;  // in the batch
  std::int64_t offset;
};

struct Pack {
  DType dtype;
  RecycledVector<Member> members;
  std::int64_t size = 0;  // elements, gaps included
};

/// The same on every rank: it depends on the values' dtypes and sizes only.
RecycledVector<Pack> plan(std::span<const TensorView> values, std::int64_t bytes_per_pack) {
  RecycledVector<std::size_t> indices;
  indices.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].size() > 0) indices.push_back(i);
  std::ranges::sort(indices, {}, [&](std::size_t i) { return std::pair(values[i].dtype, i); });
  RecycledVector<Pack> packs;
  std::size_t held = 0;  // bytes in the last pack, without gaps
  for (const std::size_t i : indices) {
    const DType dtype = values[i].dtype;
    if (packs.empty() || packs.back().dtype != dtype || is_full_pack(held, bytes_per_pack)) {
      packs.push_back({dtype, {}, 0});
      held = 0;
    }
    Pack& pack = packs.back();
    const auto alignment = static_cast<std::int64_t>(kPackAlignment / size_of(dtype));
    pack.members.push_back({i, pack.size});
    pack.size += (values[i].size() + alignment - 1) / alignment * alignment;
    held += static_cast<std::size_t>(values[i].nbytes());
  }
  return packs;
}

void copy(const TensorView& to, const TensorView& from, const StreamRef& stream) {
  stream.device_backend().copy(to.data, from.data, static_cast<std::size_t>(from.nbytes()), stream.handle());
}

}  // namespace

OwnedBatch::OwnedBatch(int rank, StreamRef stream, std::span<const Tensor> inputs,
                       std::span<const Tensor> outputs, std::string_view structure)
    : batch_{rank, stream, {}, {}, structure} {
  inputs_.reserve(inputs.size());
  outputs_.reserve(outputs.size());
  for (const Tensor& tensor : inputs) inputs_.push_back(tensor.view());
  for (const Tensor& tensor : outputs) outputs_.push_back(tensor.view());
  batch_.inputs = inputs_;
  batch_.outputs = outputs_;
}

namespace {

/// Where the run of tensors of one dtype that lie behind each other ends, as views of a bucket do.
std::size_t end_of_bucket(std::span<const Tensor> tensors, std::size_t begin) {
  const auto follows = [&](std::size_t k) {
    const TensorView first = tensors[k - 1].view(), next = tensors[k].view();
    return first.dtype == next.dtype && first.device == next.device && first.size() > 0 && next.size() > 0 &&
           tensors[k - 1].is_contiguous() && tensors[k].is_contiguous() && tensors[k].is_shared() &&
           next.data == static_cast<const std::byte*>(first.data) + first.nbytes();
  };
  std::size_t end = begin + 1;
  while (end < tensors.size() && follows(end)) ++end;
  return end;
}

}  // namespace

RecycledVector<Tensor> empty_results(ReduceOp op, std::span<const Tensor> inputs, const Device& device) {
  RecycledVector<Tensor> results;
  results.reserve(inputs.size());
  for (std::size_t begin = 0; begin < inputs.size();) {
    const std::size_t end = end_of_bucket(inputs, begin);
    const auto bucket = inputs.subspan(begin, end - begin);
    const DType dtype = reduced_dtype(op, bucket.front().dtype());
    std::int64_t size = 0;
    for (const Tensor& input : bucket) size += input.size();
    const Tensor whole =
        Tensor::empty(bucket.size() == 1 ? bucket.front().shape() : Shape(size), dtype, device);
    std::int64_t offset = 0;
    for (const Tensor& input : bucket) {
      results.push_back(
          bucket.size() == 1 ? whole : whole.slice(offset, offset + input.size()).reshape(input.shape()));
      offset += input.size();
    }
    begin = end;
  }
  return results;
}

void all_reduce(Communicator& communicator, ReduceOp op, std::span<const RankBatch> batches,
                const CommunicationOptions& options) {
  const auto& backend = DeviceManager::instance().backend(communicator.devices()[0].kind());
  if (batches[0].inputs.size() < 2 || options.bytes_per_pack == 0 || backend.capabilities().packs) {
    communicator.all_reduce(op, batches, options);
    return;
  }
  // Ranks that disagree must throw before they pack differently.
  communicator.check_all_reduce(op, batches, options);

  RecycledVector<RecycledVector<Tensor>> packed(batches.size()), reduced(batches.size());
  RecycledVector<OwnedBatch> owned;
  RecycledVector<RankBatch> packed_batches;
  owned.reserve(batches.size());
  packed_batches.reserve(batches.size());
  const RecycledVector<Pack> layout = plan(batches[0].inputs, options.bytes_per_pack);
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const RankBatch& batch = batches[b];
    const Device& device = communicator.devices()[static_cast<std::size_t>(batch.rank)];
    StreamScope stream(batch.stream);
    for (const Pack& pack : layout) {
      Tensor buffer =
          Tensor::zeros({pack.size}, pack.dtype, device);  // gaps are reduced, too, so they must be numbers
      for (const Member& member : pack.members) {
        const TensorView& value = batch.inputs[member.index];
        copy(buffer.slice(member.offset, member.offset + value.size()).view(), value, batch.stream);
      }
      packed[b].push_back(std::move(buffer));
    }
    reduced[b] = empty_results(op, packed[b], device);
    owned.emplace_back(batch.rank, batch.stream, packed[b], reduced[b]);
  }
  for (const OwnedBatch& mine : owned) packed_batches.push_back(mine.batch());
  communicator.all_reduce(op, packed_batches, options);
  for (std::size_t b = 0; b < batches.size(); ++b)
    for (std::size_t p = 0; p < layout.size(); ++p)
      for (const Member& member : layout[p].members) {
        const TensorView& value = batches[b].outputs[member.index];
        copy(value, reduced[b][p].slice(member.offset, member.offset + value.size()).view(),
             batches[b].stream);
      }
}

}  // namespace lockstep::detail
