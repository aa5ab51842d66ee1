#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Strategy::run.
namespace lockstep::test {

TEST_CASE("run-chain: results of one run are arguments of the next", "[strategy]") {
  Replicas strategy(2);
  const auto out1 =
      strategy.run([](ReplicaContext& ctx) { return Tensor::scalar(ctx.replica_id_in_sync_group() + 1); });
  const auto out2 = strategy.run(
      [](const Tensor& x) {
        return std::map<std::string, Tensor>{{"a", x * 2}, {"b", x * x}};
      },
      out1);
  const auto out3 =
      strategy.run([](std::map<std::string, Tensor> in) { return in.at("a") + in.at("b") * 2 + 2; }, out2);
  REQUIRE(items<int>(out1) == std::vector<int>{1, 2});
  REQUIRE(items<int>(out2.at("a")) == std::vector<int>{2, 4});
  REQUIRE(items<int>(out2.at("b")) == std::vector<int>{1, 4});
  REQUIRE(items<int>(out3) == std::vector<int>{6, 14});
}

namespace {

/// Counts its copies.
struct Counted {
  std::shared_ptr<std::atomic<int>> copies = std::make_shared<std::atomic<int>>(0);
  Counted() = default;
  Counted(const Counted& other) : copies(other.copies) { ++*copies; }
  Counted(Counted&&) = default;
  Counted& operator=(const Counted&) = default;
  Counted& operator=(Counted&&) = default;
};

}  // namespace

TEST_CASE("run gives a step's members to a function that cannot take the step", "[strategy]") {
  Replicas strategy(2);
  const auto data = Dataset::from_tensor_slices(Tensor::from<float>({1, 2, 3, 4}, {4}),
                                                Tensor::from<float>({10, 20, 30, 40}, {4}))
                        .batch(4);
  using Tensors = std::tuple<Tensor, Tensor>;
  for (const auto& step : strategy.distribute_dataset(data)) {
    const auto members = strategy.run([](Tensor x, const Tensor& y) { return sum(x + y); }, step);
    REQUIRE(items<float>(members) == std::vector<float>{33, 77});
    const auto with_context = strategy.run(
        [](ReplicaContext& ctx, Tensor x, Tensor y) { return ctx.all_reduce(ReduceOp::sum, sum(x + y)); },
        step);
    REQUIRE(items<float>(with_context) == std::vector<float>{110, 110});
    const auto whole = strategy.run([](const Tensors& both) { return sum(std::get<1>(both)); }, step);
    REQUIRE(items<float>(whole) == std::vector<float>{30, 70});
    REQUIRE(items<float>(strategy.run(
                RunOptions{}, [](auto x, auto) { return sum(x); }, step)) == std::vector<float>{3, 7});
    const auto generic = strategy.run(
        [](auto& ctx, auto both) { return ctx.all_reduce(ReduceOp::sum, sum(std::get<0>(both))); }, step);
    REQUIRE(items<float>(generic) == std::vector<float>{10, 10});
  }
  const auto pair = std::pair(scalars<float>({1, 2}), 3.0f);
  REQUIRE(items<float>(strategy.run([](Tensor x, float by) { return x * by; }, pair)) ==
          std::vector<float>{3, 6});
}

TEST_CASE("run copies a plain argument for each replica, unless the function only reads it", "[strategy]") {
  Replicas strategy(2);
  const Counted one;
  const std::vector<Counted> list(3);
  std::atomic<int> num_same = 0;
  const auto same = [&](const Counted& given, const std::vector<Counted>& all) {
    num_same += &given == &one && &all == &list;
  };
  strategy.run([&](const Counted& a, const std::vector<Counted>& b) { same(a, b); }, one, list);
  strategy.run([&](ReplicaContext&, const Counted& a, const std::vector<Counted>& b) { same(a, b); }, one,
               list);
  strategy.run([&, alone = std::make_unique<int>()](const Counted& a,
                                                    const std::vector<Counted>& b) mutable { same(a, b); },
               one, list);
  REQUIRE(num_same == 6);
  REQUIRE(*one.copies == 0);
  REQUIRE(*list[0].copies == 0);
  // Replicas may write to what is theirs, also where a template takes it.
  strategy.run([&](Counted a, auto&& b) { num_same -= &a == &one || &b == &list; }, one, list);
  strategy.run([](std::vector<Counted>&& b) { b.clear(); }, list);
  REQUIRE(num_same == 6);
  REQUIRE(*one.copies == 2);
  REQUIRE(*list[0].copies == 4);
  // What refers to such a copy is kept.
  const auto text = strategy.run([](const std::string& x) -> const std::string& { return x; },
                                 std::string("a text that is longer than a string's own buffer"));
  const auto part = strategy.run([](const Tensor& x) -> const Tensor& { return x; },
                                 strategy.run([] { return Tensor::scalar(2); }));
  REQUIRE(text[1] == "a text that is longer than a string's own buffer");
  REQUIRE(items<int>(part) == std::vector<int>{2, 2});
}

TEST_CASE("run copies neither components that the function only reads nor results", "[strategy]") {
  Replicas strategy(2);
  const Counted counted;
  const auto num_copies = [&] { return counted.copies->load(); };
  const auto values = strategy.distribute_values_from_function([&](const ValueContext&) { return counted; });
  const auto mirrored = Mirrored(values);
  int before = num_copies();
  std::atomic<int> num_same = 0;
  const auto is_one_of = [](const Counted& given, const auto& all) {
    return &given == &all[0] || &given == &all[1];
  };
  strategy.run(
      [&](const Counted& a, const Counted& b) { num_same += is_one_of(a, values) && is_one_of(b, mirrored); },
      values, mirrored);
  CHECK(num_same == 2);
  CHECK(num_copies() == before);
  strategy.run([](Counted a) { a.copies.reset(); }, values);
  CHECK(num_copies() == before + 2);

  before = num_copies();
  const auto mine = [&] {
    Counted made;
    made.copies = counted.copies;
    return made;
  };
  const auto one = strategy.run([&] { return mine(); });
  const auto [first, list] = strategy.run([&] {
    std::vector<Counted> both;
    both.push_back(mine());
    both.push_back(mine());
    return std::pair(mine(), std::move(both));
  });
  CHECK(num_copies() == before);
  CHECK((one[1].copies == counted.copies && first[0].copies == counted.copies));
  CHECK(list[1][1].copies == counted.copies);
}

TEST_CASE("run-merge-same-object: the same captured tensor comes back as itself", "[strategy]") {
  Replicas strategy(2);
  const Tensor captured = Tensor::scalar(1.0f);
  const auto [id, same] = strategy.run([&](ReplicaContext& ctx) {
    return std::tuple{Tensor::scalar(ctx.replica_id_in_sync_group()), captured};
  });
  REQUIRE_FALSE(id.is_same_object());
  REQUIRE(items<int>(id) == std::vector<int>{0, 1});
  REQUIRE(same.is_same_object());
  REQUIRE(same[1].is_same_object(captured));
}

TEST_CASE("run-merge-length-mismatch: vectors of different length are refused", "[strategy]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    return std::vector<Tensor>(static_cast<std::size_t>(ctx.replica_id_in_sync_group()), Tensor::scalar(1));
  }),
                         InvalidArgument, says("run", "replica 1", "length 1", "replica 0", "length 0"));
}

