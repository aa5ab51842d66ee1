#include <ostream>

#include <lockstep/input/input_options.hpp>

namespace lockstep {

std::string_view name(InputReplicationMode mode) {
  return mode == InputReplicationMode::per_worker ? "per_worker" : "per_replica";
}

std::ostream& operator<<(std::ostream& out, InputReplicationMode mode) { return out << name(mode); }

std::string_view name(BatchSplit split) {
  switch (split) {
    case BatchSplit::ceiling: return "ceiling";
    case BatchSplit::balanced: return "balanced";
    case BatchSplit::weighted: break;
  }
  return "weighted";
}

std::ostream& operator<<(std::ostream& out, BatchSplit split) { return out << name(split); }

}  // namespace lockstep
