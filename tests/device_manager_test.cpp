#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/host/host_backend.hpp>
#include <lockstep/stream.hpp>

#include "support/busy_thread.hpp"
#include "support/child_process.hpp"
#include "support/lazy_device.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using lockstep::test::LazyDevice;
using lockstep::test::says;

namespace {

/// GPUs that are not there.
class PretendGpus final : public backend::Backend {
 public:
  explicit PretendGpus(int num_devices, int version = backend::kInterfaceVersion)
      : num_devices_(num_devices), version_(version) {}

  std::string_view name() const noexcept override { return "pretend"; }
  DeviceKind kind() const noexcept override { return DeviceKind::gpu; }
  int interface_version() const noexcept override { return version_; }
  backend::Capabilities capabilities() const noexcept override { return {.asynchronous = true}; }
  int num_devices() override { return num_devices_; }
  bool has_device(int index) override { return index < num_devices_; }
  std::vector<int> default_devices() override {
    std::vector<int> indices = Backend::default_devices();
    std::erase(indices, left_out);
    return indices;
  }
  DeviceInfo info(int index) override {
    DeviceInfo info;
    info.name = "pretend " + std::to_string(index);
    return info;
  }
  PeerLink peer_link(int a, int b) override { return a == b ? PeerLink::same_device : PeerLink::pcie; }
  void set_virtual_devices(int, int n) override { num_devices_ += n - 1; }
  std::unique_ptr<backend::DeviceBackend> open(int index) override {
    ++num_opened;
    if (on_open) on_open();
    return std::make_unique<LazyDevice>(index);
  }
  std::unique_ptr<backend::CommunicatorBackend> create_communicator(std::span<backend::DeviceBackend* const>,
                                                                    const CommunicatorConfig&) override {
    throw Unsupported("pretend GPUs do not communicate");
  }

  int num_opened = 0;
  int left_out = -1;
  std::function<void()> on_open;

 private:
  int num_devices_;
  int version_;
};

/// The manager of a machine with CPUs and n GPUs.
struct Machine {
  explicit Machine(int num_gpus) {
    auto pretend = std::make_unique<PretendGpus>(num_gpus);
    gpus = pretend.get();
    std::vector<std::unique_ptr<backend::Backend>> backends;
    backends.push_back(host::make_backend());
    backends.push_back(std::move(pretend));
    manager = std::make_unique<DeviceManager>(std::move(backends));
  }

  PretendGpus* gpus;
  std::unique_ptr<DeviceManager> manager;
};

}  // namespace

TEST_CASE("P38 there is a CPU without asking, and any other on request", "[device_manager]") {
  DeviceManager& manager = DeviceManager::instance();
  CHECK(&manager == &DeviceManager::instance());
  CHECK(manager.devices(DeviceKind::cpu).front() == Device("CPU:0"));
  CHECK(manager.open("CPU:17").device() == Device("CPU:17"));
  CHECK(&manager.open("CPU:17") == &manager.open("/device:cpu:17"));
  CHECK_FALSE(manager.info("CPU:0").name.empty());
  CHECK(manager.info("CPU:0").memory_bytes > 0);
  CHECK(manager.backend(DeviceKind::cpu).name() == "host");
}

TEST_CASE("devices are listed in order, and described", "[device_manager]") {
  Machine machine(3);
  CHECK(machine.manager->devices(DeviceKind::gpu) == std::vector<Device>{"GPU:0", "GPU:1", "GPU:2"});
  CHECK(machine.manager->info("GPU:2").name == "pretend 2");
  const auto links = machine.manager->peer_links();
  REQUIRE(links.size() == 3);
  REQUIRE(links[1].size() == 3);
  CHECK(links[1][1] == PeerLink::same_device);
  CHECK(links[1][2] == PeerLink::pcie);
}

TEST_CASE("a device that its backend leaves out keeps its name", "[device_manager]") {
  Machine machine(3);
  machine.gpus->left_out = 1;
  CHECK(machine.manager->devices(DeviceKind::gpu) == std::vector<Device>{"GPU:0", "GPU:2"});
  const auto links = machine.manager->peer_links();
  REQUIRE(links.size() == 2);
  CHECK(links[1] == std::vector{PeerLink::pcie, PeerLink::same_device});
  CHECK(machine.manager->info("GPU:1").name == "pretend 1");
  CHECK_NOTHROW(machine.manager->open("GPU:1"));
}

TEST_CASE("a machine without GPUs lists none", "[device_manager]") {
  Machine machine(0);
  CHECK(machine.manager->devices(DeviceKind::gpu).empty());
  CHECK(machine.manager->peer_links().empty());
  CHECK(machine.manager->backend(DeviceKind::gpu).name() == "pretend");
  CHECK_THROWS_MATCHES(machine.manager->open("GPU:0"), NotFound,
                       says("no device GPU:0", "no usable GPU: check the driver"));
}

TEST_CASE("a missing device is named beside the existing ones", "[device_manager]") {
  Machine machine(2);
  CHECK_THROWS_MATCHES(machine.manager->open("GPU:2"), NotFound,
                       says("open", "GPU:2", "CPU:0", "GPU:0, GPU:1. Name one of these"));
  CHECK_THROWS_MATCHES(machine.manager->info("GPU:7"), NotFound, says("info", "GPU:7", "GPU:0, GPU:1"));
  CHECK_THROWS_MATCHES(machine.manager->set_virtual_devices("GPU:7", 2), NotFound,
                       says("set_virtual_devices", "GPU:7", "GPU:0, GPU:1"));
  CHECK_THROWS_MATCHES(machine.manager->open("/job:worker/task:1/device:GPU:0"), NotFound,
                       says("/job:worker", "GPU:0, GPU:1. Name one of this process's."));
  CHECK_THROWS_MATCHES(machine.manager->open("CPU:4096"), NotFound, says("CPU:4096", "CPUs up to CPU:4095"));
}

