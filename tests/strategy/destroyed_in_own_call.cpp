#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>

#include <lockstep/lockstep.hpp>

/// destroyed_in_own_call FUNCTION: destroys a strategy in such a function, which a call of the strategy's has
/// called. That must end the program, as the call could not go on.

namespace ls = lockstep;

int main(int, char** argv) {
  std::set_terminate([] {
    std::fputs("the program ends\n", stderr);
    std::_Exit(3);
  });
  auto owner = std::make_unique<ls::MirroredStrategy>(std::initializer_list<ls::Device>{"CPU:0", "CPU:1"});
  ls::MirroredStrategy& strategy = *owner;
  const auto variable = strategy.make_variable(ls::Tensor::zeros({2}));
  const std::string_view name = argv[1];
  const auto in_replica = [&](ls::ReplicaContext& ctx, int who) {
    if (ctx.replica_id_in_sync_group() == who) owner.reset();
  };
  if (name == "replica_0") strategy.run(in_replica, 0);
  if (name == "replica_1") strategy.run(in_replica, 1);
  if (name == "merge")
    strategy.run([&](ls::ReplicaContext& ctx) { ctx.merge_call([&](ls::Strategy&) { owner.reset(); }); });
  if (name == "update") strategy.extended().update(variable, [&](ls::Tensor&) { owner.reset(); });
  if (name == "update_non_slot")
    strategy.extended().update_non_slot(strategy.extended().non_slot_devices({variable}),
                                        [&] { owner.reset(); });
  if (name == "initial_value")
    static_cast<void>(strategy.make_variable([&] {
      owner.reset();
      return ls::Tensor::zeros({2});
    }));
  if (name == "value_in_scope") {
    const auto scope = strategy.scope();
    static_cast<void>(strategy.distribute_values_from_function([&](ls::ValueContext) {
      owner.reset();
      return 1;
    }));
  }
  return 0;
}
