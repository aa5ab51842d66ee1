// Examples of the documentation: values with one component for each replica.
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

TEST_CASE("the examples of distributed values are right", "[docs]") {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2"});

  //! [PerReplica, DistributedValues]
  ls::PerReplica<ls::Tensor> losses = strategy.run([](ls::ReplicaContext& context) {
    return ls::Tensor::scalar(1.0f + context.replica_id_in_sync_group());
  });
  int replicas = losses.size();                                            // 3
  float last = losses[2].item<float>();                                    // 3
  float mean = strategy.reduce(ls::ReduceOp::mean, losses).item<float>();  // 2
  //! [PerReplica, DistributedValues]
  CHECK(replicas == 3);
  CHECK(last == 3);
  CHECK(mean == 2);

  //! [Mirrored]
  ls::Mirrored<ls::Tensor> ones = strategy.extended().broadcast_to(ls::Tensor::ones({2}));
  auto doubled =
      strategy.run([](const ls::Tensor& one) { return one * 2; }, ones);  // each takes its component
  ls::Tensor here = ones;  // converts: its components are equal
  //! [Mirrored]
  CHECK(ones.size() == 3);
  CHECK(doubled[1].to_vector<float>() == std::vector<float>{2, 2});
  CHECK(here.device() == "CPU:0");

  //! [ValueContext]
  auto ids = strategy.distribute_values_from_function(
      [](ls::ValueContext context) { return 10 * context.replica_id_in_sync_group(); });  // 0, 10, 20
  //! [ValueContext]
  CHECK(ids[2] == 20);

  //! [ReduceValue, Destination]
  ls::Variable weights = strategy.make_variable(ls::Tensor::zeros({2}));
  std::vector<std::pair<ls::ReduceValue, ls::Destination>> pairs{
      {losses, "CPU:1"},    // to one device
      {doubled, weights}};  // to a variable's devices
  auto reduced = strategy.extended().batch_reduce_to(ls::ReduceOp::sum, pairs);
  weights.assign_add(reduced[1]);
  //! [ReduceValue, Destination]
  CHECK(reduced[0][0].device() == "CPU:1");
  CHECK(weights.value().to_vector<float>() == std::vector<float>{6, 6});
}

TEST_CASE("the example of sharded tensors is right", "[docs]") {
  //! [ShardedTensor]
  ls::Tensor whole = ls::Tensor::arange(6).reshape({2, 3});
  auto tiles = ls::ShardedTensor::split(whole, {2, 1}, {"CPU:0", "CPU:1"});  // two tiles of one row
  ls::Tensor second_row = tiles.shard(1);                                    // on CPU:1
  ls::Tensor together = tiles;  // the whole, on the current device
  //! [ShardedTensor]
  CHECK(second_row.to_vector<int>() == std::vector<int>{3, 4, 5});
  CHECK(second_row.device() == "CPU:1");
  CHECK(together.shape() == whole.shape());
}