TEST_CASE("run-one-replica: one replica's values are used as plain ones", "[strategy]") {
  Replicas strategy(1);
  const auto out1 = strategy.run([] { return Tensor::scalar(4.0f); });
  const auto out2 = strategy.run(
      [](const Tensor& x) {
        return std::map<std::string, Tensor>{{"a", x * 2}, {"b", x * x}};
      },
      out1);
  const auto out3 =
      strategy.run([](std::map<std::string, Tensor> in) { return in.at("a") + in.at("b") * 2 + 2; }, out2);
  const Tensor plain = out1;
  REQUIRE(plain.item<float>() == 4.0f);
  REQUIRE(Tensor(out2.at("a")).item<float>() == 8.0f);
  REQUIRE(Tensor(out2.at("b")).item<float>() == 16.0f);
  REQUIRE(Tensor(out3).item<float>() == 42.0f);
  REQUIRE(items<float>(strategy.local_results(out1)) == std::vector<float>{4});
}

TEST_CASE("P16 run gives a per-replica value with one entry for one replica", "[strategy]") {
  Replicas one(1);
  const auto result = one.run([](ReplicaContext& ctx) { return ctx.num_replicas_in_sync(); });
  STATIC_REQUIRE(std::is_same_v<decltype(result), const PerReplica<int>>);
  REQUIRE(result.size() == 1);
  REQUIRE(result == 1);  // converts
}

