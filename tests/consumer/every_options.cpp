// Compiled as users with many warnings compile it: what they write from README and headers gives none.
#include <array>
#include <string>
#include <vector>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

void options_with_one_field_each();
void options_with_one_field_each() {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  const ls::Variable named(ls::Tensor::zeros({1, 2}), {.name = "w"});
  const ls::Variable frozen(ls::Tensor::zeros({1, 2}), {.trainable = false});
  const ls::Variable total(ls::Tensor::zeros({2}), {.aggregation = ls::VariableAggregation::sum});

  ls::optim::SGD sgd({.learning_rate = 0.1});
  ls::optim::Momentum momentum({.nesterov = true});
  ls::optim::Adam adam({.epsilon = 1e-7});
  ls::optim::AdamW adamw({.weight_decay = 0.1});
  const auto steps = ls::optim::LearningRate::step_decay({.every = 10});
  const auto cosine = ls::optim::LearningRate::cosine_decay({.num_steps = 100});

  const auto data =
      ls::Dataset::range(8).map([](const ls::Tensor& x) { return x; }, {.num_parallel_calls = 2});
  const auto distributed = strategy.distribute_dataset(data.batch(4), {.per_replica_buffer_size = 2});
  const auto csv = ls::readers::csv({.columns = {ls::readers::CsvColumn(ls::DType::f32)}});
  const auto lines = ls::readers::csv({.header = true});
  const auto records = ls::readers::records({.record_bytes = 4});

  auto communicator = ls::Communicator::create({"CPU:0", "CPU:1"});
  const std::array<float, 2> in{};
  std::array<float, 2> out{};
  const ls::TensorView input(in.data(), {2}, ls::DType::f32), output(out.data(), {2}, ls::DType::f32);
  const ls::Stream stream(ls::Device("CPU:0"));
  communicator.all_reduce(ls::ReduceOp::sum, 0, input, output, stream, {.deterministic = true});
  const ls::RankBatch batch{.rank = 0, .stream = stream, .inputs = {&input, 1}};
  communicator.all_reduce(ls::ReduceOp::sum, {&batch, 1}, {.bytes_per_pack = 1024});
}
