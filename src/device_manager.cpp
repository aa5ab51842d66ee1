#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include <lockstep/backend/backend.hpp>
#include <lockstep/backend/registry.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>

#include "detail/cpu_0.hpp"
#include "detail/expects.hpp"
#include "detail/lazy.hpp"
#include "detail/loaded_objects.hpp"

namespace lockstep {

namespace {

thread_local DeviceScope* innermost_scope = nullptr;

}  // namespace

struct DeviceManager::OpenDevices : std::unordered_map<Device, std::unique_ptr<backend::DeviceBackend>> {};

DeviceManager& DeviceManager::instance() {
  static constinit detail::Lazy<DeviceManager> manager("the device manager, which was being made");
  return manager.get([] {
    detail::check_loaded_copies();
    return new DeviceManager(backend::default_backends());
  });
}

DeviceManager::DeviceManager(std::vector<std::unique_ptr<backend::Backend>> backends)
    : backends_(std::move(backends)), open_(std::make_unique<OpenDevices>()) {
  for (const auto& backend : backends_) {
    LOCKSTEP_EXPECTS(backend->interface_version() == backend::kInterfaceVersion, Unsupported,
                     "DeviceManager: backend \"", backend->name(), "\" was built for version ",
                     backend->interface_version(), " of the backend interface, this library has version ",
                     backend::kInterfaceVersion, ". Build the backend against these headers.");
  }
}

DeviceManager::~DeviceManager() = default;

backend::Backend* DeviceManager::find(DeviceKind kind) noexcept {
  for (const auto& backend : backends_) {
    if (backend->kind() == kind) return backend.get();
  }
  return nullptr;
}

namespace {

// The advice for a missing device; `of_its_kind` is the backend of its kind, or null.
std::string_view remedy(const Device& device, backend::Backend* of_its_kind) {
  if (!device.is_local()) return "Name one of this process's.";
  if (device.kind() == DeviceKind::cpu) return "CPUs up to CPU:4095 exist on request: name one of these.";
  if (of_its_kind == nullptr)
    return "This library was built without GPUs: build it with LOCKSTEP_CUDA=ON, or name CPUs.";
  if (of_its_kind->num_devices() == 0)
    return "The process finds no usable GPU: check the driver and which GPUs it may see, or name CPUs.";
  return "Name one of these, or split a GPU by set_virtual_devices.";
}

}  // namespace

backend::Backend& DeviceManager::find_device(const Device& device, const char* operation) {
  backend::Backend* const backend = device.is_local() ? find(device.kind()) : nullptr;
  if (backend == nullptr || !backend->has_device(device.index())) {
    std::string existing;
    for (const auto& each : backends_) {
      for (int i = 0; i < each->num_devices(); ++i) {
        existing += (existing.empty() ? "" : ", ") + Device(each->kind(), i).to_string();
      }
    }
    LOCKSTEP_EXPECTS(false, NotFound, operation, ": this process has no device ", device,
                     ". Its devices are: ", existing.empty() ? "none" : existing, ". ",
                     remedy(device, find(device.kind())));
  }
  return *backend;
}

backend::DeviceBackend* DeviceManager::find_open(const Device& device) {
  const std::lock_guard leaf(open_mutex_);
  const auto found = open_->find(device);
  return found == open_->end() ? nullptr : found->second.get();
}

std::vector<Device> DeviceManager::devices(DeviceKind kind) {
  const std::lock_guard lock(mutex_);
  std::vector<Device> devices;
  if (backend::Backend* const backend = find(kind)) {
    for (const int index : backend->default_devices()) devices.emplace_back(kind, index);
  }
  return devices;
}

DeviceInfo DeviceManager::info(const Device& device) {
  const std::lock_guard lock(mutex_);
  return find_device(device, "DeviceManager::info").info(device.index());
}

std::vector<std::vector<PeerLink>> DeviceManager::peer_links() {
  const std::lock_guard lock(mutex_);
  backend::Backend* const backend = find(DeviceKind::gpu);
  const std::vector<int> devices = backend == nullptr ? std::vector<int>() : backend->default_devices();
  std::vector<std::vector<PeerLink>> links;
  for (const int a : devices) {
    std::vector<PeerLink>& row = links.emplace_back();
    for (const int b : devices) row.push_back(backend->peer_link(a, b));
  }
  return links;
}

void DeviceManager::set_virtual_devices(const Device& device, int n) {
  LOCKSTEP_EXPECTS(n >= 1, InvalidArgument, "DeviceManager::set_virtual_devices(", device, ", ", n,
                   "): a device cannot be split into ", n, ". Pass 1 or more.");
  const std::lock_guard lock(mutex_);
  backend::Backend& backend = find_device(device, "DeviceManager::set_virtual_devices");
  for (const auto& [used, unused] : *open_) {
    LOCKSTEP_EXPECTS(used.kind() != device.kind() || used.index() < device.index(), ContextError,
                     "DeviceManager::set_virtual_devices(", device, ", ", n, "): ", used,
                     " is in use already, and devices are renumbered. Split devices before their first use.");
  }
  backend.set_virtual_devices(device.index(), n);
}

backend::DeviceBackend& DeviceManager::open(const Device& device) {
  if (auto* const found = find_open(device)) return *found;
  const std::lock_guard lock(mutex_);
  if (auto* const found = find_open(device)) return *found;
  auto opened = find_device(device, "DeviceManager::open").open(device.index());
  const std::lock_guard leaf(open_mutex_);
  return *open_->emplace(device, std::move(opened)).first->second;
}

backend::Backend& DeviceManager::backend(DeviceKind kind) {
  backend::Backend* const backend = find(kind);
  LOCKSTEP_EXPECTS(backend != nullptr, NotFound, "DeviceManager::backend: no backend for ", name(kind),
                   "s is built into this library. Build it with LOCKSTEP_CUDA=ON to use GPUs.");
  return *backend;
}

const Device& current_device() {
  return innermost_scope != nullptr ? innermost_scope->device_ : detail::cpu_0();
}

DeviceScope*& DeviceScope::innermost() noexcept { return innermost_scope; }

}  // namespace lockstep
