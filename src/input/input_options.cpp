#include <ostream>

#include <lockstep/input/input_options.hpp>

namespace lockstep {

std::string_view name(AutoShardPolicy policy) {
  switch (policy) {
    case AutoShardPolicy::off: return "off";
    case AutoShardPolicy::automatic: return "automatic";
    case AutoShardPolicy::file: return "file";
    case AutoShardPolicy::data: return "data";
    case AutoShardPolicy::hint: break;
  }
  return "hint";
}

std::string_view name(InputReplicationMode mode) {
  return mode == InputReplicationMode::per_worker ? "per_worker" : "per_replica";
}

std::ostream& operator<<(std::ostream& out, AutoShardPolicy policy) { return out << name(policy); }
std::ostream& operator<<(std::ostream& out, InputReplicationMode mode) { return out << name(mode); }

}  // namespace lockstep