TEST_CASE("run hands each replica its component of distributed arguments and all else unchanged",
          "[strategy]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(3.0f));
  const Tensor plain = Tensor::scalar(9.0f);
  const auto mirrored = strategy.extended().broadcast_to(Tensor::scalar(5.0f));
  const auto per_replica = scalars<float>({1, 2});
  const auto checks = strategy.run(
      [&](ReplicaContext& ctx, const Tensor& part, const Tensor& copy, Variable v, const Tensor& same,
          int number, const std::optional<Tensor>& none, const std::string& text) {
        const int id = ctx.replica_id_in_sync_group();
        return std::vector<std::string>{part.is_same_object(per_replica[id]) ? "" : "per-replica",
                                        copy.is_same_object(mirrored[id]) ? "" : "mirrored",
                                        v == variable && v.value().device() == ctx.device() ? "" : "variable",
                                        same.is_same_object(plain) ? "" : "plain",
                                        number == 7 ? "" : "scalar",
                                        none ? "optional" : "",
                                        text == "bar" ? "" : "text"};
      },
      per_replica, mirrored, variable, plain, 7, std::optional<Tensor>(), "bar");
  for (const auto& check : checks) REQUIRE(strategy.local_results(check) == std::vector<std::string>{"", ""});
}

TEST_CASE("run hands a mirrored value with one component to every replica", "[strategy]") {
  Replicas strategy(2);
  const auto on_host = strategy.extended().broadcast_to(Tensor::scalar(5.0f), "CPU:0");
  REQUIRE(on_host.size() == 1);
  const auto seen = strategy.run([](const Tensor& x) { return x.item<float>(); }, on_host);
  REQUIRE(seen[1] == 5.0f);
}

TEST_CASE("run refuses per-replica values with another number of components", "[strategy]") {
  TestBackend::devices(3);
  Replicas strategy(2);
  bool called = false;
  REQUIRE_THROWS_MATCHES(strategy.run([&](const Tensor&) { called = true; }, scalars<float>({1, 2, 3})),
                         InvalidArgument, says("run", "3 components", "2 local replicas"));
  REQUIRE_THROWS_MATCHES(
      strategy.run([&](const std::vector<Tensor>&) { called = true; }, std::vector{scalars<float>({1})}),
      InvalidArgument, says("1 components"));
  REQUIRE_FALSE(called);
}

TEST_CASE("run returns a variable as the variable and refuses different ones", "[strategy]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable a(Tensor::scalar(1.0f), {.name = "a"}), b(Tensor::scalar(1.0f), {.name = "b"});
  const auto [returned, one] = strategy.run([&] { return std::tuple{a, 1}; });
  STATIC_REQUIRE(std::is_same_v<decltype(returned), const Variable>);
  REQUIRE(returned == a);
  REQUIRE(one[1] == 1);
  REQUIRE_THROWS_MATCHES(
      strategy.run([&](ReplicaContext& ctx) { return ctx.replica_id_in_sync_group() == 0 ? a : b; }),
      InvalidArgument, says("replica 1", "'b'", "replica 0", "'a'"));
}

TEST_CASE("run of a function without result returns nothing", "[strategy]") {
  Replicas strategy(2);
  STATIC_REQUIRE(std::is_void_v<decltype(strategy.run([] {}))>);
  std::vector<int> calls(2, 0);
  strategy.run(
      [&](ReplicaContext& ctx) { ++calls[static_cast<std::size_t>(ctx.replica_id_in_sync_group())]; });
  REQUIRE(calls == std::vector<int>{1, 1});
}

