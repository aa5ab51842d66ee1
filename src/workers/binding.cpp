#include "workers/binding.hpp"

#include <cstdlib>
#include <string_view>

#include <hwloc.h>

#include "detail/concat.hpp"

namespace lockstep::detail {
namespace {

struct Cores {
  int bound = 0;    // those that this process may run on
  int allowed = 0;  // those that it could be given
};

Cores cores() {
  Cores result;
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return result;
  hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_bitmap_t const bound = hwloc_bitmap_alloc();
  if (bound != nullptr && hwloc_topology_load(topology) == 0 &&
      hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) == 0) {
    result.bound = hwloc_bitmap_weight(bound);
    result.allowed = hwloc_bitmap_weight(hwloc_topology_get_allowed_cpuset(topology));
  }
  hwloc_bitmap_free(bound);
  hwloc_topology_destroy(topology);
  return result;
}

std::string_view remedy() {
  if (std::getenv("OMPI_COMM_WORLD_RANK") != nullptr)
    return "mpirun binds so unless told: start with mpirun --bind-to none.";
  if (std::getenv("SLURM_PROCID") != nullptr)
    return "srun has bound it: start with srun --cpu-bind=none, or ask for more --cpus-per-task.";
  return "Start it without taskset or what else binds it.";
}

}  // namespace

std::string binding_warning(int num_local_replicas) {
  const Cores here = cores();
  if (here.bound <= 0 || here.bound >= num_local_replicas || here.bound >= here.allowed) return {};
  return detail::concat("This process is bound to ", here.bound, " of ", here.allowed, " cores, which its ",
                        num_local_replicas, " replicas share. ", remedy());
}

}  // namespace lockstep::detail
