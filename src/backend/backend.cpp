#include <numeric>

#include <lockstep/backend/backend.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::backend {

std::vector<int> Backend::default_devices() {
  std::vector<int> indices(static_cast<std::size_t>(num_devices()));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

std::unique_ptr<CommunicatorBackend> Backend::create_communicator(std::span<DeviceBackend* const>,
                                                                  const ProcessRanks& ranks,
                                                                  const CommunicatorConfig&) {
  LOCKSTEP_EXPECTS(false, Unsupported, "a communicator of ", ranks.total(), " ranks in ",
                   ranks.num_ranks.size(), " processes: the ", name(),
                   " backend has none over several processes. Use one process, or devices of another kind.");
}

std::vector<int> Backend::devices_of_native(std::span<void* const> communicators) {
  LOCKSTEP_EXPECTS(false, Unsupported, "Communicator::adopt of ", communicators.size(),
                   " communicators: the ", name(),
                   " backend takes none. Use Communicator::create, or a library built with NCCL.");
}

std::unique_ptr<CommunicatorBackend> Backend::adopt_communicators(std::span<DeviceBackend* const>,
                                                                  std::span<void* const> communicators) {
  devices_of_native(communicators);
  return nullptr;
}

}  // namespace lockstep::backend
