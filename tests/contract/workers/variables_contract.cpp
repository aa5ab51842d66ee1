#include <cstdint>
#include <initializer_list>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/expected.hpp"
#include "support/world.hpp"

/// Variables of several workers.
namespace lockstep::test {

namespace {

using Aggregation = VariableAggregation;
constexpr auto kOnRead = VariableSynchronization::on_read;

/// Whether each of this process's components has these values.
bool is_everywhere(const Variable& variable, const std::vector<float>& expected) {
  const auto components = world().strategy.local_results(variable);
  bool is_right = components.size() == static_cast<std::size_t>(world().num_local_replicas);
  for (const Tensor& component : components) is_right = is_right && component.to_vector<float>() == expected;
  return is_right;
}

Tensor id_of(const ReplicaContext& ctx) {
  return Tensor::scalar(static_cast<float>(ctx.replica_id_in_sync_group()));
}

float sum_of_ids() { return static_cast<float>(triangular(world().num_replicas)); }
float mean_of_ids() { return static_cast<float>(world().num_replicas - 1) / 2; }

IndexedSlices row(int replica) {
  const auto id = static_cast<float>(replica);
  return {Tensor::from<float>({id, id + 1}, {1, 2}), Tensor::from<std::int64_t>({replica % 3}, {1}), {3, 2}};
}

}  // namespace

TEST_CASE("the first worker's initial value is that of all workers", "[workers]") {
  const World& w = world();
  const auto own = static_cast<float>(w.worker);
  const Variable tensor = w.strategy.make_variable(Tensor::from<float>({own, own + 1}, {2}));
  CHECK(is_everywhere(tensor, {0, 1}));
  int calls = 0;
  const Variable function = w.strategy.make_variable([&] {
    ++calls;
    return Tensor::from<float>({10 + own}, {1});
  });
  CHECK(calls <= 1);
  CHECK(is_everywhere(function, {10}));
  const Variable on_read = w.strategy.make_variable(
      Tensor::from<float>({5 + own}, {1}), {.synchronization = kOnRead, .aggregation = Aggregation::mean});
  CHECK(is_everywhere(on_read, {5}));
  const Variable empty = w.strategy.make_variable(Tensor::zeros({0, 3}));
  CHECK(is_everywhere(empty, {}));
}

TEST_CASE("a variable made in replica functions is one, with replica 0's value", "[workers]") {
  const World& w = world();
  const auto made = w.strategy.run([](ReplicaContext& ctx) {
    return Variable(Tensor::full({2}, static_cast<float>(ctx.replica_id_in_sync_group() + 4)),
                    {.name = "made", .aggregation = Aggregation::sum});
  });
  const Variable variable = made;
  CHECK(variable.name() == "made");
  CHECK(is_everywhere(variable, {4, 4}));
  CHECK(w.strategy.extended().variable_created_in_scope(variable));
}

TEST_CASE("writes outside replica functions reach every component of every worker", "[workers]") {
  const World& w = world();
  Variable variable = w.strategy.make_variable(Tensor::from<float>({1, 2}, {2}));
  variable.assign(Tensor::from<float>({3, 4}, {2}));
  CHECK(is_everywhere(variable, {3, 4}));
  variable.assign_add(Tensor::from<float>({1, 1}, {2}));
  variable.assign_sub(0.5f);
  CHECK(is_everywhere(variable, {3.5f, 4.5f}));
  const auto sum = w.strategy.extended().reduce_to(
      ReduceOp::sum, values([](int replica) { return Tensor::full({2}, static_cast<float>(replica)); }),
      variable);
  variable.assign(sum);
  CHECK(is_everywhere(variable, {sum_of_ids(), sum_of_ids()}));
  w.strategy.extended().update(variable, [](Tensor& local) { local.add_(1); });
  CHECK(is_everywhere(variable, {sum_of_ids() + 1, sum_of_ids() + 1}));
}

TEST_CASE("writes in replicas are aggregated over all workers", "[workers]") {
  const World& w = world();
  const auto make = [&](Aggregation aggregation, float value) {
    return w.strategy.make_variable(Tensor::from<float>({value}, {1}), {.aggregation = aggregation});
  };
  Variable sum = make(Aggregation::sum, 1), mean = make(Aggregation::mean, 5),
           first = make(Aggregation::only_first_replica, 15);
  w.strategy.run([&](ReplicaContext& ctx) { sum.assign(id_of(ctx).reshape({1})); });
  CHECK(is_everywhere(sum, {sum_of_ids()}));
  const auto seen = w.strategy.run([&](ReplicaContext& ctx) {
    const Tensor id = id_of(ctx).reshape({1});
    return std::tuple{sum.assign_add(id).value().item<float>(), mean.assign_sub(id).value().item<float>(),
                      first.assign(id).value().item<float>()};
  });
  for (int i = 0; i < w.num_local_replicas; ++i) {
    CHECK(std::get<0>(seen)[i] == 2 * sum_of_ids());
    CHECK(std::get<1>(seen)[i] == 5 - mean_of_ids());
    CHECK(std::get<2>(seen)[i] == 0);
  }
  CHECK(is_everywhere(sum, {2 * sum_of_ids()}));
  CHECK(is_everywhere(mean, {5 - mean_of_ids()}));
  CHECK(is_everywhere(first, {0}));
  w.strategy.run([&] { mean.assign(7.0f); });
  CHECK(is_everywhere(mean, {7}));
}

TEST_CASE("writes of large variables in replicas have the bits of one process", "[workers]") {
  const World& w = world();
  constexpr std::int64_t kSize = 50'021;
  const auto written = [&](Strategy& strategy) {
    Variable variable = strategy.make_variable(Tensor::zeros({kSize}), {.aggregation = Aggregation::mean});
    for (int round = 0; round < 3; ++round)
      strategy.run([&](ReplicaContext& ctx) {
        const auto id = static_cast<float>(ctx.replica_id_in_sync_group());
        variable.assign_add(Tensor::arange(static_cast<float>(kSize)) / (3.0f + id));
      });
    return strategy.local_results(variable);
  };
  const auto mine = written(w.strategy);
  const Tensor expected = written(one_process())[0];
  for (const Tensor& component : mine) CHECK(difference(component, expected) == "");
}

TEST_CASE("writes that have no meaning are refused on every worker, and change nothing", "[workers]") {
  const World& w = world();
  Variable none = w.strategy.make_variable(Tensor::from<float>({1}, {1}));
  const Thrown thrown = thrown_once(w.strategy, [&] {
    w.strategy.run([&](ReplicaContext& ctx) { none.assign(id_of(ctx).reshape({1})); });
  });
  CHECK(thrown.is<InvalidArgument>());
  CHECK(is_everywhere(none, {1}));
  if (w.num_replicas == 1) return;
  Variable sum = w.strategy.make_variable(Tensor::from<float>({1}, {1}), {.aggregation = Aggregation::sum});
  const Thrown scalar = thrown_once(w.strategy, [&] { w.strategy.run([&] { sum.assign(2.0f); }); });
  CHECK(scalar.is<InvalidArgument>());
  CHECK(is_everywhere(sum, {1}));
}

TEST_CASE("on_read variables are each replica's own, and are aggregated over all workers where they are read",
          "[workers]") {
  const World& w = world();
  const auto make = [&](Aggregation aggregation) {
    return w.strategy.make_variable(Tensor::scalar(1.0f),
                                    {.synchronization = kOnRead, .aggregation = aggregation});
  };
  Variable sum = make(Aggregation::sum), mean = make(Aggregation::mean),
           first = make(Aggregation::only_first_replica);
  CHECK(sum.value().item<float>() == static_cast<float>(w.num_replicas));
  CHECK(mean.value().item<float>() == 1);
  const auto own = w.strategy.run([&](ReplicaContext& ctx) {
    for (Variable* variable : {&sum, &mean, &first}) variable->assign(id_of(ctx) + 2.0f);
    sum.assign_add(Tensor::scalar(1.0f));
    return std::tuple{sum.value().item<float>(), mean.value().item<float>(), first.value().item<float>()};
  });
  for (int i = 0; i < w.num_local_replicas; ++i) {
    const auto id = static_cast<float>(w.first_replica + i);
    CHECK(std::get<0>(own)[i] == id + 3);
    CHECK(std::get<1>(own)[i] == id + 2);
    CHECK(std::get<2>(own)[i] == id + 2);
  }
  CHECK(sum.value().item<float>() == sum_of_ids() + 3 * static_cast<float>(w.num_replicas));
  CHECK(mean.value().item<float>() == mean_of_ids() + 2);
  CHECK(first.value().item<float>() == 2);
}

TEST_CASE("the aggregate of an on_read variable is read in replicas under a guard", "[workers]") {
  const World& w = world();
  Variable sum = w.strategy.make_variable(Tensor::scalar(0.0f),
                                          {.synchronization = kOnRead, .aggregation = Aggregation::sum});
  const auto read = w.strategy.run([&](ReplicaContext& ctx) {
    sum.assign(id_of(ctx));
    const float own = sum.value().item<float>();
    const sync_on_read guard;
    return std::pair{own, sum.value().item<float>()};
  });
  for (int i = 0; i < w.num_local_replicas; ++i) {
    CHECK(read.first[i] == static_cast<float>(w.first_replica + i));
    CHECK(read.second[i] == sum_of_ids());
  }
}

TEST_CASE("an on_read sum reads as it was assigned; its remainder is that of the first global replicas",
          "[workers]") {
  const World& w = world();
  Variable sum = w.strategy.make_variable(Tensor::scalar(std::int64_t{0}),
                                          {.synchronization = kOnRead, .aggregation = Aggregation::sum});
  for (const std::int64_t total : {7, -7, 0, 1}) {
    CAPTURE(total);
    sum.assign(total);
    CHECK(sum.value().item<std::int64_t>() == total);
  }
  sum.assign(std::int64_t{7});
  const auto components = w.strategy.run([&] { return sum.value().item<std::int64_t>(); });
  for (int i = 0; i < w.num_local_replicas; ++i)
    CHECK(components[i] == 7 / w.num_replicas + (w.first_replica + i < 7 % w.num_replicas ? 1 : 0));
  Variable halves = w.strategy.make_variable(Tensor::scalar(0.0f),
                                             {.synchronization = kOnRead, .aggregation = Aggregation::sum});
  halves.assign(static_cast<float>(w.num_replicas) * 1.5f);
  const auto shares = w.strategy.run([&] { return halves.value().item<float>(); });
  for (const float share : shares) CHECK(share == 1.5f);
  const Thrown thrown = thrown_once(w.strategy, [&] { halves.assign_add(1.0f); });
  CHECK(thrown.is<InvalidArgument>());
}

TEST_CASE("rows that replicas scatter are brought together over all workers", "[workers]") {
  const World& w = world();
  const auto scattered = [&](Strategy& strategy) {
    std::vector<Variable> variables;
    for (const Aggregation aggregation :
         {Aggregation::sum, Aggregation::mean, Aggregation::only_first_replica})
      variables.push_back(strategy.make_variable(Tensor::ones({3, 2}), {.aggregation = aggregation}));
    strategy.run([&](ReplicaContext& ctx) {
      const IndexedSlices own = row(ctx.replica_id_in_sync_group());
      variables[0].scatter_add(own);
      variables[1].scatter_sub(own);
      variables[2].scatter_update(own);
    });
    variables[0].scatter_add(row(1));
    std::vector<Tensor> components;
    for (const Variable& variable : variables)
      for (const Tensor& component : strategy.local_results(variable)) components.push_back(component);
    return components;
  };
  const std::vector<Tensor> mine = scattered(w.strategy), expected = scattered(one_process());
  for (std::size_t variable = 0; variable < 3; ++variable)
    for (std::size_t i = 0; i < static_cast<std::size_t>(w.num_local_replicas); ++i)
      CHECK(difference(mine[variable * static_cast<std::size_t>(w.num_local_replicas) + i],
                       expected[variable * static_cast<std::size_t>(w.num_replicas)]) == "");
  const auto only_first = mine.back().to_vector<float>();
  CHECK(only_first == std::vector<float>{0, 1, 1, 1, 1, 1});
}

TEST_CASE("replicas that write different variables at one time are told on every worker", "[workers]") {
  const World& w = world();
  if (w.num_replicas == 1) return;
  Variable a = w.strategy.make_variable(Tensor::scalar(1.0f), {.name = "a", .aggregation = Aggregation::sum}),
           b = w.strategy.make_variable(Tensor::scalar(1.0f), {.name = "b", .aggregation = Aggregation::sum});
  const Thrown thrown = thrown_once(w.strategy, [&] {
    w.strategy.run([&](ReplicaContext& ctx) {
      (ctx.replica_id_in_sync_group() == w.last_replica() ? b : a).assign(id_of(ctx));
    });
  });
  CHECK(thrown.is<CollectiveMismatch>());
  CHECK(thrown.names(w.last_replica()));
  CHECK(a.value().item<float>() == 1);
  CHECK(b.value().item<float>() == 1);
}

}  // namespace lockstep::test
