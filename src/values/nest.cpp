#include <lockstep/values/nest.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

void raise_wrong_num_components(std::string_view what, int size, int num_replicas) {
  raise<InvalidArgument>(
      {__FILE__, __LINE__, __func__},
      concat(what, ": a distributed argument has ", size, " components, but the strategy has ", num_replicas,
             " local replicas. Pass values made by this strategy, or a plain value for all replicas."));
}

void raise_different_lengths(std::string_view what, std::size_t replica, std::size_t length,
                             std::size_t first_length) {
  raise<InvalidArgument>(
      {__FILE__, __LINE__, __func__},
      concat(what, ": replica ", replica, " gave a vector of length ", length, ", replica 0 one of length ",
             first_length, ". Give the same structure on every replica."));
}

void raise_different_keys(std::string_view what, std::size_t replica) {
  raise<InvalidArgument>({__FILE__, __LINE__, __func__},
                         concat(what, ": replica ", replica,
                                " gave a map with other keys than replica 0's. Give the same structure on "
                                "every replica."));
}

void raise_different_variables(std::string_view what, std::size_t replica, const Variable& variable,
                               const Variable& first) {
  raise<InvalidArgument>(
      {__FILE__, __LINE__, __func__},
      concat(what, ": replica ", replica, " gave the variable '", variable.name(), "', replica 0 '",
             first.name(), "'. Give the same variable on every replica, or its value()."));
}

void raise_mixed_num_components(std::string_view what, int size, int other) {
  raise<InvalidArgument>({__FILE__, __LINE__, __func__},
                         concat(what, ": a value with ", size, " components beside one with ", other,
                                ". Pass values of one strategy together."));
}

std::int64_t num_rows(const std::vector<Tensor>& tensors, std::string_view what) {
  LOCKSTEP_EXPECTS(!tensors.empty(), InvalidArgument, what, ": there are no tensors. Pass at least one.");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    LOCKSTEP_EXPECTS(tensor.rank() > 0, InvalidArgument, what, ": component ", i, " is a scalar, ",
                     describe(tensor), ", and has no rows. Reshape it to rank 1.");
    LOCKSTEP_EXPECTS(tensor.shape()[0] == tensors[0].shape()[0], InvalidArgument, what, ": component ", i,
                     ", ", describe(tensor), ", has ", tensor.shape()[0], " rows, component 0, ",
                     describe(tensors[0]), ", has ", tensors[0].shape()[0],
                     ". Give all components the same number of rows.");
  }
  return tensors[0].shape()[0];
}

}  // namespace lockstep::detail
