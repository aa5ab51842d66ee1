#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/backend/capabilities.hpp>
#include <lockstep/backend/communicator_backend.hpp>
#include <lockstep/backend/device_backend.hpp>
#include <lockstep/backend/process_group.hpp>
#include <lockstep/communication.hpp>
#include <lockstep/device.hpp>

#pragma GCC visibility push(default)

namespace lockstep::backend {

/// The version of this interface. A backend states the version it was built for; registration refuses any
/// other.
inline constexpr int kInterfaceVersion = 6;

/// A library that enumerates devices of one kind. Any thread may call; the device manager holds its lock
/// during each call.
class Backend {
 public:
  virtual ~Backend() = default;

  /// "host", "cuda".
  virtual std::string_view name() const noexcept = 0;
  virtual DeviceKind kind() const noexcept = 0;
  virtual int interface_version() const noexcept = 0;
  virtual Capabilities capabilities() const noexcept = 0;

  /// The number n of existing devices, 0 to n - 1, without those that only exist on request; 0 when the
  /// machine has none. Never throws for a missing driver.
  virtual int num_devices() = 0;
  /// The devices used when the caller names none, in order. The default is all devices.
  virtual std::vector<int> default_devices();
  /// Whether `open(index)` can succeed. The host backend has any number of devices.
  virtual bool has_device(int index) = 0;
  virtual DeviceInfo info(int index) = 0;
  /// The link between two devices of this backend.
  virtual PeerLink peer_link(int a, int b) = 0;
  /// Splits device `index` into n virtual ones, before its first use. @throws ContextError, Unsupported
  virtual void set_virtual_devices(int index, int n) = 0;
  /// Called once for each device, on its first use.
  virtual std::unique_ptr<DeviceBackend> open(int index) = 0;
  /// Ranks are positions in `devices`, which are distinct devices of this backend.
  virtual std::unique_ptr<CommunicatorBackend> create_communicator(std::span<DeviceBackend* const> devices,
                                                                   const CommunicatorConfig& config) = 0;
  /// One part of a communicator over several processes, which all make theirs together. Ranks are the
  /// group's; `devices` are those of this process's ranks. Optional.
  /// @throws Unsupported  the backend has none; CollectiveTimeout, CollectiveAborted.
  virtual std::unique_ptr<CommunicatorBackend> create_communicator(std::span<DeviceBackend* const> devices,
                                                                   const ProcessRanks& ranks,
                                                                   const CommunicatorConfig& config);

  // Optional: communicators that an engine made with the native library, one handle for each rank of a group
  // that lies wholly in this process. The engine keeps ownership.
  /// The devices of the ranks, in rank order. @throws Unsupported, InvalidArgument
  virtual std::vector<int> devices_of_native(std::span<void* const> communicators);
  /// @param devices  the opened devices that `devices_of_native` named, in rank order.
  virtual std::unique_ptr<CommunicatorBackend> adopt_communicators(std::span<DeviceBackend* const> devices,
                                                                   std::span<void* const> communicators);
};

}  // namespace lockstep::backend

#pragma GCC visibility pop
