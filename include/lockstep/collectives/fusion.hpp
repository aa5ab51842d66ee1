#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// Members of a packed buffer start at multiples of this many bytes.
inline constexpr std::size_t kPackAlignment = 16;

namespace detail {
/// Whether a pack that holds `bytes` gets no further value.
inline bool is_full_pack(std::size_t bytes, std::int64_t bytes_per_pack) {
  return bytes_per_pack > 0 && bytes > static_cast<std::size_t>(bytes_per_pack);
}
}  // namespace detail

/// Groups consecutive values into packs: a new pack is started when there is none or the current one already
/// holds more than `bytes_per_pack`, so a pack may far exceed the limit and only the last may be below it. 0:
/// one pack.
/// @param bytes  size of each value. @return indices of each pack's values, in order.
/// @throws InvalidArgument  bytes_per_pack < 0.
[[nodiscard]] std::vector<std::vector<std::size_t>> pack_by_bytes(std::span<const std::size_t> bytes,
                                                                  std::int64_t bytes_per_pack);

/// Cuts n elements into `num_packs` pieces of floor(n / num_packs), the last taking the rest. 0: no packing,
/// one piece.
/// @return sizes in elements. @throws InvalidArgument  a negative argument.
[[nodiscard]] std::vector<std::int64_t> pack_by_count(std::int64_t n, int num_packs);

}  // namespace lockstep

#pragma GCC visibility pop
