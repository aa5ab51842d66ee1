#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/dtypes.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Metrics on sync-on-read variables, and in_top_k.
namespace lockstep::test {

namespace {

Tensor labels_of(std::initializer_list<std::int64_t> labels) {
  return Tensor::from<std::int64_t>(labels, {static_cast<std::int64_t>(labels.size())});
}

double value(const metrics::Metric& metric) { return metric.result().item<double>(); }

}  // namespace

TEST_CASE("P15 ratios: numerators and denominators are summed, then divided", "[metrics]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  metrics::Accuracy accuracy;
  // 3 right of 4, and 1 right of 2.
  strategy.run([&](ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == 0)
      accuracy.update(labels_of({1, 2, 3, 4}), labels_of({1, 2, 3, 0}));
    else
      accuracy.update(labels_of({1, 2}), labels_of({1, 0}));
  });
  REQUIRE(value(accuracy) == 4.0 / 6.0);
}

TEST_CASE("the mean of a metric counts every element once, on any number of replicas", "[metrics]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto scope = strategy.scope();
  metrics::Mean mean("loss");
  metrics::Sum sum;
  REQUIRE(mean.name() == "loss");
  REQUIRE(value(mean) == 0.0);
  REQUIRE(value(sum) == 0.0);
  std::int64_t rows = 0;
  double total = 0;
  for (int step = 0; step < 3; ++step) {
    strategy.run([&](ReplicaContext& ctx) {
      // Replica i's batch has i + step rows, also none.
      const std::int64_t size = ctx.replica_id_in_sync_group() + step;
      const Tensor batch = Tensor::full({size}, static_cast<float>(ctx.replica_id_in_sync_group() + 1));
      mean.update(batch);
      sum.update(batch);
    });
    for (int i = 0; i < n; ++i) {
      rows += i + step;
      total += (i + step) * (i + 1.0);
    }
    REQUIRE(value(sum) == total);
    if (rows > 0) REQUIRE(value(mean) == total / static_cast<double>(rows));
  }
  mean.reset();
  REQUIRE(value(mean) == 0.0);
  strategy.run([&] { mean.update(Tensor::scalar(2.0f)); });
  REQUIRE(value(mean) == 2.0);
}

TEST_CASE("weighted means", "[metrics]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  metrics::Mean mean;
  strategy.run([&](ReplicaContext& ctx) {
    const Tensor values = Tensor::from<float>({1, 2, 3}, {3});
    if (ctx.replica_id_in_sync_group() == 0)
      mean.update(values, Tensor::from<std::int64_t>({1, 0, 2}, {3}));
    else
      mean.update(values, Tensor::scalar(0.5f));
  });
  REQUIRE(value(mean) == (1.0 + 6.0 + 3.0) / (3.0 + 1.5));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { mean.update(Tensor::zeros({3}), Tensor::zeros({2})); }),
                         InvalidArgument,
                         says("update of the metric 'mean'", "weights [2] float32", "values [3] float32"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { mean.update(Tensor::full({3}, true)); }), InvalidArgument,
                         says("'mean'", "bool", "not a number"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { mean.update(Tensor::zeros({3}), Tensor::full({3}, true)); }),
                         InvalidArgument, says("'mean'", "bool"));
  metrics::Sum sum;
  REQUIRE_THROWS_MATCHES(strategy.run([&] { sum.update(Tensor::full({3}, true)); }), InvalidArgument,
                         says("'sum'", "bool"));
}

