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
/// Whether a pack that holds `bytes` takes no further value.
inline bool is_full_pack(std::size_t bytes, std::int64_t bytes_per_pack) {
  return bytes_per_pack > 0 && bytes > static_cast<std::size_t>(bytes_per_pack);
}
}  // namespace detail

/// Groups consecutive values into packs. A new pack starts when the current one already holds more than
/// `bytes_per_pack`; a pack may thus far exceed the limit, and only the last may be below it. 0: a single
/// pack.
/// @param bytes  size of each value. @return indices of each pack's values, in order.
/// @throws InvalidArgument  bytes_per_pack < 0.
[[nodiscard]] std::vector<std::vector<std::size_t>> pack_by_bytes(std::span<const std::size_t> bytes,
                                                                  std::int64_t bytes_per_pack);

/// Cuts n elements into `num_packs` pieces of floor(n / num_packs) elements; the last piece takes the
/// remainder. 0: no packing, a single piece.
/// @return sizes in elements. @throws InvalidArgument  an argument is negative.
[[nodiscard]] std::vector<std::int64_t> pack_by_count(std::int64_t n, int num_packs);

}  // namespace lockstep

#pragma GCC visibility pop
