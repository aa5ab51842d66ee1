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

/// Enumerates, describes and opens the devices of this process. One instance, never destroyed, so that
/// objects in static variables may release their memory at any time. Thread-safe. A fork of the process that
/// was made while another thread was opening or describing devices has those that were open; other calls
/// throw ContextError there, but for `backend`.
class DeviceManager {
 public:
  static DeviceManager& instance();
  /// A manager of its own, over other backends than the built-in ones.
  /// @throws Unsupported  a backend was built for another version of the interface.
  explicit DeviceManager(std::vector<std::unique_ptr<backend::Backend>> backends);

  /// Devices of a kind that are used when nobody names any, in order. CPUs: one, or as many as
  /// set_virtual_devices("CPU:0", n) or the environment's LOCKSTEP_HOST_DEVICES made; any CPU:k below
  /// 4096 exists on request. GPUs: those that this process can use; a line in the log (set_log_sink) names
  /// each that it cannot, and says why. No driver or no GPU: empty.
  [[nodiscard]] std::vector<Device> devices(DeviceKind kind);
  /// @throws NotFound  there is no such device; the message lists those there are.
  [[nodiscard]] DeviceInfo info(const Device& device);
  /// How each pair of `devices(gpu)` is linked.
  [[nodiscard]] std::vector<std::vector<PeerLink>> peer_links();
  /// Makes n replicas' devices of one physical device, before its first use.
  /// @throws ContextError  the device, or one that would get another index, is in use already.
  /// @throws NotFound  there is no such device.
  /// @throws InvalidArgument  n < 1, or more CPUs than there can be.
  void set_virtual_devices(const Device& device, int n);

  /// For the layers below strategies: opens on first use. The reference is valid until the process ends.
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
  detail::Mutex mutex_{"the device manager"};  // held in calls of the backends', and to change open_
  detail::LeafMutex open_mutex_;               // guards open_; taken last
  struct OpenDevices;
  const std::unique_ptr<OpenDevices> open_;
};

/// The device on which factories make tensors on this thread: a replica's inside `run`, a component's inside
/// `update`, else CPU:0.
[[nodiscard]] const Device& current_device();

/// Makes `device` the current one on this thread until the end of the block. Like every guard of the library
/// it is destroyed on the thread that made it, in any order: on another thread that ends the program, with a
/// message (std::terminate).
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
