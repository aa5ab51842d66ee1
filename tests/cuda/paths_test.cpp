// What whole paths cost beside the single kernels: launches, calls and traffic, counted on virtual GPUs.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "count/counting.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {
namespace {

constexpr int kRanks = 4;

/// The most that a path may do in steady state, on all ranks together.
struct Limits {
  std::string_view path;
  double moved;  ///< Of memory, over the least; NCCL's and copies' share counts too.
  int launches;  ///< Of kernels, with one for each of NCCL's collectives on each rank.
  int calls;     ///< Of the runtime and NCCL.
};

/// Today's figures. A path that does better lowers them.
constexpr Limits kLimits[] = {
    {"add", 1, 1, 1},
    // One kernel, between events. Short memory is the streams' own, and no call.
    {"virtual: all_reduce(sum)", 1, 1, 11},
    {"virtual: all_reduce(mean)", 1, 1, 11},
    {"virtual: all_reduce(max)", 1, 1, 11},
    {"virtual: all_reduce(mean) of f16", 1, 1, 11},
    {"virtual: all_reduce(max) of bf16", 1, 1, 11},
    {"virtual: batch_reduce(sum)", 1.01, 2, 12},
    {"virtual: batch_reduce(mean)", 1.01, 2, 12},
    {"virtual: broadcast", 1, 1, 11},
    {"virtual: all_gather", 1, 1, 11},
    {"virtual: reduce_scatter", 1, 1, 11},
    {"virtual: all_to_all", 1, 1, 11},
    {"virtual: gather", 1, 1, 11},
    {"virtual: scatter", 1, 1, 11},
    {"virtual: bucket", 1, 1, 47},
    {"virtual: Momentum", 1.01, 14, 24},
    {"virtual: Adam", 1.01, 14, 24},
    {"virtual: SGD, clipped", 1.02, 34, 44},
    // NCCL's call and two more. What converts does so before and behind it; what is packed, too.
    {"GPUs: all_reduce(sum)", 1, 4, 12},
    {"GPUs: all_reduce(mean)", 2, 8, 16},
    {"GPUs: all_reduce(max)", 3, 12, 20},
    {"GPUs: all_reduce(mean) of f16", 5, 12, 20},
    {"GPUs: all_reduce(max) of bf16", 5, 12, 20},
    {"GPUs: batch_reduce(sum)", 3.02, 20, 36},
    {"GPUs: batch_reduce(mean)", 3.02, 20, 36},
    {"GPUs: broadcast", 1, 4, 11},
    {"GPUs: all_gather", 1, 4, 11},
    {"GPUs: reduce_scatter", 1, 4, 11},
    {"GPUs: all_to_all", 1, 4, 39},
    {"GPUs: gather", 1, 4, 15},
    {"GPUs: scatter", 1, 4, 15},
    {"GPUs: bucket", 1, 4, 48},
    {"GPUs: Momentum", 1.58, 32, 48},
    {"GPUs: Adam", 1.46, 32, 48},
    {"GPUs: SGD, clipped", 1.52, 52, 68},
};

/// Whether the ranks are virtual devices of one GPU.
bool are_virtual() { return TestBackend::open(0).ordinal() == TestBackend::open(1).ordinal(); }

void synchronize_all() {
  for (const Device& device : TestBackend::devices(kRanks)) current_stream(device).synchronize();
}

/// Runs a path until it is in steady state, counts it, and holds it to its limits.
void check_path(std::string path, std::int64_t least_bytes, const std::function<void()>& run) {
  if (path != "add") path = (are_virtual() ? "virtual: " : "GPUs: ") + path;
  for (int i = 0; i < 3; ++i) run();
  synchronize_all();
  const bench::Counting counting;
  counting.begin();
  run();
  counting.end();
  synchronize_all();
  const bench::Work work = counting.work();
  const double moved = 32 * static_cast<double>(work.sectors) / static_cast<double>(least_bytes);
  INFO("path: " << path);
  INFO("cost: " << moved << ", " << work.launches << ", " << work.calls);
  const auto* const limits = std::ranges::find(kLimits, path, &Limits::path);
  if (limits == std::end(kLimits)) {
    FAIL_CHECK("it has no limits");
    return;
  }
  CHECK(moved <= limits->moved);
  CHECK(work.launches <= limits->launches);
  CHECK(work.calls <= limits->calls);
  CHECK(work.waits == 0);
}

/// Sizes like those of a network's variables: many small ones, and some that hold most elements.
std::vector<std::int64_t> sizes_of_variables() {
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 161; ++i) sizes.push_back(i % 3 == 0 ? 1 + 512 * (i % 23) : 64 + 8 * (i % 7));
  return sizes;
}

std::int64_t sum_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) sum += size;
  return sum;
}

constexpr std::int64_t kFloat = sizeof(float);

std::vector<TensorView> views_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorView> views;
  for (const Tensor& tensor : tensors) views.push_back(tensor.view());
  return views;
}

/// One tensor on each rank.
std::vector<Tensor> on_ranks(const Shape& shape, DType dtype = DType::f32) {
  std::vector<Tensor> tensors;
  for (const Device& device : TestBackend::devices(kRanks))
    tensors.push_back(Tensor::ones(shape, dtype, device));
  return tensors;
}

}  // namespace

TEST_CASE("a tensor operation is a launch", "[paths]") {
  const Tensor a = Tensor::ones(Shape(4096), DType::f32, TestBackend::device(0)), b = a.clone();
  check_path("add", 3 * 4096 * kFloat, [&] { static_cast<void>(a + b); });
}

