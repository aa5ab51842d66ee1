#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include <lockstep/input/dataset.hpp>
#include <lockstep/strategy/input.hpp>

#include "operations/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {
namespace {

constexpr std::int64_t kBatchRows = 256, kRowCount = 784;  // elements of a row: an image of 28 x 28
constexpr std::int64_t kTableBatches = 240, kTableRows = kTableBatches * kBatchRows;
constexpr std::size_t kRowBytes = kRowCount * sizeof(float);

// An element's value names its row: whole numbers below 2^24.
constexpr std::int64_t kColumnPeriod = 256;
static_assert(kTableRows * kColumnPeriod <= 1 << 24);
float element(std::uint64_t seed, std::int64_t row, std::int64_t column) {
  const std::int64_t low = (column + static_cast<std::int64_t>(seed)) % kColumnPeriod;
  return static_cast<float>(row * kColumnPeriod + low);
}
std::int64_t row_of(float element) { return static_cast<std::int64_t>(element) / kColumnPeriod; }

// Deals batches of a table's rows, in random order, to the replicas, pass after pass.
class Input : public StrategyOperation {
 public:
  explicit Input(Strategy& strategy)
      : table_(Tensor::empty(Shape(kTableRows, kRowCount), DType::f32, Device())),
        batches_(strategy.distribute_dataset(
            Dataset::from_tensor_slices(table_).shuffle(kTableRows, /*seed=*/1).batch(kBatchRows))),
        pass_(batches_.iterator()),
        floor_order_(static_cast<std::size_t>(kTableRows)) {
    fill(0);
    std::iota(floor_order_.begin(), floor_order_.end(), std::int64_t{0});
    const int num_replicas = strategy.num_replicas_in_sync();
    for (int replica = 0; replica < num_replicas; ++replica) {
      const auto rows = kBatchRows * (replica + 1) / num_replicas - kBatchRows * replica / num_replicas;
      floor_batch_.push_back(Tensor::zeros(Shape(rows, kRowCount), DType::f32, Device()));
    }
  }

  std::int64_t size_bytes() const override { return count() * static_cast<std::int64_t>(sizeof(float)); }
  std::int64_t count() const override { return kBatchRows * kRowCount; }
  std::int64_t least_bytes() const override { return size_bytes(); }  // a batch is written once

  void prepare(std::optional<std::uint64_t> seed) override {
    pass_ = batches_.iterator();  // ends the thread of the pass before, which reads the table
    if (seed) fill(*seed + 1);
  }

  void run(int times) override {
    for (int i = 0; i < times; ++i) {
      auto batch = pass_.next_optional();
      if (!batch) {
        pass_ = batches_.iterator();
        batch = pass_.next();
      }
      batch_.assign(batch->begin(), batch->end());
    }
  }

  // Runs on the calling thread, as the pass above does.
  void run_floor(int times) override {
    for (int i = 0; i < times; ++i) {
      if (floor_at_ == floor_order_.size()) floor_at_ = 0;
      if (floor_at_ == 0) std::shuffle(floor_order_.begin(), floor_order_.end(), random_);
      const auto* const from = static_cast<const std::byte*>(std::as_const(table_).view().data);
      for (Tensor& part : floor_batch_) {
        auto* to = static_cast<std::byte*>(part.data());
        for (std::int64_t row = 0; row < part.shape()[0]; ++row, to += kRowBytes)
          std::memcpy(to, from + static_cast<std::size_t>(floor_order_[floor_at_++]) * kRowBytes, kRowBytes);
      }
    }
  }

  std::vector<Tensor> results() const override { return batch_; }

  // Every row is a row of the table, and none comes twice.
  std::int64_t count_wrong(std::uint64_t seed, std::span<const Tensor> results) const override {
    std::int64_t wrong = 0;
    std::vector<bool> seen(static_cast<std::size_t>(kTableRows));
    std::int64_t num_rows = 0;
    for (const Tensor& part : results) {
      const std::vector<float> values = part.to_vector<float>();
      for (auto row = values.begin(); row != values.end(); row += kRowCount) {
        const std::int64_t number = row_of(row[1]);
        if (number < 0 || number >= kTableRows || seen[static_cast<std::size_t>(number)]) continue;
        seen[static_cast<std::size_t>(number)] = true;
        ++num_rows;
        for (std::int64_t column = 0; column < kRowCount; ++column)
          wrong += row[column] == element(seed + 1, number, column) ? 0 : 1;
      }
    }
    return wrong + (kBatchRows - num_rows) * kRowCount;
  }

 private:
  void fill(std::uint64_t seed) {
    auto* at = static_cast<float*>(table_.data());
    for (std::int64_t row = 0; row < kTableRows; ++row)
      for (std::int64_t column = 0; column < kRowCount; ++column) *at++ = element(seed, row, column);
  }

  Tensor table_;
  DistributedDataset<PerReplica<Tensor>> batches_;
  DistributedIterator<PerReplica<Tensor>> pass_;
  std::vector<Tensor> batch_;
  std::mt19937_64 random_;
  std::vector<std::int64_t> floor_order_;
  std::size_t floor_at_ = 0;
  std::vector<Tensor> floor_batch_;
};

}  // namespace

const OperationEntry kInput{
    .traits = {.name = "input",
               .is_strategy = true,
               .has_size = false,
               .floor = "copies of as many rows, in random order, from the table to the same buffers",
               .alone = "its check needs all rows of a batch in one process"},
    .bus_formula = "1",
    .bus_factor = rooted_bus_factor,
    .make = [](Strategy& strategy, const Options&, const DataCase&, std::int64_t)
        -> std::unique_ptr<StrategyOperation> { return std::make_unique<Input>(strategy); },
};

}  // namespace lockstep::bench
