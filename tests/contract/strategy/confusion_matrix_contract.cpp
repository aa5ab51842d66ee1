#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"
#include "support/temporary_directory.hpp"

/// The confusion matrix among the metrics.
namespace lockstep::test {

namespace {

using Values = std::vector<double>;

Tensor classes(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, Shape(static_cast<std::int64_t>(values.size()))).to(current_device());
}

Values value(const metrics::Metric& metric) { return metric.result().to_vector<double>(); }

}  // namespace

TEST_CASE("confusion-matrix: rows are labels, columns predictions", "[metrics]") {
  Replicas strategy(1);
  const auto scope = strategy.scope();
  metrics::ConfusionMatrix matrix(5);
  REQUIRE(matrix.name() == "confusion_matrix");
  REQUIRE(matrix.num_classes() == 5);
  REQUIRE(value(matrix) == Values(25, 0.0));
  strategy.run([&] { matrix.update(classes({1, 2, 4}), classes({2, 2, 4})); });  // as tf.math's page has it
  const Tensor result = matrix.result();
  REQUIRE(result.shape() == Shape{5, 5});
  REQUIRE(result.dtype() == DType::f64);
  REQUIRE(result.to_vector<double>() == Values{0, 0, 0, 0, 0,  //
                                               0, 0, 1, 0, 0,  //
                                               0, 0, 1, 0, 0,  //
                                               0, 0, 0, 0, 0,  //
                                               0, 0, 0, 0, 1});
}

TEST_CASE("a confusion matrix counts every row of every replica once", "[metrics]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  constexpr std::int64_t kClasses = 7;
  Replicas strategy(n);
  const auto scope = strategy.scope();
  metrics::ConfusionMatrix matrix(kClasses), weighted(kClasses, "weighted");
  Values counts(kClasses * kClasses, 0.0), sums = counts;
  for (int step = 0; step < 3; ++step) {
    // Replica i has 5 i + step rows, also none; rows of one element occur several times.
    const auto label = [&](int replica, std::int64_t row) { return (3 * row + replica) % kClasses; };
    const auto prediction = [&](std::int64_t row) { return row * row % 3; };
    const auto weight = [](std::int64_t row) { return 0.5f * static_cast<float>(row); };
    strategy.run([&](ReplicaContext& ctx) {
      const int replica = ctx.replica_id_in_sync_group();
      std::vector<std::int64_t> labels, predictions;
      std::vector<float> weights;
      for (std::int64_t row = 0; row < 5 * replica + step; ++row) {
        labels.push_back(label(replica, row));
        predictions.push_back(prediction(row));
        weights.push_back(weight(row));
      }
      const Shape rows(static_cast<std::int64_t>(labels.size()));
      matrix.update(classes(labels), classes(predictions));
      weighted.update(classes(labels).cast(DType::i32), classes(predictions).cast(DType::u8),
                      Tensor::from(weights, rows).to(current_device()));
    });
    for (int i = 0; i < n; ++i)
      for (std::int64_t row = 0; row < 5 * i + step; ++row) {
        const auto element = static_cast<std::size_t>(label(i, row) * kClasses + prediction(row));
        counts[element] += 1;
        sums[element] += weight(row);
      }
    REQUIRE(value(matrix) == counts);
    REQUIRE(value(weighted) == sums);
  }
  matrix.reset();
  REQUIRE(value(matrix) == Values(kClasses * kClasses, 0.0));
  REQUIRE(value(weighted) == sums);
}

TEST_CASE("a confusion matrix in cross-replica context, outside every scope and on central storage",
          "[metrics]") {
  const Values expected{1, 2, 0, 1};
  metrics::ConfusionMatrix outside(2);
  outside.update(classes({0, 0, 0, 1}), classes({0, 1, 1, 1}));
  REQUIRE(value(outside) == expected);
  Replicas replicas(2);
  CentralStorageStrategy central(TestBackend::devices(2), "CPU:0");
  for (Strategy* const strategy : {static_cast<Strategy*>(&replicas), static_cast<Strategy*>(&central)}) {
    const auto scope = strategy->scope();
    metrics::ConfusionMatrix matrix(2);
    matrix.update(classes({0, 0, 0, 1}), classes({0, 1, 1, 1}));  // once, whatever the number of replicas
    REQUIRE(value(matrix) == expected);
    strategy->run([&](ReplicaContext& ctx) {
      if (ctx.replica_id_in_sync_group() == 0)
        matrix.update(classes({1, 1}), classes({0, 0}), Tensor::scalar(2.0f));
      else
        matrix.update(classes({}), classes({}));
    });
    REQUIRE(value(matrix) == Values{1, 2, 4, 1});
  }
}

