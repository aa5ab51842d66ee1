#pragma once

#include <memory>
#include <vector>

#include <lockstep/detail/mutex.hpp>
#include <lockstep/detail/thread_guard.hpp>
#include <lockstep/device.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

namespace backend {
class Backend;
class DeviceBackend;
}  // namespace backend

/// Enumerates, describes and opens the devices of this process. Thread-safe. The one instance is never
/// destroyed, so that objects in static variables may release their memory at any time. If the process forks
/// while another thread opens or describes devices, the child has the devices that were open; its other calls
/// throw ContextError, except `backend`.
class DeviceManager {
 public:
  static DeviceManager& instance();
  /// A separate manager over the given backends instead of the built-in ones.
  /// @throws Unsupported  a backend was built for another version of the interface.
  explicit DeviceManager(std::vector<std::unique_ptr<backend::Backend>> backends);

  /// The devices of a kind that are used when the caller names none, in order. CPUs: one, or as many as
  /// set_virtual_devices("CPU:0", n) or the environment's LOCKSTEP_HOST_DEVICES made; any CPU:k below 4096
  /// exists on request. GPUs: those that this process can use; the log (set_log_sink) names each GPU that it
  /// cannot use and the reason. Empty if there is no driver or no GPU.
  [[nodiscard]] std::vector<Device> devices(DeviceKind kind);
  /// @throws NotFound  there is no such device; the message lists the existing ones.
  [[nodiscard]] DeviceInfo info(const Device& device);
  /// The link between each pair of `devices(gpu)`.
  [[nodiscard]] std::vector<std::vector<PeerLink>> peer_links();
  /// Splits one physical device into n virtual devices, before its first use.
  /// @throws ContextError  the device, or one whose index would change, is in use already.
  /// @throws NotFound  there is no such device.
  /// @throws InvalidArgument  n < 1, or more CPUs than can exist.
  void set_virtual_devices(const Device& device, int n);

  /// For the layers below strategies: opens the device at its first use. The reference is valid until the
  /// process ends.
  /// @throws NotFound  there is no such device.
  backend::DeviceBackend& open(const Device& device);
  /// @throws NotFound  no backend for this kind is built in.
  [[nodiscard]] backend::Backend& backend(DeviceKind kind);

  ~DeviceManager();
  DeviceManager(const DeviceManager&) = delete;
  DeviceManager& operator=(const DeviceManager&) = delete;

 private:
  backend::Backend* find(DeviceKind kind) noexcept;
  backend::DeviceBackend* find_open(const Device& device);
  // The caller holds mutex_.
  backend::Backend& find_device(const Device& device, const char* operation);

  const std::vector<std::unique_ptr<backend::Backend>> backends_;
  detail::Mutex mutex_{"the device manager"};  // held during calls of backends, and to change open_
  detail::LeafMutex open_mutex_;               // guards open_; taken last
  struct OpenDevices;
  const std::unique_ptr<OpenDevices> open_;
};

/// The device on which factories make tensors on this thread: inside `run` the replica's, inside `update` the
/// component's, else CPU:0.
[[nodiscard]] const Device& current_device();

/// Makes `device` the current one on this thread until the end of the block. Like every guard of the library
/// it may be destroyed in any order, but only on the thread that made it: on another thread its destructor
/// prints a message and ends the program (std::terminate).
class [[nodiscard]] DeviceScope : public detail::ThreadGuard<DeviceScope> {
 public:
  explicit DeviceScope(const Device& device) : device_(device) {}

 private:
  friend class detail::ThreadGuard<DeviceScope>;
  friend const Device& current_device();
  static constexpr std::string_view kGuardName = "a DeviceScope";
  static DeviceScope*& innermost() noexcept;

  Device device_;
};

}  // namespace lockstep

#pragma GCC visibility pop