TEST_CASE("accuracy of logits, and top k", "[metrics]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  metrics::Accuracy accuracy;
  metrics::TopK top_1(1), top_2(2, "top_2"), top_3(3);
  REQUIRE(top_2.k() == 2);
  strategy.run([&] {
    const Tensor logits = Tensor::from<float>({1, 3, 2, /**/ 5, 4, 6, /**/ 9, 7, 8}, {3, 3});
    const Tensor labels = labels_of({1, 0, 1});
    accuracy.update(labels, logits);
    for (metrics::TopK* top : {&top_1, &top_2, &top_3}) top->update(labels, logits);
  });
  REQUIRE(value(accuracy) == 1.0 / 3);
  REQUIRE(value(top_1) == 1.0 / 3);
  REQUIRE(value(top_2) == 2.0 / 3);
  REQUIRE(value(top_3) == 1.0);
  REQUIRE_THROWS_MATCHES(metrics::TopK(0), InvalidArgument, says("TopK", "at least 1"));
  REQUIRE_THROWS_AS(strategy.run([&] {
    accuracy.update(labels_of({1}), Tensor::zeros({2, 3}));
  }),
                    InvalidArgument);
}

TEST_CASE("a replica's own result, and everybody's under sync_on_read", "[metrics]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  metrics::Mean mean;
  const auto [own, all] = strategy.run([&](ReplicaContext& ctx) {
    mean.update(Tensor::full({ctx.replica_id_in_sync_group() + 1},
                             static_cast<float>(ctx.replica_id_in_sync_group())));
    const Tensor mine = mean.result();
    const sync_on_read guard;
    return std::tuple{mine, mean.result()};
  });
  REQUIRE(items<double>(own) == std::vector<double>{0, 1});
  REQUIRE(items<double>(all) == std::vector<double>{2.0 / 3, 2.0 / 3});
  // One replica alone starts over.
  strategy.run([&](ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == 1) mean.reset();
  });
  REQUIRE(value(mean) == 0.0);
}

TEST_CASE("metrics in cross-replica context and outside every scope", "[metrics]") {
  metrics::Mean outside;
  outside.update(Tensor::from<float>({1, 2}, {2}));
  outside.update(Tensor::scalar(6.0f));
  REQUIRE(value(outside) == 3.0);
  Replicas strategy(2);
  const auto scope = strategy.scope();
  metrics::Mean mean("loss");
  mean.update(Tensor::from<float>({1, 2, 6}, {3}));  // counts once, whatever the number of replicas
  REQUIRE(value(mean) == 3.0);
  strategy.run([&] { mean.update(Tensor::scalar(9.0f)); });
  REQUIRE(value(mean) == 27.0 / 5.0);
  mean.reset();
  REQUIRE(value(mean) == 0.0);
  const auto variables = mean.variables();
  REQUIRE(variables.size() == 2);
  REQUIRE(variables[0].first == "total");
  REQUIRE(variables[1].second.name() == "loss/count");
  REQUIRE_FALSE(variables[0].second.trainable());
}

TEST_CASE("metrics on central storage", "[metrics]") {
  CentralStorageStrategy strategy(TestBackend::devices(2), "CPU:0");
  const auto scope = strategy.scope();
  metrics::Mean mean;
  strategy.run([&](ReplicaContext& ctx) {
    mean.update(Tensor::full({2 * ctx.replica_id_in_sync_group() + 1},
                             static_cast<float>(ctx.replica_id_in_sync_group())));
  });
  REQUIRE(value(mean) == 0.75);
}

TEST_CASE("a result beside runs of another thread is of whole updates", "[metrics][threads]") {
  const int kSteps = kSlowBuild ? 200 : 3000;
  const bool is_central = GENERATE(false, true);
  Replicas replicas(2);
  CentralStorageStrategy central(TestBackend::devices(2), Device(DeviceKind::cpu, 0));
  Strategy& strategy = is_central ? static_cast<Strategy&>(central) : replicas;
  const auto [mean, accuracy] = [&] {
    const auto scope = strategy.scope();
    return std::pair{std::make_shared<metrics::Mean>(), std::make_shared<metrics::Accuracy>()};
  }();
  const Tensor right = labels_of({1});
  const auto step = [&] {
    strategy.run([&] {
      mean->update(Tensor::scalar(1.0f), Tensor::scalar(1.0f));
      accuracy->update(right, right);
    });
  };
  step();
  std::atomic<bool> done{false};
  int wrong = 0;
  std::thread monitor([&] {
    while (!done) wrong += value(*mean) != 1.0 || value(*accuracy) != 1.0;
  });
  for (int i = 0; i < kSteps; ++i) step();
  done = true;
  monitor.join();
  REQUIRE(wrong == 0);
  REQUIRE(value(*mean) == 1.0);
}

