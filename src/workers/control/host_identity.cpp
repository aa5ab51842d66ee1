#include "workers/control/host_identity.hpp"

#include <array>
#include <cstdlib>
#include <fstream>

#include <unistd.h>

namespace lockstep::detail {

std::string host_identity() {
  if (const char* const given = std::getenv("LOCKSTEP_HOST_ID"); given != nullptr && *given != '\0')
    return given;
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) name[0] = '\0';
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  return std::string(name.data()) + "/" + boot_id;
}

}  // namespace lockstep::detail
