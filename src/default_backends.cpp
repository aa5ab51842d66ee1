#include <lockstep/backend/registry.hpp>
#include <lockstep/cuda/cuda_backend.hpp>
#include <lockstep/host/host_backend.hpp>
#include <lockstep/version.hpp>

namespace lockstep::backend {

std::vector<std::unique_ptr<Backend>> default_backends() {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(host::make_backend());
#if LOCKSTEP_HAS_CUDA
  backends.push_back(cuda::make_backend());
#endif
  return backends;
}

}  // namespace lockstep::backend
