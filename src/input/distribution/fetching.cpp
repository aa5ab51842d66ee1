#include "input/distribution/fetching.hpp"

#include <utility>

#include <lockstep/backend/device_backend.hpp>

namespace lockstep::detail {
namespace {

/// Each leaf is aligned as a buffer is.
constexpr std::size_t kAlignment = 256;

std::size_t num_bytes(const LeafType& type) {
  return static_cast<std::size_t>(type.shape.size()) * size_of(type.dtype);
}

}  // namespace

FlatElement receive(FetchedElement&& element) {
  if (element.copied) {
    const StreamRef stream = current_stream(element.copied->device());
    stream.wait(*element.copied);
    for (Tensor& tensor : element.tensors) tensor.set_stream(stream);
  }
  return std::move(element.tensors);
}

StagedFetcher::StagedFetcher(const Device& device, std::size_t max_free)
    : device_(device), stream_(device), max_free_(max_free) {}

StagedFetcher::~StagedFetcher() {
  stream_.device_backend().finish(stream_.handle());
  for (const auto& memory : memory_) memory->close();
}

std::vector<std::size_t> StagedFetcher::offsets(const std::vector<LeafType>& leaves) {
  std::vector<std::size_t> result{0};
  for (const LeafType& leaf : leaves)
    result.push_back(result.back() + (num_bytes(leaf) + kAlignment - 1) / kAlignment * kAlignment);
  return result;
}

Tensor StagedFetcher::copy(const LeafType& type, const std::byte* rows, std::size_t leaf) {
  const std::size_t size_bytes = num_bytes(type);
  if (size_bytes == 0) return Tensor::empty(type.shape, type.dtype, device_);
  std::shared_ptr<Buffer> memory = memory_[leaf]->take(size_bytes, stream_);
  stream_.device_backend().copy_from_host(memory->data(), rows, size_bytes, stream_.handle());
  TensorView view(memory->data(), type.shape, type.dtype, device_);
  return Tensor::adopt(std::move(memory), std::move(view));
}

FetchedElement StagedFetcher::fetch(const Part& part) {
  std::vector<LeafType> leaves;
  for (std::size_t leaf = 0; leaf < num_leaves(part); ++leaf) leaves.push_back(leaf_of(part, leaf));
  const std::vector<std::size_t> begin = offsets(leaves);
  while (memory_.size() < leaves.size()) memory_.push_back(std::make_shared<RecycledMemory>(max_free_));

  Slot& slot = slots_[next_slot_];
  if (slot.copied) slot.copied->synchronize();
  if (slot.rows.bytes().size() < begin.back()) slot.rows = PinnedBuffer(begin.back(), device_);
  const auto copied = std::make_shared<const Event>(device_);
  FetchedElement element{{}, copied};
  try {
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      std::byte* const rows = slot.rows.bytes().data() + begin[leaf];
      copy_rows(part, leaf, rows);
      element.tensors.push_back(copy(leaves[leaf], rows, leaf));
    }
    copied->record(stream_);
  } catch (...) {
    stream_.synchronize();  // copies of earlier leaves may be in progress
    throw;
  }
  slot.copied = copied;
  next_slot_ = (next_slot_ + 1) % slots_.size();
  return element;
}

std::unique_ptr<Fetcher> make_fetcher(const Device& device, int num_ahead) {
  if (device.kind() == DeviceKind::cpu) return std::make_unique<HostFetcher>(device);
  // Besides the elements ahead, one is being fetched and one belongs to the caller.
  return std::make_unique<StagedFetcher>(device, static_cast<std::size_t>(num_ahead) + 2);
}

}  // namespace lockstep::detail
