// Examples of the documentation: variables, and where they live.
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

TEST_CASE("the examples of variables are right", "[docs]") {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});

  //! [Variable, VariableOptions]
  ls::Variable level = strategy.make_variable(
      ls::Tensor::scalar(0.0f), {.name = "level", .aggregation = ls::VariableAggregation::mean});
  strategy.run([&](ls::ReplicaContext& context) {
    level.assign_add(
        ls::Tensor::scalar(2.0f * context.replica_id_in_sync_group()));  // 0 and 2: their mean is 1
  });
  level.assign_add(10);                       // outside replicas every component takes the value
  float value = level.value().item<float>();  // 11
  //! [Variable, VariableOptions]
  CHECK(value == 11);

  //! [sync_on_read]
  ls::Variable rows = strategy.make_variable(
      ls::Tensor::scalar(0.0f),
      {.synchronization = ls::VariableSynchronization::on_read, .aggregation = ls::VariableAggregation::sum});
  auto counts = strategy.run([&] {
    rows.assign_add(3);  // the replica's own component; nobody waits
    const ls::sync_on_read guard;
    return rows.value();  // of all replicas: 6
  });
  float all = rows.value().item<float>();  // outside replicas a read combines anyway
  //! [sync_on_read]
  CHECK(counts[1].item<float>() == 6);
  CHECK(all == 6);

  //! [ColocationScope, NonSlot]
  auto scope = strategy.scope();
  auto& extended = strategy.extended();
  auto make_beside = [&](const ls::Variable& variable) {
    auto here = extended.colocate_vars_with(variable);  // until the end of the block
    return ls::Variable(ls::Tensor::zeros({}), {.name = "velocity"});
  };
  ls::Variable velocity = make_beside(level);              // on the devices of `level`
  ls::NonSlot place = extended.non_slot_devices({level});  // where state of no single variable lives
  //! [ColocationScope, NonSlot]
  CHECK(strategy.local_results(velocity).size() == 2);
  CHECK(place.devices.size() == 2);
}
