#include "detail/numa.hpp"

#include <algorithm>

#include <hwloc.h>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/lazy.hpp"

namespace lockstep::detail {

namespace {

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const noexcept { hwloc_bitmap_free(bitmap); }
};
using Cores = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

}  // namespace

struct Numa::Impl {
  // Null: hwloc failed; the machine then counts as one node.
  hwloc_topology_t topology = nullptr;
  int num_nodes = 1;

  // Only cores and nodes are requested; looking for caches and buses takes most of the time.
  explicit Impl(const char* synthetic) {
    if (hwloc_topology_init(&topology) != 0) {
      topology = nullptr;
      return;
    }
    hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    const bool loaded = (synthetic == nullptr || hwloc_topology_set_synthetic(topology, synthetic) == 0) &&
                        hwloc_topology_load(topology) == 0;
    if (loaded) {
      num_nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
      return;
    }
    hwloc_topology_destroy(topology);
    topology = nullptr;
  }
  ~Impl() {
    if (topology != nullptr) hwloc_topology_destroy(topology);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  hwloc_obj_t node(int index) const {
    if (topology == nullptr || num_nodes < 2 || index < 0) return nullptr;
    return hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(index));
  }
  // Null: the cores are unknown.
  Cores allowed_cores() const noexcept {
    Cores cores(topology == nullptr ? nullptr : hwloc_bitmap_alloc());
    if (cores && hwloc_get_cpubind(topology, cores.get(), HWLOC_CPUBIND_THREAD) != 0) cores.reset();
    return cores;
  }
  bool bind(const Cores& cores) const noexcept {
    return !hwloc_bitmap_iszero(cores.get()) &&
           hwloc_set_cpubind(topology, cores.get(), HWLOC_CPUBIND_THREAD) == 0;
  }
};

Numa::Numa() : impl_(std::make_unique<Impl>(nullptr)) {}
Numa::Numa(const std::string& synthetic) : impl_(std::make_unique<Impl>(synthetic.c_str())) {
  LOCKSTEP_EXPECTS(impl_->topology != nullptr, InvalidArgument, "Numa: hwloc cannot make \"", synthetic,
                   "\". Write levels, as \"node:2 core:4 pu:1\".");
}
Numa::~Numa() = default;

const Numa& Numa::machine() {
  static constinit Lazy<const Numa> numa("the machine's topology, which was being looked at");
  return numa.get([] { return new Numa(); });
}

int Numa::num_nodes() const noexcept { return impl_->num_nodes; }

bool Numa::bind_thread(int node) const noexcept {
  const hwloc_obj_t found = impl_->node(node);
  if (found == nullptr) return false;
  const Cores cores = impl_->allowed_cores();
  return cores && hwloc_bitmap_and(cores.get(), cores.get(), found->cpuset) == 0 && impl_->bind(cores);
}

int Numa::core() const noexcept {
  const Cores allowed = impl_->allowed_cores();
  const Cores here(hwloc_bitmap_alloc());
  if (!allowed || !here ||
      hwloc_get_last_cpu_location(impl_->topology, here.get(), HWLOC_CPUBIND_THREAD) != 0)
    return 0;
  int place = 0;
  const int last = hwloc_bitmap_first(here.get());
  for (int each = hwloc_bitmap_first(allowed.get()); each >= 0 && each < last; ++place)
    each = hwloc_bitmap_next(allowed.get(), each);
  return place;
}

bool Numa::bind_to_core(int k) const noexcept {
  const Cores allowed = impl_->allowed_cores();
  const Cores one(hwloc_bitmap_alloc());
  if (!allowed || !one || k < 0) return false;
  int each = hwloc_bitmap_first(allowed.get());
  for (int skip = k % std::max(hwloc_bitmap_weight(allowed.get()), 1); skip > 0; --skip)
    each = hwloc_bitmap_next(allowed.get(), each);
  return each >= 0 && hwloc_bitmap_only(one.get(), static_cast<unsigned>(each)) == 0 && impl_->bind(one);
}

bool Numa::move_to_core(int k) const noexcept {
  const Cores allowed = impl_->allowed_cores();
  return allowed && bind_to_core(k) && impl_->bind(allowed);
}

bool Numa::bind_memory(void* data, std::size_t size_bytes, int node) const noexcept {
  const hwloc_obj_t found = impl_->node(node);
  return found != nullptr && hwloc_set_area_membind(impl_->topology, data, size_bytes, found->nodeset,
                                                    HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_BYNODESET) == 0;
}

}  // namespace lockstep::detail
