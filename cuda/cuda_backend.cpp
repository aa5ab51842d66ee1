#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/cuda/cuda_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/version.hpp>

#include "communicators/cuda_communicators.hpp"
#include "detail/expects.hpp"
#include "detail/warn.hpp"
#include "device/cuda_device.hpp"
#include "device/device_guard.hpp"
#include "device/gpus.hpp"
#include "libraries/cuda_error.hpp"
#include "libraries/nvtx_ranges.hpp"

namespace lockstep::cuda {
namespace {

std::string pci_bus_id(int ordinal) {
  char text[32] = "";
  if (cudaDeviceGetPCIBusId(text, sizeof text, ordinal) != cudaSuccess) cudaGetLastError();
  std::string id = text;
  for (char& c : id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return id;
}

int numa_node_of(const std::string& bus_id) {
  std::ifstream file("/sys/bus/pci/devices/" + bus_id + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

// Runs at the process's end. The CUDA runtime's streams and pools are still there: the runtime was loaded
// before this was registered. A fork releases nothing: everything belongs to the other process.
void close() {
  if (is_fork_of_user()) return;
  CudaDevice::close_all();
  PinnedMemory::instance().trim();
}

class CudaBackend final : public backend::Backend {
 public:
  std::string_view name() const noexcept override { return "cuda"; }
  DeviceKind kind() const noexcept override { return DeviceKind::gpu; }
  int interface_version() const noexcept override { return backend::kInterfaceVersion; }
  backend::Capabilities capabilities() const noexcept override {
    return {.asynchronous = true, .packs = true, .f8 = true, .capture = true};
  }

  int num_devices() override { return static_cast<int>(ordinals().size()); }
  bool has_device(int index) override { return 0 <= index && index < num_devices(); }

  std::vector<int> default_devices() override {
    std::vector<int> indices;
    for (int index = 0; index < num_devices(); ++index) {
      if (is_default(index)) indices.push_back(index);
    }
    return indices;
  }

  DeviceInfo info(int index) override {
    const int ordinal = ordinals()[static_cast<std::size_t>(index)];
    const Device device(DeviceKind::gpu, index);
    cudaDeviceProp properties{};
    LOCKSTEP_CUDA_CHECK(cudaGetDeviceProperties(&properties, ordinal), device,
                        "Reading the device's properties");
    const std::string bus_id = pci_bus_id(ordinal);
    return {.name = properties.name,
            .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
            .pci_bus_id = bus_id,
            .compute_capability = {properties.major, properties.minor},
            .numa_node = numa_node_of(bus_id)};
  }

  PeerLink peer_link(int a, int b) override {
    const int from = ordinals()[static_cast<std::size_t>(a)];
    const int to = ordinals()[static_cast<std::size_t>(b)];
    if (from == to) return PeerLink::same_device;
    int can_access = 0;
    if (cudaDeviceCanAccessPeer(&can_access, from, to) != cudaSuccess) cudaGetLastError();
    if (can_access == 0) return PeerLink::none;
    // Only NVLink has hardware atomics in both directions.
    int has_atomics = 0;
    if (cudaDeviceGetP2PAttribute(&has_atomics, cudaDevP2PAttrNativeAtomicSupported, from, to) != cudaSuccess)
      cudaGetLastError();
    return has_atomics != 0 ? PeerLink::nvlink : PeerLink::pcie;
  }

  void set_virtual_devices(int index, int n) override {
    std::vector<int>& all = ordinals();
    const int ordinal = all[static_cast<std::size_t>(index)];
    const auto [first, last] = std::equal_range(all.begin(), all.end(), ordinal);
    LOCKSTEP_EXPECTS(first - all.begin() == index, Unsupported, "set_virtual_devices(\"GPU:", index, "\", ",
                     n, "): this is a virtual device itself. Split GPU:", first - all.begin(), ".");
    const auto at = all.erase(first, last);
    all.insert(at, static_cast<std::size_t>(n), ordinal);
  }

  std::unique_ptr<backend::DeviceBackend> open(int index) override {
    const int ordinal = ordinals()[static_cast<std::size_t>(index)];
    require_code(ordinal, Device(DeviceKind::gpu, index));
    static const int registered = std::atexit(close);
    static_cast<void>(registered);
    std::shared_ptr<CudaMemory>& memory = memories_[ordinal];
    if (memory == nullptr) memory = std::make_shared<CudaMemory>(ordinal, Device(DeviceKind::gpu, index));
    return std::make_unique<CudaDevice>(index, ordinal, memory);
  }

  std::unique_ptr<backend::CommunicatorBackend> create_communicator(
      std::span<backend::DeviceBackend* const> devices, const CommunicatorConfig& config) override {
    return for_new_results(devices, make_cuda_communicator(ranks_of(devices), config));
  }
  std::unique_ptr<backend::CommunicatorBackend> create_communicator(
      std::span<backend::DeviceBackend* const> devices, const backend::ProcessRanks& ranks,
      const CommunicatorConfig& config) override {
    return for_new_results(devices, make_cuda_communicator(ranks_of(devices), ranks, config));
  }

#if LOCKSTEP_HAS_NCCL
  std::vector<int> devices_of_native(std::span<void* const> communicators) override {
    std::vector<int> devices;
    for (const int ordinal : ordinals_of(communicators)) {
      const auto found = std::ranges::find(ordinals(), ordinal);
      devices.push_back(static_cast<int>(found - ordinals().begin()));
    }
    return devices;
  }

  std::unique_ptr<backend::CommunicatorBackend> adopt_communicators(
      std::span<backend::DeviceBackend* const> devices, std::span<void* const> communicators) override {
    return for_new_results(devices, adopt_cuda_communicators(ranks_of(devices), communicators));
  }
#endif

 private:
  using Made = std::unique_ptr<backend::CommunicatorBackend>;
  static Made for_new_results(std::span<backend::DeviceBackend* const> devices, Made made) {
    for (CudaDevice* device : ranks_of(devices)) device->begin_results();
    return made;
  }

  static std::vector<CudaDevice*> ranks_of(std::span<backend::DeviceBackend* const> devices) {
    std::vector<CudaDevice*> ranks;
    for (backend::DeviceBackend* device : devices) ranks.push_back(static_cast<CudaDevice*>(device));
    return ranks;
  }

  // The log names each GPU that is left out once.
  bool is_default(int index) {
    const int ordinal = ordinals()[static_cast<std::size_t>(index)];
    const auto [at, is_new] = defaults_.try_emplace(ordinal, true);
    if (is_new) {
      const Device device(DeviceKind::gpu, index);
      const std::string reason = why_left_out(ordinal, device);
      at->second = reason.empty();
      if (!reason.empty())
        lockstep::detail::warn(
            lockstep::detail::concat(device, " is not used where no devices are named: ", reason));
    }
    return at->second;
  }

  // The GPU of each device, ascending; a GPU that is split is there several times. Found at first use: a
  // process that never uses a GPU never starts the driver.
  std::vector<int>& ordinals() {
    if (!enumerated_) {
      const int n = num_gpus();
      if (n > 0) use_in_this_process(Device(DeviceKind::gpu, 0));
      for (int i = 0; i < n; ++i) ordinals_.push_back(i);
      enumerated_ = true;
    }
    return ordinals_;
  }

  std::map<int, std::shared_ptr<CudaMemory>> memories_;  // by ordinal; shared by the GPU's devices
  bool enumerated_ = false;
  std::vector<int> ordinals_;
  std::map<int, bool> defaults_;  // by ordinal: whether it is a default device
};

}  // namespace

std::unique_ptr<backend::Backend> make_backend() {
  observe_spans_for_profilers();
  return std::make_unique<CudaBackend>();
}

}  // namespace lockstep::cuda
