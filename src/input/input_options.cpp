#include <ostream>

#include <lockstep/input/input_options.hpp>

namespace lockstep {

std::string_view name(InputReplicationMode mode) {
  return mode == InputReplicationMode::per_worker ? "per_worker" : "per_replica";
}

std::ostream& operator<<(std::ostream& out, InputReplicationMode mode) { return out << name(mode); }

}  // namespace lockstep
