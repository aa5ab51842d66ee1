#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include <lockstep/detail/abi.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

enum class DeviceKind : std::uint8_t { cpu, gpu };

/// "CPU", "GPU".
[[nodiscard]] std::string_view name(DeviceKind kind);

/// The name of a device: a kind, an index and, in a cluster, the job and task it belongs to. A value, which
/// several threads may read.
///
/// Text converts implicitly and is parsed. Devices are equal if their canonical names are.
class Device {
 public:
  /// CPU:0 of this process.
  Device() = default;
  /// @throws InvalidArgument  the index is negative.
  Device(DeviceKind kind, int index);
  /// Parses "GPU:0", "/gpu:0", "cuda:0", "cpu:3", "GPU" (index 0), "/device:GPU:0",
  /// "/job:worker/task:1/device:GPU:0", "/job:worker/replica:0/task:1/cpu:0". The case of kinds and keys does
  /// not matter. Missing parts default to job localhost, replica 0, task 0, CPU, index 0, so that "" is
  /// Device() and "/task:1" is CPU:0 of that task.
  /// @throws InvalidArgument  the text has none of these forms; the message has the text and the forms.
  Device(std::string_view text);
  Device(const char* text) : Device(std::string_view(text)) {}
  Device(const std::string& text) : Device(std::string_view(text)) {}
  [[nodiscard]] static Device parse(std::string_view text) { return Device(text); }

  [[nodiscard]] DeviceKind kind() const noexcept { return kind_; }
  /// Position among the devices of its kind in its process.
  [[nodiscard]] int index() const noexcept { return index_; }
  [[nodiscard]] const std::string& job() const& noexcept { return job_; }
  [[nodiscard]] std::string job() const&& { return job_; }
  [[nodiscard]] int task() const noexcept { return task_; }
  /// Whether the device belongs to this process: the name has no other job, replica or task.
  [[nodiscard]] bool is_local() const noexcept { return job_ == kLocalJob && replica_ == 0 && task_ == 0; }

  /// "/job:J/replica:R/task:T/device:KIND:k"; R is 0 unless the text named another replica.
  [[nodiscard]] std::string canonical_name() const;
  /// "GPU:0" for a device of this process, else the canonical name.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Device&, const Device&) = default;

  static constexpr std::string_view kLocalJob = "localhost";

 private:
  DeviceKind kind_ = DeviceKind::cpu;
  int index_ = 0;
  int replica_ = 0;
  int task_ = 0;
  std::string job_{kLocalJob};
};

std::ostream& operator<<(std::ostream& out, const Device& device);

/// Properties of a device.
struct DeviceInfo {
  std::string name;                         ///< Marketing name, e.g. the CPU's model.
  std::int64_t memory_bytes = 0;            ///< Total memory.
  std::string pci_bus_id;                   ///< "0000:01:00.0", empty for CPUs.
  std::array<int, 2> compute_capability{};  ///< Major, minor; zero for CPUs.
  int numa_node = -1;                       ///< -1: unknown, or not bound to one node.
};

/// The link between two devices.
enum class PeerLink : std::uint8_t { none, same_device, shared_memory, pcie, nvlink };

}  // namespace lockstep

#pragma GCC visibility pop

template <>
struct std::hash<lockstep::Device> {
  std::size_t operator()(const lockstep::Device& device) const noexcept {
    return std::hash<std::string>()(device.job()) * 31 + static_cast<std::size_t>(device.task()) * 1009 +
           static_cast<std::size_t>(device.index()) * 2 + static_cast<std::size_t>(device.kind());
  }
};
