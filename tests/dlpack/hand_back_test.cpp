#include "dlpack/hand_back.hpp"

#include <optional>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/dlpack.hpp>

#include "support/lazy_device.hpp"

namespace lockstep::dlpack {

using test::LazyDevice;

TEST_CASE("P39 memory goes back after the work of the stream that had it", "[dlpack]") {
  LazyDevice device;
  const Stream owner(device), user(device);
  Tensor memory, seen;
  {
    const StreamScope scope(user);
    memory = Tensor::full({4}, 1.0f, DType::f32, "GPU:0");
    seen = memory.clone();
  }
  hand_back(owner, user);
  {
    const StreamScope scope(owner);
    memory.fill_(2.0f);
  }
  owner.synchronize();  // nobody has waited for the clone
  const StreamScope scope(user);
  CHECK(seen.to_vector<float>() == std::vector<float>(4, 1));
  CHECK(device.num_events == 0);
}

TEST_CASE("a tensor is lent, taken and given back by four waits: no copy, no memory, nothing on the host",
          "[dlpack]") {
  LazyDevice device;
  const Stream stream(device), consumer(device);
  const StreamScope scope(stream);
  const Tensor tensor = Tensor::full({1000}, 1.0f, DType::f32, "GPU:0");
  const int num_launches = device.num_launches, num_allocations = device.num_allocations;
  {
    const Tensor taken = from(to(tensor, consumer), consumer);
    CHECK(device.num_launches == num_launches + 2);
  }
  CHECK(device.num_launches == num_launches + 4);
  CHECK(device.num_allocations == num_allocations);
  CHECK(device.num_peer_copies == 0);
  CHECK(device.num_events == 0);
  CHECK_FALSE(stream.is_complete());
  CHECK_FALSE(consumer.is_complete());
}

TEST_CASE("streams that are gone order nothing, in silence", "[dlpack]") {
  std::optional<Stream> gone(std::in_place, "CPU:0");
  const StreamRef reference = *gone;
  gone.reset();
  hand_back(current_stream("CPU:0"), reference);
  hand_back(reference, current_stream("CPU:0"));
  LazyDevice device;
  hand_back(Stream(device), reference);
  CHECK(device.num_events == 0);
}

}  // namespace lockstep::dlpack
