#include <lockstep/values/per_replica.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

void raise_not_one_component(int size) {
  raise<InvalidArgument>(
      {__FILE__, __LINE__, __func__},
      concat(
          "PerReplica: one with ", size,
          " components was used as a single value. Take a PerReplica<T> parameter, combine it with reduce or "
          "gather, or take it apart with local_results."));
}

void raise_no_components(std::string_view type) {
  raise<InvalidArgument>({__FILE__, __LINE__, __func__},
                         concat(type, " without components. Pass one for each replica."));
}

void raise_moved_from(std::string_view type) {
  raise<ContextError>({__FILE__, __LINE__, __func__},
                      concat(type, ": used after it was moved from. Use what it was moved to."));
}

void check_component_index(int index, int size) {
  LOCKSTEP_EXPECTS(index >= 0 && index < size, InvalidArgument, "DistributedValues: component ", index,
                   " of a value with ", size, " components. Indices count from 0, one for each replica.");
}

}  // namespace lockstep::detail