TEST_CASE("run accepts its options first and ignores them", "[strategy]") {
  Replicas strategy(2);
  const auto result = strategy.run(
      RunOptions{.bucketizing_dynamic_shape = true},
      [](ReplicaContext& ctx, int x) { return x + ctx.replica_id_in_sync_group(); }, 5);
  REQUIRE((result[0] == 5 && result[1] == 6));
}

TEST_CASE("run prefers a function's form without the context, and takes generic ones with it", "[strategy]") {
  Replicas strategy(2);
  struct Both {
    int operator()(int x) const { return x; }
    int operator()(ReplicaContext&, int) const { return -1; }
  };
  REQUIRE(strategy.run(Both(), 3)[1] == 3);
  REQUIRE(strategy.run([](auto& ctx) { return ctx.replica_id_in_sync_group(); })[1] == 1);
  REQUIRE(strategy.run([](std::tuple<int, int> pair) { return std::get<1>(pair); }, std::tuple{1, 2})[0] ==
          2);
}

TEST_CASE("run gives each replica its device and counts replicas from 0", "[strategy]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto [ids, counts, devices, here, own] = strategy.run([&](ReplicaContext& ctx) {
    return std::tuple{ctx.replica_id_in_sync_group(), ctx.num_replicas_in_sync(), ctx.device(),
                      Tensor::scalar(1.0f).device(), &ctx.strategy() == &strategy};
  });
  for (int i = 0; i < n; ++i) {
    REQUIRE(ids[i] == i);
    REQUIRE(counts[i] == n);
    REQUIRE(devices[i] == TestBackend::device(i));
    REQUIRE(here[i] == devices[i]);
    REQUIRE(own[i]);
  }
}

TEST_CASE("run takes functions and results that can only be moved", "[strategy]") {
  Replicas strategy(2);
  auto owned = std::make_unique<int>(3);
  REQUIRE(strategy.run([owned = std::move(owned)] { return *owned; })[1] == 3);
  int calls = 0;
  auto counting = [&calls](ReplicaContext& ctx) mutable { return ctx.replica_id_in_sync_group() + calls; };
  REQUIRE(strategy.run(counting)[1] == 1);
}

TEST_CASE("run works a thousand times over", "[strategy]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  int wrong = 0;
  for (int round = 0; round < (kSlowBuild ? 100 : 1000); ++round) {
    const auto result =
        strategy.run([round](ReplicaContext& ctx) { return round + ctx.replica_id_in_sync_group(); });
    wrong += result[n - 1] != round + n - 1;
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("a per-replica value is used as one value when it has one component only", "[strategy]") {
  Replicas strategy(2);
  const auto two = scalars<float>({1, 2});
  REQUIRE_THROWS_MATCHES(Tensor(two), InvalidArgument, says("2 components", "PerReplica<T>", "reduce"));
  REQUIRE_THROWS_MATCHES(two + Tensor::scalar(1.0f), InvalidArgument, says("2 components"));
  REQUIRE_THROWS_MATCHES(two[2], InvalidArgument, says("component 2", "2 components"));
  REQUIRE_THROWS_MATCHES(two[-1], InvalidArgument, says("component -1"));
  REQUIRE_THROWS_MATCHES(PerReplica<Tensor>(std::vector<Tensor>()), InvalidArgument,
                         says("PerReplica without components"));
  REQUIRE_THROWS_MATCHES(Mirrored<Tensor>(std::vector<Tensor>()), InvalidArgument,
                         says("Mirrored without components"));
  // Inside a replica too.
  REQUIRE_THROWS_MATCHES(strategy.run([&] { return Tensor(two).item<float>(); }), InvalidArgument,
                         says("2 components"));
}

TEST_CASE("a mirrored value is the component on the current device, else component 0", "[strategy]") {
  Replicas strategy(2);
  const auto mirrored = strategy.extended().broadcast_to(Tensor::scalar(5.0f));
  REQUIRE(Tensor(mirrored).is_same_object(mirrored[0]));
  REQUIRE((mirrored + Tensor::scalar(1.0f, TestBackend::device(0))).item<float>() == 6.0f);
  const auto own =
      strategy.run([&](ReplicaContext& ctx) { return Tensor(mirrored).device() == ctx.device(); });
  REQUIRE((own[0] && own[1]));
}

}  // namespace lockstep::test
