#include "collectives/fingerprint.hpp"

#include <lockstep/error.hpp>

#include "detail/splitmix64.hpp"

namespace lockstep::detail {
namespace {

void mix(std::uint64_t& hash, std::uint64_t value) { hash = splitmix64(hash + value); }

std::uint64_t key_of(const CollectiveCall& call, const TensorView& tensor) {
  std::uint64_t hash = 0;
  mix(hash, static_cast<std::uint64_t>(call.collective) << 24 | static_cast<std::uint64_t>(call.op) << 16 |
                static_cast<std::uint64_t>(tensor.dtype) << 8 |
                static_cast<std::uint64_t>(call.route.implementation) << 1 |
                (call.route.in_rank_order ? 1 : 0));
  mix(hash, static_cast<std::uint64_t>(call.route.peer_bytes));
  const std::string_view structure = call.batch->structure;
  mix(hash, static_cast<std::uint64_t>(tensor.shape.rank()) << 32 | structure.size());
  for (const std::int64_t extent : tensor.shape) mix(hash, static_cast<std::uint64_t>(extent));
  for (const char c : structure) mix(hash, static_cast<unsigned char>(c));
  return hash == 0 ? 1 : hash;
}

// A moved-from stream is of none.
bool is_of(const StreamRef& stream, const backend::DeviceBackend& device_backend) {
  try {
    return &stream.device_backend() == &device_backend;
  } catch (const ContextError&) {
    return false;
  }
}

}  // namespace

Fingerprint fingerprint_of(const CollectiveCall& call, const Device& device,
                           const backend::DeviceBackend& device_backend) {
  const RankBatch& batch = *call.batch;
  if (call.collective != Collective::all_reduce || call.only_checks || batch.inputs.size() != 1 ||
      batch.outputs.size() != 1)
    return {};
  const TensorView& input = batch.inputs.front();
  const TensorView& output = batch.outputs.front();
  const auto size = static_cast<std::size_t>(input.nbytes());
  const auto* read = static_cast<const std::byte*>(input.data);
  auto* written = static_cast<std::byte*>(output.data);
  const bool is_apart = read == written || read + size <= written || written + size <= read;
  const bool is_right = size > 0 && input.dtype == output.dtype && input.shape == output.shape &&
                        read != nullptr && written != nullptr && is_apart && !call.converts(input) &&
                        !is_boolean(input.dtype) && !output.read_only && input.is_contiguous() &&
                        output.is_contiguous() && input.device == device && output.device == device &&
                        is_of(batch.stream, device_backend);
  if (!is_right) return {};
  return {key_of(call, input), read, written, size};
}

}  // namespace lockstep::detail
