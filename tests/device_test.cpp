#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <unordered_set>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/device.hpp>
#include <lockstep/error.hpp>

using namespace lockstep;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("every spelling of a device has its canonical name", "[device][host]") {
  struct Row {
    const char *text, *canonical;
  };
  const auto row = GENERATE(values<Row>({
      {"GPU:0", "/job:localhost/replica:0/task:0/device:GPU:0"},
      {"/gpu:0", "/job:localhost/replica:0/task:0/device:GPU:0"},
      {"cuda:0", "/job:localhost/replica:0/task:0/device:GPU:0"},
      {"CUDA:12", "/job:localhost/replica:0/task:0/device:GPU:12"},
      {"GPU", "/job:localhost/replica:0/task:0/device:GPU:0"},
      {"cpu", "/job:localhost/replica:0/task:0/device:CPU:0"},
      {"CPU:3", "/job:localhost/replica:0/task:0/device:CPU:3"},
      {"cpu:3", "/job:localhost/replica:0/task:0/device:CPU:3"},
      {"/device:GPU:0", "/job:localhost/replica:0/task:0/device:GPU:0"},
      {"/Device:gpu:2", "/job:localhost/replica:0/task:0/device:GPU:2"},
      {"/device:GPU", "/job:localhost/replica:0/task:0/device:GPU:0"},
      {"/job:worker/task:1/device:GPU:0", "/job:worker/replica:0/task:1/device:GPU:0"},
      {"/job:worker/replica:0/task:1/cpu:0", "/job:worker/replica:0/task:1/device:CPU:0"},
      {"/job:worker/cpu:0", "/job:worker/replica:0/task:0/device:CPU:0"},
      {"/JOB:worker/TASK:2/DEVICE:cuda:1", "/job:worker/replica:0/task:2/device:GPU:1"},
      {"/task:1/device:CPU:0", "/job:localhost/replica:0/task:1/device:CPU:0"},
      {"/job:my_job2/replica:3/task:4/device:GPU:5", "/job:my_job2/replica:3/task:4/device:GPU:5"},
      {"/GPU:2147483647", "/job:localhost/replica:0/task:0/device:GPU:2147483647"},
      {"", "/job:localhost/replica:0/task:0/device:CPU:0"},
      {"/job:worker", "/job:worker/replica:0/task:0/device:CPU:0"},
      {"/job:worker/task:1", "/job:worker/replica:0/task:1/device:CPU:0"},
  }));
  CAPTURE(row.text);
  const Device device(row.text);
  CHECK(device.canonical_name() == row.canonical);
  CHECK(Device::parse(device.canonical_name()) == device);
  CHECK(Device(device.to_string()) == device);
}

TEST_CASE("what is not the name of a device is refused", "[device][host]") {
  struct Row {
    const char *text, *why;
  };
  const auto row = GENERATE(values<Row>({
      {"/", "'' is not a kind of device"},
      {"GPU:", "'' is not an index"},
      {"GPU:-1", "'-1' is not an index"},
      {"GPU:+1", "'+1' is not an index"},
      {"GPU:99999999999", "'99999999999' is not an index"},
      {"GPU:2147483648", "'2147483648' is not an index"},
      {"GPU:1x", "'1x' is not an index"},
      {"GPU:0:1", "'0:1' is not an index"},
      {"GPU:*", "'*' is not an index"},
      {"CPU:0 ", "'0 ' is not an index"},
      {" CPU:0", "' CPU' is not a kind of device"},
      {"TPU:0", "'TPU' is not a kind of device"},
      {"0", "'0' is not a kind of device"},
      {":0", "'' is not a kind of device"},
      {"GPU0", "'GPU0' is not a kind of device"},
      {"device:GPU:0", "'device' is not a kind of device"},
      {"/device:", "'' is not a kind of device"},
      {"/device:TPU:0", "'TPU' is not a kind of device"},
      {"/device:device:GPU:0", "'device' is not a kind of device"},
      {"job:worker/task:1/device:GPU:0", "'job' is not a kind of device"},
      {"/job:/device:GPU:0", "'' is not the name of a job"},
      {"/job:1a/device:GPU:0", "'1a' is not the name of a job"},
      {"/job:a b/device:GPU:0", "'a b' is not the name of a job"},
      {"/job/device:GPU:0", "'job' is not a kind of device"},
      {"/job:a/job:b/device:GPU:0", "it has two jobs"},
      {"/job:a/task:x/device:GPU:0", "'x' is not a number of a task"},
      {"/job:a/task:-1/device:GPU:0", "'-1' is not a number of a task"},
      {"/job:a/task:1/task:1/device:GPU:0", "it has two tasks"},
      {"/replica:0/replica:0/device:GPU:0", "it has two replicas"},
      {"/cpu:0/gpu:0", "it names two devices"},
      {"//GPU:0", "'' is not a kind of device"},
      {"/GPU:0/", "'' is not a kind of device"},
      {"GPU:0/task:1", "'0/task:1' is not an index"},
  }));
  CAPTURE(row.text);
  CHECK_THROWS_MATCHES(
      Device(row.text), InvalidArgument,
      MessageMatches(ContainsSubstring("'" + std::string(row.text) + "' is not the name of a device") &&
                     ContainsSubstring(row.why) && ContainsSubstring("/job:worker/task:1/device:GPU:0")));
}

TEST_CASE("a device has its parts", "[device][host]") {
  const Device device = "/job:worker/task:1/device:GPU:3";
  CHECK(device.kind() == DeviceKind::gpu);
  CHECK(device.index() == 3);
  CHECK(device.job() == "worker");
  CHECK(device.task() == 1);
  CHECK_FALSE(device.is_local());
  const Device none;
  CHECK(none.kind() == DeviceKind::cpu);
  CHECK(none.index() == 0);
  CHECK(none.is_local());
  CHECK(Device(DeviceKind::gpu, 2) == Device("GPU:2"));
  CHECK_THROWS_MATCHES(Device(DeviceKind::gpu, -1), InvalidArgument,
                       MessageMatches(ContainsSubstring("index -1 of a GPU is negative")));
}

TEST_CASE("devices print short in their own process and in full elsewhere", "[device][host]") {
  std::ostringstream out;
  out << Device("cuda:1") << ' ' << Device("/job:worker/cpu:0") << ' ' << Device("/task:1/cpu:0");
  CHECK(out.str() ==
        "GPU:1 /job:worker/replica:0/task:0/device:CPU:0 /job:localhost/replica:0/task:1/device:CPU:0");
}

TEST_CASE("devices are equal when their canonical names are", "[device][host]") {
  CHECK(Device("/gpu:0") == Device("cuda:0"));
  CHECK(Device("/job:localhost/task:0/cpu:1") == Device("CPU:1"));
  CHECK(Device("CPU:0") != Device("GPU:0"));
  CHECK(Device("GPU:1") != Device("GPU:0"));
  CHECK(Device("/job:worker/cpu:0") != Device("/job:Worker/cpu:0"));
  CHECK(Device("/job:worker/cpu:0") != Device("/job:worker/task:1/cpu:0"));
  CHECK(Device("/replica:1/cpu:0") != Device("cpu:0"));
  CHECK(std::hash<Device>()("/gpu:0") == std::hash<Device>()("cuda:0"));
  const std::unordered_set<Device> devices = {"GPU:0", "/gpu:0", "CPU:0", "/job:worker/gpu:0", "cuda:0"};
  CHECK(devices.size() == 3);
}
