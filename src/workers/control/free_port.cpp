#include "workers/control/free_port.hpp"

#include <cerrno>
#include <system_error>

#include <netinet/in.h>
#include <sys/socket.h>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/file_descriptor.hpp"

namespace lockstep::detail {

int find_free_port() {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool is_found = socket.is_open() && ::bind(socket.get(), generic, size) == 0 &&
                        ::getsockname(socket.get(), generic, &size) == 0;
  LOCKSTEP_EXPECTS(is_found, Error,
                   "no free TCP port: ", std::error_code(errno, std::generic_category()).message(),
                   ". End processes that hold many connections.");
  return ntohs(address.sin_port);
}

}  // namespace lockstep::detail
