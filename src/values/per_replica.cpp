#include <lockstep/values/per_replica.hpp>

namespace lockstep::detail {

void raise_not_one_component(int size) {
  raise<InvalidArgument>(
      {__FILE__, __LINE__, __func__},
      concat(
          "a per-replica value with ", size,
          " components was used as a single value. Take a PerReplica<T> parameter, combine it with reduce or "
          "gather, or take it apart with local_results."));
}

void raise_no_components(std::string_view what) {
  raise<InvalidArgument>({__FILE__, __LINE__, __func__},
                         concat(what, " without components. Pass one for each replica."));
}

void check_component_index(int index, int size) {
  LOCKSTEP_EXPECTS(index >= 0 && index < size, InvalidArgument, "component ", index, " of a value with ",
                   size, " components. Indices count from 0, one for each replica.");
}

}  // namespace lockstep::detail