TEST_CASE("replicas reduce with few calls", "[paths]") {
  constexpr std::int64_t kCount = 65536;
  MirroredStrategy strategy(TestBackend::devices(kRanks));
  for (const auto& [name, op, dtype] : std::vector<std::tuple<std::string, ReduceOp, DType>>{
           {"all_reduce(sum)", ReduceOp::sum, DType::f32},
           {"all_reduce(mean)", ReduceOp::mean, DType::f32},
           {"all_reduce(max)", ReduceOp::max, DType::f32},
           {"all_reduce(mean) of f16", ReduceOp::mean, DType::f16},
           {"all_reduce(max) of bf16", ReduceOp::max, DType::bf16},
       }) {
    const std::vector<Tensor> values = on_ranks(Shape(kCount), dtype);
    check_path(name, 2 * kRanks * values[0].nbytes(), [&, op = op] {
      strategy.run([&](ReplicaContext& context) {
        static_cast<void>(
            context.all_reduce(op, values[static_cast<std::size_t>(context.replica_id_in_sync_group())]));
      });
    });
  }
}

TEST_CASE("a batch is reduced without a copy for each tensor", "[paths]") {
  MirroredStrategy strategy(TestBackend::devices(kRanks));
  const std::vector<std::int64_t> sizes = sizes_of_variables();
  std::vector<std::pair<ReduceValue, Destination>> pairs;
  for (const std::int64_t size : sizes) {
    const PerReplica<Tensor> value(on_ranks(Shape(size)));
    pairs.emplace_back(value, value);
  }
  const std::int64_t least_bytes = 2 * kRanks * sum_of(sizes) * kFloat;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean})
    check_path(op == ReduceOp::sum ? "batch_reduce(sum)" : "batch_reduce(mean)", least_bytes,
               [&] { static_cast<void>(strategy.extended().batch_reduce_to(op, pairs)); });
}

TEST_CASE("gradients that are views of a bucket are reduced without a copy", "[paths]") {
  constexpr std::int64_t kCount = 1000;
  constexpr int kViews = 20;
  MirroredStrategy strategy(TestBackend::devices(kRanks));
  const std::vector<Tensor> buckets = on_ranks(Shape(kViews * kCount));
  check_path("bucket", 2 * kRanks * buckets[0].nbytes(), [&] {
    strategy.run([&](ReplicaContext& context) {
      const Tensor& bucket = buckets[static_cast<std::size_t>(context.replica_id_in_sync_group())];
      PackedReduction reduction(context, ReduceOp::sum);
      for (int k = 0; k < kViews; ++k) reduction.add(bucket.slice(k * kCount, (k + 1) * kCount));
      static_cast<void>(reduction.wait());
    });
  });
}

TEST_CASE("ranks exchange data with few launches", "[paths]") {
  constexpr std::int64_t kCount = 4096;
  Communicator communicator = Communicator::create(TestBackend::devices(kRanks));
  const std::vector<Tensor> parts = on_ranks(Shape(kCount)), wholes = on_ranks(Shape(kRanks * kCount)),
                            others = on_ranks(Shape(kRanks * kCount));
  std::vector<StreamRef> streams;
  for (const Device& device : TestBackend::devices(kRanks)) streams.push_back(current_stream(device));
  const std::int64_t part = kCount * kFloat;
  check_path("broadcast", (1 + kRanks) * part,
             [&] { communicator.broadcast(others[0].slice(0, kCount).view(), views_of(parts), 0, streams); });
  check_path("all_gather", kRanks * (1 + kRanks) * part,
             [&] { communicator.all_gather(views_of(parts), views_of(wholes), streams); });
  check_path("reduce_scatter", kRanks * (1 + kRanks) * part,
             [&] { communicator.reduce_scatter(ReduceOp::sum, views_of(wholes), views_of(parts), streams); });
  check_path("all_to_all", 2 * kRanks * kRanks * part,
             [&] { communicator.all_to_all(views_of(wholes), views_of(others), streams); });
  check_path("gather", 2 * kRanks * part,
             [&] { communicator.gather(views_of(parts), wholes[0].view(), 0, streams); });
  check_path("scatter", 2 * kRanks * part,
             [&] { communicator.scatter(wholes[0].view(), views_of(parts), 0, streams); });
}

TEST_CASE("one launch updates many variables", "[paths]") {
  MirroredStrategy strategy(TestBackend::devices(kRanks));
  const std::vector<std::int64_t> sizes = sizes_of_variables();
  std::vector<Variable> variables;
  std::vector<std::vector<Tensor>> gradients;  // [variable][replica]
  for (const std::int64_t size : sizes) {
    variables.push_back(strategy.make_variable(Tensor::ones(Shape(size), DType::f32, Device())));
    gradients.push_back(on_ranks(Shape(size)));
  }
  optim::Momentum momentum({.learning_rate = 0.5, .momentum = 0.5});
  optim::Adam adam({.learning_rate = 0.5});
  optim::SGD clipped({.learning_rate = 0.5, .global_clip_norm = 1});
  const auto step = [&](optim::Optimizer& optimizer) {
    strategy.run([&](ReplicaContext& context) {
      const auto replica = static_cast<std::size_t>(context.replica_id_in_sync_group());
      std::vector<optim::GradientAndVariable> list;
      for (std::size_t k = 0; k < sizes.size(); ++k) list.push_back({gradients[k][replica], variables[k]});
      optimizer.apply_gradients(list);
    });
  };
  // A sum is two accesses to it, beside a gradient's one and those to a variable and its slots, two to each.
  const std::int64_t all = kRanks * sum_of(sizes) * kFloat;
  check_path("Momentum", 7 * all, [&] { step(momentum); });
  check_path("Adam", 9 * all, [&] { step(adam); });
  check_path("SGD, clipped", 8 * all, [&] { step(clipped); });
}

}  // namespace lockstep::test