TEST_CASE("a build without a backend for GPUs says how to get one", "[device_manager]") {
  std::vector<std::unique_ptr<backend::Backend>> backends;
  backends.push_back(host::make_backend());
  DeviceManager manager(std::move(backends));
  CHECK(manager.devices(DeviceKind::gpu).empty());
  CHECK(manager.peer_links().empty());
  CHECK_THROWS_MATCHES(manager.backend(DeviceKind::gpu), NotFound, says("GPU", "LOCKSTEP_CUDA=ON"));
  CHECK_THROWS_MATCHES(
      manager.open("GPU:0"), NotFound,
      says("no device GPU:0", "CPU:0", "built without GPUs: build it with LOCKSTEP_CUDA=ON"));
}

TEST_CASE("a backend for another interface version is refused with both versions", "[device_manager]") {
  std::vector<std::unique_ptr<backend::Backend>> backends;
  backends.push_back(std::make_unique<PretendGpus>(1, backend::kInterfaceVersion + 41));
  CHECK_THROWS_MATCHES(DeviceManager(std::move(backends)), Unsupported,
                       says("pretend", "version " + std::to_string(backend::kInterfaceVersion + 41),
                            "version " + std::to_string(backend::kInterfaceVersion)));
}

TEST_CASE("a device is opened once, however many threads ask", "[device_manager]") {
  Machine machine(2);
  std::vector<backend::DeviceBackend*> opened(8);
  {
    std::vector<std::jthread> threads;
    for (auto& device : opened) threads.emplace_back([&] { device = &machine.manager->open("GPU:1"); });
  }
  for (const auto* device : opened) CHECK(device == opened[0]);
  CHECK(machine.gpus->num_opened == 1);  // and GPU:0 not at all
}

TEST_CASE("virtual devices are made before the first use only", "[device_manager]") {
  Machine machine(2);
  CHECK_THROWS_MATCHES(machine.manager->set_virtual_devices("GPU:0", 0), InvalidArgument, says("GPU:0", "0"));
  machine.manager->set_virtual_devices("GPU:1", 3);
  CHECK(machine.manager->devices(DeviceKind::gpu).size() == 4);
  machine.manager->open("GPU:1");
  CHECK_THROWS_MATCHES(machine.manager->set_virtual_devices("GPU:1", 2), ContextError,
                       says("GPU:1", "in use already"));
  CHECK_THROWS_MATCHES(machine.manager->set_virtual_devices("GPU:0", 2), ContextError,
                       says("GPU:1", "in use already"));
  machine.manager->set_virtual_devices("GPU:3", 2);
  CHECK(machine.manager->devices(DeviceKind::gpu).size() == 5);
  machine.manager->set_virtual_devices("CPU:0", 4);
  CHECK(machine.manager->devices(DeviceKind::cpu).size() == 4);
}

TEST_CASE("P37 the current device is the innermost scope's, and comes back", "[device_manager]") {
  CHECK(current_device() == Device("CPU:0"));
  {
    const DeviceScope outer("CPU:1");
    CHECK(current_device() == Device("CPU:1"));
    try {
      const DeviceScope inner("CPU:2");
      CHECK(current_device() == Device("CPU:2"));
      throw 0;
    } catch (int) {
    }
    CHECK(current_device() == Device("CPU:1"));
    Device elsewhere("GPU:9");
    std::thread([&] { elsewhere = current_device(); }).join();
    CHECK(elsewhere == Device("CPU:0"));
  }
  CHECK(current_device() == Device("CPU:0"));
}

TEST_CASE("a fork uses the devices that were open, whatever another thread was opening", "[device_manager]") {
  Machine machine(2);
  machine.manager->open("GPU:0");
  const test::BusyThread opener([&](test::BusyThread& thread) {
    machine.gpus->on_open = [&] { thread.wait(); };
    machine.manager->open("GPU:1");
  });
  CHECK(test::in_child([&] {
          machine.manager->open("GPU:0");
          return 3;
        }) == 3);
  const auto refusal = [&](const auto& f) {
    return test::in_child([&] {
      try {
        f();
      } catch (const ContextError& error) {
        const std::string message = error.what();
        return message.find("the device manager: this process is a fork, made while another thread") !=
                           std::string::npos &&
                       message.find("Fork before") != std::string::npos
                   ? 3
                   : 4;
      }
      return 5;
    });
  };
  CHECK(refusal([&] { machine.manager->open("GPU:1"); }) == 3);
  CHECK(refusal([&] { static_cast<void>(machine.manager->devices(DeviceKind::cpu)); }) == 3);
}

TEST_CASE("a device has one default stream, however many threads ask first", "[device_manager]") {
  for (int round = 0; round < 50; ++round) {
    Machine machine(1);
    backend::DeviceBackend& device = machine.manager->open("CPU:0");
    std::vector<backend::StreamHandle> streams(4);
    {
      std::vector<std::jthread> threads;
      for (auto& stream : streams) threads.emplace_back([&] { stream = default_stream(device).handle(); });
    }
    for (const backend::StreamHandle stream : streams) CHECK(stream == streams[0]);
    CHECK_NOTHROW(device.synchronize(streams[0]));
  }
}
