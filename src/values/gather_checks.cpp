#include "values/gather_checks.hpp"

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

void check_gather(std::span<const std::span<const TensorView>> parts, std::int64_t axis,
                  std::string_view what) {
  for (std::size_t r = 0; r < parts.size(); ++r) {
    LOCKSTEP_EXPECTS(parts[r].size() == parts[0].size(), CollectiveMismatch, what, ": replica ", r,
                     " passed ", parts[r].size(), " tensors, replica 0 ", parts[0].size(),
                     ". Pass the same structure on every replica.");
    for (std::size_t k = 0; k < parts[r].size(); ++k) {
      const TensorView& first = parts[0][k];
      const TensorView& part = parts[r][k];
      LOCKSTEP_EXPECTS(part.shape.rank() > 0, InvalidArgument, what, " on replica ", r,
                       ": scalars cannot be concatenated. Reshape them to [1] first.");
      LOCKSTEP_EXPECTS(part.dtype == first.dtype, CollectiveMismatch, what, " on replica ", r, ": ",
                       part.shape, " ", part.dtype, " differs from replica 0's ", first.shape, " ",
                       first.dtype, ". Pass equal dtypes on every replica.");
      LOCKSTEP_EXPECTS(part.shape.rank() == first.shape.rank(), InvalidArgument, what, " on replica ", r,
                       ": shape ", part.shape, " differs in rank from replica 0's ", first.shape,
                       ". Pass equal ranks on every replica.");
      const int along = part.shape.normalize_axis(axis, what);
      LOCKSTEP_EXPECTS(part.shape.without(along) == first.shape.without(along), InvalidArgument, what,
                       " on replica ", r, ": shape ", part.shape, " differs from replica 0's ", first.shape,
                       " beside axis ", axis, ". Only the sizes along that axis may differ.");
    }
  }
}

}  // namespace lockstep::detail
