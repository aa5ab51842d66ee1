// A rank that fails after all have met: what the others, which count on it, are told.
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/tensor.hpp>

#include "support/failing_memory.hpp"
#include "support/matchers.hpp"
#include "support/replicas.hpp"

using namespace lockstep;
using test::FailingMemory;
using test::Memory;
using test::on_replicas;
using test::says;

namespace {

// The mean of integers, for which each rank needs a temporary of 8 MB: nobody has kept so much.
struct IntegerMean {
  static constexpr std::int64_t kCount = 1'000'003;
  const std::vector<Device> devices{"CPU:0", "CPU:1", "CPU:2"};
  Communicator communicator = Communicator::create(devices);
  std::vector<std::vector<std::int32_t>> inputs;
  std::vector<double> output = std::vector<double>(kCount, -1);

  IntegerMean() {
    for (int rank = 0; rank < 3; ++rank) inputs.emplace_back(kCount, 3 * rank + 1);
  }
  TensorView input(std::size_t rank) {
    return {inputs[rank].data(), Shape(kCount), DType::i32, devices[rank]};
  }
  TensorView result() { return {output.data(), Shape(kCount), DType::f64, devices[0]}; }
  void reduce(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    communicator.reduce(ReduceOp::mean, 0, rank, input(r), result(), current_stream(devices[r]));
  }
  void reduce_all() {
    const std::vector<TensorView> views{input(0), input(1), input(2)};
    std::vector<StreamRef> streams;
    for (const Device& device : devices) streams.push_back(current_stream(device));
    communicator.reduce(ReduceOp::mean, views, result(), 0, streams);
  }
};

}  // namespace

TEST_CASE("a rank that cannot prepare its part of a collective fails the others, which say why",
          "[collectives][host]") {
  IntegerMean mean;
  on_replicas(3, [&](int rank) { mean.reduce(rank); });
  REQUIRE(mean.output == std::vector<double>(IntegerMean::kCount, 4));
  DeviceManager::instance().open("CPU:0").trim_memory();

  int num_out_of_memory = 0, num_aborted = 0;
  std::vector<std::string> messages(3);
  {
    const FailingMemory failing(Memory::device, 3);
    std::vector<int> kinds(3);
    on_replicas(3, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      try {
        mean.reduce(rank);
      } catch (const OutOfMemory& error) {
        kinds[r] = 1;
        messages[r] = error.what();
      } catch (const CollectiveAborted& error) {
        kinds[r] = 2;
        messages[r] = error.what();
      }
    });
    for (const int kind : kinds) {
      num_out_of_memory += kind == 1 ? 1 : 0;
      num_aborted += kind == 2 ? 1 : 0;
    }
  }
  CAPTURE(messages);
  CHECK(num_out_of_memory == 1);
  CHECK(num_aborted == 2);
  for (const std::string& message : messages)
    if (message.starts_with("reduce(mean)"))
      CHECK(message.starts_with("reduce(mean): the group was aborted: "));
  REQUIRE_THROWS_MATCHES(mean.reduce_all(), CollectiveAborted,
                         says("reduce(mean): the group was aborted", "Make a new Communicator"));
}

TEST_CASE("a thread that drives all ranks and cannot prepare them has lost nothing", "[collectives][host]") {
  IntegerMean mean;
  DeviceManager::instance().open("CPU:0").trim_memory();
  {
    const FailingMemory failing(Memory::device, 2);
    REQUIRE_THROWS_AS(mean.reduce_all(), OutOfMemory);
  }
  REQUIRE(mean.output == std::vector<double>(IntegerMean::kCount, -1));
  mean.reduce_all();
  REQUIRE(mean.output == std::vector<double>(IntegerMean::kCount, 4));
}
