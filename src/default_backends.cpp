#include <lockstep/backend/registry.hpp>
#include <lockstep/host/host_backend.hpp>

namespace lockstep::backend {

std::vector<std::unique_ptr<Backend>> default_backends() {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(host::make_backend());
  return backends;
}

}  // namespace lockstep::backend