TEST_CASE("a reset beside runs of another thread forgets whole updates", "[metrics][threads]") {
  const int kRounds = kSlowBuild ? 20 : 500;
  Replicas strategy(2);
  const auto accuracy = [&] {
    const auto scope = strategy.scope();
    return std::make_shared<metrics::Accuracy>();
  }();
  const Tensor right = labels_of({1});
  const auto step = [&] { strategy.run([&] { accuracy->update(right, right); }); };
  int wrong = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<bool> go{true};
    std::thread stepper([&] {
      while (go) step();
    });
    accuracy->reset();
    go = false;
    stepper.join();
    step();
    wrong += value(*accuracy) != 1.0;
  }
  REQUIRE(wrong == 0);
}

TEMPLATE_LIST_TEST_CASE("in_top_k: fewer than k are greater", "[metrics][ops]", NumericTypes) {
  using T = TestType;
  const std::int64_t columns = GENERATE(1, 2, 31, 1025);
  const Device device = TestBackend::device();
  // Row r's logits are a rotation of 0, 1, 2, … by r, at most 7 different ones.
  constexpr std::int64_t kRows = 5;
  std::vector<T> logits;
  std::vector<std::int64_t> labels;
  const auto logit = [&](std::int64_t r, std::int64_t c) { return (c + r) % columns % 7; };
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c)
      logits.push_back(static_cast<T>(static_cast<float>(logit(r, c))));
    labels.push_back(r * 3 % columns);
  }
  const Tensor all = Tensor::from(logits, {kRows, columns}).to(device);
  for (const std::int64_t k : {1, 2, 5, 1000}) {
    const auto result = in_top_k(all, Tensor::from(labels, {kRows}).to(device), k).template to_vector<bool>();
    for (std::int64_t r = 0; r < kRows; ++r) {
      std::int64_t greater = 0;
      for (std::int64_t c = 0; c < columns; ++c)
        greater += logit(r, c) > logit(r, labels[static_cast<std::size_t>(r)]);
      REQUIRE(result[static_cast<std::size_t>(r)] == (greater < k));
    }
  }
}

TEST_CASE("in_top_k: NaN is greater than any number, and no label is", "[metrics][ops]") {
  const Device device = TestBackend::device();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor logits =
      Tensor::from<float>({nan, 2, 1, /**/ nan, 2, 1, /**/ 3, 2, 1, /**/ 3, 2, 1}, {4, 3}).to(device);
  const Tensor labels = labels_of({0, 1, -1, 3}).to(device);
  REQUIRE(in_top_k(logits, labels, 1).to_vector<bool>() == std::vector<bool>{false, false, false, false});
  REQUIRE(in_top_k(logits, labels, 2).to_vector<bool>() == std::vector<bool>{false, true, false, false});
  REQUIRE(in_top_k(Tensor::zeros({0, 3}), Tensor::zeros({0}, DType::i64), 1).size() == 0);
  REQUIRE(in_top_k(Tensor::zeros({2, 0}, DType::f32, device), labels_of({0, 1}).to(device), 1)
              .to_vector<bool>() == std::vector<bool>{false, false});
  REQUIRE_THROWS_MATCHES(in_top_k(logits, labels, 0), InvalidArgument, says("in_top_k", "at least 1"));
  REQUIRE_THROWS_MATCHES(in_top_k(logits, labels.cast(DType::i32), 1), InvalidArgument,
                         says("in_top_k", "int32"));
  REQUIRE_THROWS_MATCHES(in_top_k(logits, labels_of({1}).to(device), 1), InvalidArgument,
                         says("[1] int64", "[4, 3]"));
  REQUIRE_THROWS_AS(in_top_k(logits.cast(DType::boolean), labels, 1), InvalidArgument);
}

}  // namespace lockstep::test
