#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "cuda/gate.hpp"
#include "support/communicator_group.hpp"

namespace lockstep::test {
namespace {

/// One of each kind of work. Its results are on each rank's stream.
std::vector<Tensor> enqueue(CommunicatorGroup& group) {
  std::vector<Tensor> results;
  std::vector<TensorView> views;
  for (int rank = 0; rank < group.size(); ++rank) {
    const StreamRef stream = group.stream(rank);
    const StreamScope scope(stream);
    const Tensor a = Tensor::full({8, 8}, static_cast<float>(rank + 1), DType::f32, stream.device());
    const Tensor product = matmul(a, a.cast(DType::f64).cast(DType::f32));
    results.push_back(reduce_axes(ReduceOp::sum, product + a, 0, DType::f32).clone());
    views.push_back(results.back().view());
    const Event event(stream.device());
    event.record(stream);
    stream.wait(event);
  }
  group.communicator().all_reduce(ReduceOp::mean, views, views, group.streams());
  return results;
}

}  // namespace

TEST_CASE("what is enqueued does not wait for what is before it", "[cuda]") {
  CommunicatorGroup group(TestBackend::num_devices());
  const std::vector<Tensor> first = enqueue(group);  // loads kernels, connects, and makes the pools grow
  for (const StreamRef& stream : group.streams()) stream.synchronize();
  std::vector<Tensor> second;
  {
    const Gate gate(group.stream(0));  // one: host functions may take turns
    for (int rank = 1; rank < group.size(); ++rank) group.stream(rank).wait(group.stream(0));
    second = enqueue(group);
    for (const StreamRef& stream : group.streams()) REQUIRE(!stream.is_complete());
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    const StreamScope scope(group.stream(rank));
    const auto index = static_cast<std::size_t>(rank);
    REQUIRE(second[index].to_vector<float>() == first[index].to_vector<float>());
  }
}

}  // namespace lockstep::test
