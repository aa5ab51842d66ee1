#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/backend/capabilities.hpp>
#include <lockstep/backend/communicator_backend.hpp>
#include <lockstep/backend/device_backend.hpp>
#include <lockstep/device.hpp>

#pragma GCC visibility push(default)

namespace lockstep::backend {

/// The interface version that a backend states; registration refuses another.
inline constexpr int kInterfaceVersion = 2;

/// A library that enumerates devices of one kind. Calls come from any thread, under the device manager's
/// lock.
class Backend {
 public:
  virtual ~Backend() = default;

  /// "host", "cuda".
  virtual std::string_view name() const noexcept = 0;
  virtual DeviceKind kind() const noexcept = 0;
  virtual int interface_version() const noexcept = 0;
  virtual Capabilities capabilities() const noexcept = 0;

  /// Devices that there are, 0 to n - 1, without those that exist on request. 0 when the machine has none;
  /// never throws for a missing driver.
  virtual int num_devices() = 0;
  /// Those of them that are used when nobody names any, in order: all, unless a backend knows better.
  virtual std::vector<int> default_devices();
  /// Whether `open(index)` can work; the host backend has any number.
  virtual bool has_device(int index) = 0;
  virtual DeviceInfo info(int index) = 0;
  /// How two devices of this backend are linked.
  virtual PeerLink peer_link(int a, int b) = 0;
  /// Splits device `index` into n virtual ones, before its first use. @throws ContextError, Unsupported
  virtual void set_virtual_devices(int index, int n) = 0;
  /// Called once for each device, on its first use.
  virtual std::unique_ptr<DeviceBackend> open(int index) = 0;
  /// Ranks are positions in `devices`, all of this backend, no two the same.
  virtual std::unique_ptr<CommunicatorBackend> create_communicator(
      std::span<DeviceBackend* const> devices) = 0;

  // Communicators that an engine made with the native library, one handle for each rank of a group that is
  // wholly in this process; they stay the engine's. Optional.
  /// The devices of the ranks, in rank order. @throws Unsupported, InvalidArgument
  virtual std::vector<int> devices_of_native(std::span<void* const> communicators);
  /// @param devices  those, opened.
  virtual std::unique_ptr<CommunicatorBackend> adopt_communicators(std::span<DeviceBackend* const> devices,
                                                                   std::span<void* const> communicators);
};

}  // namespace lockstep::backend

#pragma GCC visibility pop
