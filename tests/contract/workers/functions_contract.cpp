#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/scoped_log_sink.hpp"
#include "support/world.hpp"

/// Functions of a strategy of several workers, whose steps run one by one.
namespace lockstep::test {

TEST_CASE("a function of workers gives what run gives, by the rules of functions", "[workers]") {
  const World& w = world();
  const auto strategy = w.make_strategy();
  std::vector<std::string> lines;
  const ScopedLogSink sink([&lines](std::string_view line) {
    if (line.find("without graphs") != line.npos) lines.emplace_back(line);
  });
  Variable total = strategy->make_variable(Tensor::scalar(0.0f), {.aggregation = VariableAggregation::sum});
  auto step = strategy->function([&](ReplicaContext& ctx, const Tensor& x) {
    total.assign_add(x);
    return ctx.all_reduce(ReduceOp::sum, x) * total.value();
  });
  const auto values_of = [&](int call) {
    return strategy->run([call](ReplicaContext& ctx) {
      return Tensor::scalar(static_cast<float>(call + ctx.replica_id_in_sync_group()));
    });
  };
  float expected = 0;
  for (int call = 0; call < 4; ++call) {
    const auto n = static_cast<float>(w.num_replicas);
    const float sum = static_cast<float>(call) * n + n * (n - 1) / 2;
    expected += sum;
    CHECK(step(values_of(call))[0].item<float>() == sum * expected);
    CHECK(total.value().item<float>() == expected);
  }
  CHECK(step.num_traces() == 1);
  const bool is_captured = w.devices.front().kind() == DeviceKind::gpu;
  CHECK(lines.size() == (is_captured && w.num_workers > 1 ? 1 : 0));
  for (const std::string& line : lines) CHECK(line.find("workers meet on their hosts") != line.npos);

  auto looks = strategy->function([](const Tensor& x) { static_cast<void>(x.item<float>()); });
  const auto x = values_of(0);
  looks(x);
  CHECK_THROWS_MATCHES(looks(x), ContextError, says("Reading the values of", "traced step"));
}

}  // namespace lockstep::test
