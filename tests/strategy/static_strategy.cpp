#include <optional>

#include <lockstep/lockstep.hpp>

/// P40 a strategy in a static variable, and values, variables and a context beside it, let the program end
/// with status 0 and without output.

namespace ls = lockstep;

#ifndef LOCKSTEP_TEST_DEVICE_KIND
#define LOCKSTEP_TEST_DEVICE_KIND "CPU"
#endif

namespace {

constexpr const char* kDevices[] = {LOCKSTEP_TEST_DEVICE_KIND ":0", LOCKSTEP_TEST_DEVICE_KIND ":1",
                                    LOCKSTEP_TEST_DEVICE_KIND ":2"};

std::optional<ls::PerReplica<ls::Tensor>> value;  // outlives the strategies
std::optional<ls::Variable> variable;
ls::MirroredStrategy used({kDevices[0], kDevices[1], kDevices[2]},
                          {.communicator = {.symmetric_windows = true}});
ls::MirroredStrategy unused({kDevices[0], kDevices[1]});

}  // namespace

int main() {
  value = used.run([](ls::ReplicaContext& ctx) {
    ls::PackedReduction packs(ctx, ls::ReduceOp::sum);
    for (int i = 0; i < 9; ++i) packs.add(ls::Tensor::ones({3}));
    packs.wait();
    return ctx.all_reduce(ls::ReduceOp::sum, 1.0f);
  });
  ls::set_strategy(&used);
  variable.emplace(ls::Tensor::zeros({3}));
  variable->assign_add(1.0f);
  const bool right =
      used.reduce(ls::ReduceOp::sum, *value).item<float>() == 9.0f && variable->value().size() == 3;
  return right ? 0 : 1;
}
