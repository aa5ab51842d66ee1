#include <lockstep/collectives/fusion.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep {

std::vector<std::vector<std::size_t>> pack_by_bytes(std::span<const std::size_t> bytes,
                                                    std::int64_t bytes_per_pack) {
  LOCKSTEP_EXPECTS(bytes_per_pack >= 0, InvalidArgument, "pack_by_bytes: bytes_per_pack is ", bytes_per_pack,
                   ". Pass at least 0, which is one pack.");
  std::vector<std::vector<std::size_t>> packs;
  std::size_t held = 0;  // bytes in the last pack
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (packs.empty() || detail::is_full_pack(held, bytes_per_pack)) {
      packs.emplace_back();
      held = 0;
    }
    packs.back().push_back(i);
    held += bytes[i];
  }
  return packs;
}

std::vector<std::int64_t> pack_by_count(std::int64_t n, int num_packs) {
  LOCKSTEP_EXPECTS(n >= 0, InvalidArgument, "pack_by_count: the number of elements is ", n,
                   ". Pass at least 0.");
  LOCKSTEP_EXPECTS(num_packs >= 0, InvalidArgument, "pack_by_count: num_packs is ", num_packs,
                   ". Pass at least 0, which is no packing.");
  if (num_packs == 0) return {n};
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(num_packs), n / num_packs);
  sizes.back() += n % num_packs;
  return sizes;
}

}  // namespace lockstep
