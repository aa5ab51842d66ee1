#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/error.hpp>
#include <lockstep/host/host_backend.hpp>

#include "detail/expects.hpp"
#include "detail/numa.hpp"
#include "host/host_communicator.hpp"
#include "host/host_device.hpp"
#include "host/host_memory.hpp"
#include "host/processes/engine_communicator.hpp"
#include "host/processes/shared_memory_communicator.hpp"

namespace lockstep::host {
namespace {

constexpr const char* kNumDevicesVariable = "LOCKSTEP_HOST_DEVICES";

// Each replica is a thread; a request for more is taken for a typing error.
constexpr int kMaxDevices = 4096;

int num_devices_from_environment() {
  const char* const text = std::getenv(kNumDevicesVariable);
  if (text == nullptr || *text == '\0') return 1;
  int n = 0;
  const std::string_view view(text);
  const auto [end, error] = std::from_chars(view.begin(), view.end(), n);
  LOCKSTEP_EXPECTS(error == std::errc() && end == view.end() && n >= 1 && n <= kMaxDevices, InvalidArgument,
                   "Enumerating CPUs: the environment variable ", kNumDevicesVariable, " is \"", view,
                   "\". Set it to a whole number from 1 to ", kMaxDevices, ", or unset it for one CPU.");
  return n;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t value = line.find(": ");
    if (line.starts_with("model name") && value != std::string::npos) return line.substr(value + 2);
  }
  return "CPU";
}

bool are_on_one_host(const backend::ProcessGroup& group) {
  for (int process = 1; process < group.num_processes(); ++process)
    if (group.host(process) != group.host(0)) return false;
  return true;
}

class HostBackend final : public backend::Backend {
 public:
  std::string_view name() const noexcept override { return "host"; }
  DeviceKind kind() const noexcept override { return DeviceKind::cpu; }
  int interface_version() const noexcept override { return backend::kInterfaceVersion; }
  backend::Capabilities capabilities() const noexcept override {
    return {.host_accessible = true, .f8 = true};
  }

  int num_devices() override {
    if (!num_devices_) num_devices_ = num_devices_from_environment();
    return *num_devices_;
  }
  bool has_device(int index) override { return index >= 0 && index < kMaxDevices; }
  DeviceInfo info(int index) override {
    return {.name = cpu_name(),
            .memory_bytes = total_memory_bytes(),
            .numa_node = detail::Numa::machine().node_of(index)};
  }
  PeerLink peer_link(int a, int b) override {
    return a == b ? PeerLink::same_device : PeerLink::shared_memory;
  }

  void set_virtual_devices(int index, int n) override {
    LOCKSTEP_EXPECTS(index == 0, Unsupported, "set_virtual_devices(\"CPU:", index, "\", ", n,
                     "): all CPU:k are one processor. Split CPU:0.");
    LOCKSTEP_EXPECTS(n <= kMaxDevices, InvalidArgument, "set_virtual_devices(\"CPU:0\", ", n,
                     "): each is a thread. Pass ", kMaxDevices, " at most.");
    num_devices_ = n;
  }

  std::unique_ptr<backend::DeviceBackend> open(int index) override {
    std::shared_ptr<HostMemory>& memory =
        memories_[static_cast<std::size_t>(index % detail::Numa::machine().num_nodes())];
    if (memory == nullptr) memory = std::make_shared<HostMemory>(detail::Numa::machine().node_of(index));
    return std::make_unique<HostDevice>(index, memory);
  }

  std::unique_ptr<backend::CommunicatorBackend> create_communicator(
      std::span<backend::DeviceBackend* const> devices, const CommunicatorConfig&) override {
    return make_host_communicator(static_cast<int>(devices.size()));
  }
  std::unique_ptr<backend::CommunicatorBackend> create_communicator(
      std::span<backend::DeviceBackend* const> /*devices*/, const backend::ProcessRanks& ranks,
      const CommunicatorConfig&) override {
    if (are_on_one_host(*ranks.group)) return make_shared_memory_communicator(ranks);
    return std::make_unique<EngineCommunicator>(ranks, ranks.group->open_channel());
  }

 private:
  std::optional<int> num_devices_;
  // One for each NUMA node; the devices, which outlive this, also own them.
  std::vector<std::shared_ptr<HostMemory>> memories_ =
      std::vector<std::shared_ptr<HostMemory>>(static_cast<std::size_t>(detail::Numa::machine().num_nodes()));
};

}  // namespace

std::unique_ptr<backend::Backend> make_backend() { return std::make_unique<HostBackend>(); }

}  // namespace lockstep::host
