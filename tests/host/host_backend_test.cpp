#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/host/host_backend.hpp>

#include "detail/numa.hpp"
#include "support/matchers.hpp"
#include "support/process_team.hpp"
#include "support/socket_group.hpp"

namespace lockstep::host {
namespace {

using test::says;

/// LOCKSTEP_HOST_DEVICES, until the end of the block.
class ScopedNumDevices {
 public:
  explicit ScopedNumDevices(const char* value) {
    if (const char* const outer = std::getenv(kName)) outer_ = outer;
    setenv(kName, value, 1);
  }
  ~ScopedNumDevices() {
    if (outer_)
      setenv(kName, outer_->c_str(), 1);
    else
      unsetenv(kName);
  }
  ScopedNumDevices(const ScopedNumDevices&) = delete;
  ScopedNumDevices& operator=(const ScopedNumDevices&) = delete;

 private:
  static constexpr const char* kName = "LOCKSTEP_HOST_DEVICES";
  std::optional<std::string> outer_;
};

}  // namespace

TEST_CASE("P38 there is one CPU unless the environment says otherwise", "[host]") {
  {
    const ScopedNumDevices none("");
    CHECK(make_backend()->num_devices() == 1);
  }
  const ScopedNumDevices four("4");
  CHECK(make_backend()->num_devices() == 4);
}

TEST_CASE("a bad number of CPUs in the environment is named", "[host]") {
  const char* const text = GENERATE("0", "-2", "two", "3x", " 3", "4097", "99999999999");
  const ScopedNumDevices bad(text);
  const auto backend = make_backend();
  CHECK_THROWS_MATCHES(backend->num_devices(), InvalidArgument,
                       says("LOCKSTEP_HOST_DEVICES", std::string("\"") + text + "\""));
}

TEST_CASE("set_virtual_devices has the last word, for CPU:0 alone", "[host]") {
  const ScopedNumDevices four("4");
  const auto backend = make_backend();
  backend->set_virtual_devices(0, 3);
  CHECK(backend->num_devices() == 3);
  CHECK_THROWS_MATCHES(backend->set_virtual_devices(1, 2), Unsupported, says("CPU:1", "CPU:0"));
  CHECK_THROWS_MATCHES(backend->set_virtual_devices(0, 4097), InvalidArgument, says("4097", "4096 at most"));
  CHECK(backend->num_devices() == 3);
}

TEST_CASE("the host backend states what it is", "[host]") {
  const auto backend = make_backend();
  CHECK(backend->name() == "host");
  CHECK(backend->kind() == DeviceKind::cpu);
  CHECK(backend->interface_version() == backend::kInterfaceVersion);
  CHECK_FALSE(backend->capabilities().asynchronous);
  CHECK(backend->capabilities().host_accessible);
  CHECK(backend->capabilities().f8);
  CHECK(backend->has_device(0));
  CHECK(backend->has_device(4095));
  CHECK_FALSE(backend->has_device(4096));
  CHECK_FALSE(backend->has_device(-1));
  CHECK(backend->peer_link(2, 2) == PeerLink::same_device);
  CHECK(backend->peer_link(0, 2) == PeerLink::shared_memory);

  const DeviceInfo info = backend->info(0);
  CHECK_FALSE(info.name.empty());
  CHECK(info.memory_bytes > 0);
  CHECK(info.pci_bus_id.empty());
  CHECK(info.numa_node == detail::Numa::machine().node_of(0));
}

TEST_CASE("all CPUs of a NUMA node share one pool of memory", "[host]") {
  const auto backend = make_backend();
  const auto first = backend->open(0);
  const int index = 5 * detail::Numa::machine().num_nodes();
  const auto second = backend->open(index);
  CHECK(second->device() == Device(DeviceKind::cpu, index));
  void* const data = first->allocate(1000, {});
  CHECK(second->memory_stats().in_use_bytes == 1024);
  first->deallocate(data, 1000, {});
  void* const again = second->allocate(1000, {});
  CHECK(again == data);
  second->deallocate(again, 1000, {});
}

TEST_CASE("a communicator has a rank for every device", "[host]") {
  const auto backend = make_backend();
  const auto first = backend->open(0);
  const auto second = backend->open(1);
  backend::DeviceBackend* const devices[] = {first.get(), second.get()};
  CHECK(backend->create_communicator(devices, {})->num_ranks() == 2);
}

TEST_CASE("ranks of several processes on one host share memory", "[host]") {
  const test::SocketStar star(2);
  test::ProcessTeam team(2, [&](int process) {
    test::SocketGroup group(star, process);
    const auto communicator =
        make_backend()->create_communicator({}, backend::ProcessRanks{&group, {1, 2}}, {});
    if (communicator->num_ranks() != 3) throw Error("another communicator");
  });
  CHECK(team.wait_for_all() == std::vector<std::string>(2));
}

TEST_CASE("ranks of processes on several hosts meet over a channel", "[host]") {
  const test::SocketStar star(3);
  test::SocketGroup group(star, 0);
  group.hosts = {4, 4, 5};
  const auto create = [&] {
    make_backend()->create_communicator({}, backend::ProcessRanks{&group, {1, 1, 1}}, {});
  };
  CHECK_THROWS_MATCHES(create(), Unsupported, says("a SocketGroup has none"));
}

}  // namespace lockstep::host