TEST_CASE("a replica's own confusion matrix, and everybody's under sync_on_read", "[metrics]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  metrics::ConfusionMatrix matrix(2);
  const auto [own, all] = strategy.run([&](ReplicaContext& ctx) {
    matrix.update(classes({0}), classes({ctx.replica_id_in_sync_group()}));
    const Tensor mine = matrix.result();
    const sync_on_read guard;
    return std::tuple{mine, matrix.result()};
  });
  REQUIRE(own[1].to_vector<double>() == Values{0, 1, 0, 0});
  for (const Tensor& one : all) REQUIRE(one.to_vector<double>() == Values{1, 1, 0, 0});
}

TEST_CASE("a confusion matrix refuses what does not fit and counts nothing", "[metrics]") {
  Replicas strategy(1);
  const auto scope = strategy.scope();
  metrics::ConfusionMatrix matrix(3, "confusion");
  matrix.update(classes({0}), classes({1}));
  const auto refused = [&](const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                           const auto& message) {
    REQUIRE_THROWS_MATCHES(strategy.run([&] { matrix.update(labels, predictions, weights); }),
                           InvalidArgument, message);
    REQUIRE(value(matrix) == Values{0, 1, 0, 0, 0, 0, 0, 0, 0});
  };
  const Tensor one = Tensor::scalar(1.0), two = classes({0, 1});
  refused(classes({0, 3}), two, one,
          says("update of the metric 'confusion'", "label 3 of row 1", "the 3 classes", "[0, 3)"));
  refused(classes({0, -1}), two, one, says("label -1 of row 1"));
  refused(two, classes({2, 3}), one, says("prediction 3 of row 1", "the 3 classes"));
  refused(two, classes({std::numeric_limits<std::int64_t>::min(), 0}), one, says("prediction -9223"));
  refused(two, classes({0}), one, says("'confusion'", "predictions [1] int64", "labels [2] int64"));
  refused(two, Tensor::zeros({2, 3}), one, says("predictions [2, 3] float32", "argmax"));
  refused(Tensor::zeros({2}), two, one, says("labels [2] float32", "not classes"));
  refused(two, two, classes({1, 1, 1}), says("weights [3] int64", "labels [2] int64"));
  refused(two, two, Tensor::full({2}, true), says("weights [2] bool", "not numbers"));
  REQUIRE_THROWS_MATCHES(metrics::ConfusionMatrix(0), InvalidArgument,
                         says("ConfusionMatrix 'confusion_matrix'", "at least 1"));
  REQUIRE_THROWS_AS(metrics::ConfusionMatrix(std::int64_t{1} << 40), InvalidArgument);
}

TEST_CASE("a confusion matrix is saved, and restored onto other replicas", "[metrics]") {
  const TemporaryDirectory directory;
  const auto path = directory / "matrix.safetensors";
  {
    Replicas strategy(2);
    const auto scope = strategy.scope();
    metrics::ConfusionMatrix matrix(2);
    strategy.run([&] { matrix.update(classes({0, 1, 1}), classes({0, 0, 1})); });
    Checkpoint checkpoint;
    checkpoint.add("matrix", matrix);
    checkpoint.save(path);
  }
  Replicas strategy(1);
  const auto scope = strategy.scope();
  metrics::ConfusionMatrix matrix(2);
  Checkpoint checkpoint;
  checkpoint.add("matrix", matrix);
  checkpoint.restore(path);
  REQUIRE(value(matrix) == Values{2, 0, 2, 2});
}

}  // namespace lockstep::test
