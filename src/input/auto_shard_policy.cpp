#include <ostream>

#include <lockstep/input/auto_shard_policy.hpp>

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

std::ostream& operator<<(std::ostream& out, AutoShardPolicy policy) { return out << name(policy); }

}  // namespace lockstep
