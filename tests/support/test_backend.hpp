#pragma once

#include <cstdlib>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/backend/backend.hpp>
#include <lockstep/backend/device_backend.hpp>
#include <lockstep/device_manager.hpp>

#include "detail/sanitizers.hpp"

/// Whether a sanitizer, or virtual GPUs that interpret kernels, slow the tests down; tests then do fewer
/// rounds and leave out very large cases.
inline const bool kSlowBuild =
    LOCKSTEP_ADDRESS_SANITIZER || LOCKSTEP_THREAD_SANITIZER || std::getenv("VGPU_DEVICES") != nullptr;

namespace lockstep::test {

/// The backend under test. Each program links the file that chooses it, so that contracts are compiled once
/// for all backends.
struct TestBackend {
  static const DeviceKind kKind;  // in test_backend_host.cpp or test_backend_cuda.cpp

  static DeviceKind kind() { return kKind; }
  static backend::Backend& backend() {
    split_devices();
    return DeviceManager::instance().backend(kKind);
  }
  static backend::Capabilities capabilities() { return backend().capabilities(); }

  /// The number of devices; the host has as many as a test asks for.
  static int num_devices() {
    if (kKind == DeviceKind::cpu) return 64;
    split_devices();
    return static_cast<int>(DeviceManager::instance().devices(kKind).size());
  }

  /// Device i. Skips the test, visibly, where there is no such device.
  static Device device(int i = 0) {
    if (i >= num_devices())
      SKIP("needs device " << i << " of " << name(kKind) << ", there are " << num_devices());
    return Device(kKind, i);
  }

  /// The first n devices. Skips the test, visibly, where there are fewer.
  static std::vector<Device> devices(int n) {
    std::vector<Device> result;
    for (int i = 0; i < n; ++i) result.push_back(device(i));
    return result;
  }

  /// Device i, opened.
  static backend::DeviceBackend& open(int i = 0) { return DeviceManager::instance().open(device(i)); }

  /// Whether vgpu stands in for GPUs.
  static bool is_virtual_gpu() { return kKind == DeviceKind::gpu && std::getenv("VGPU_DEVICES") != nullptr; }

  /// LOCKSTEP_TEST_VIRTUAL_DEVICES=n: device 0 is n virtual ones.
  static void split_devices() {
    static const bool done = [] {
      if (const char* const n = std::getenv("LOCKSTEP_TEST_VIRTUAL_DEVICES"))
        DeviceManager::instance().set_virtual_devices(Device(kKind, 0), std::atoi(n));
      return true;
    }();
    static_cast<void>(done);
  }

  /// The replica counts of a contract's tests, up to the number of devices.
  static std::vector<int> replica_counts() {
    if (kKind == DeviceKind::gpu && kSlowBuild)
      return {num_devices()};  // test runs have different numbers of devices
    std::vector<int> counts;
    for (const int n : {1, 2, 3, 4, 7}) {
      if (n <= num_devices()) counts.push_back(n);
    }
    return counts;
  }
};

}  // namespace lockstep::test
