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
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  file.exceptions(std::ios::badbit);  // else a lack of memory would make this another host
  try {
    file >> boot_id;
  } catch (const std::ios::failure&) {  // it cannot be read: all have none
  }
  return std::string(name.data()) + "/" + boot_id;
}

}  // namespace lockstep::detail
