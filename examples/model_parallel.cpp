// Two replicas of a network, each on two devices: the first layer on one device, the second on the other.
#include <cmath>
#include <iostream>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

int main() {
  const ls::Topology line({4}, {{{0}, {1}, {2}, {3}}}, ls::DeviceKind::cpu);  // CPU:0 to CPU:3
  ls::MeshStrategy strategy(ls::DeviceAssignment::build(line, {.computation_shape = {2}, .num_replicas = 2}));

  const auto make_layer = [&](int logical_device, const ls::Shape& shape) {
    const auto here = strategy.extended().logical_device(logical_device);
    return strategy.make_variable(ls::Tensor::full(shape, 0.1f));
  };
  const ls::Variable first = make_layer(0, {4, 8});   // on CPU:0 and CPU:2
  const ls::Variable second = make_layer(1, {8, 1});  // on CPU:1 and CPU:3
  ls::optim::SGD optimizer({.learning_rate = 0.05f});

  const auto step = [&](ls::ReplicaContext& context, const ls::Tensor& x) {
    const ls::Tensor hidden = ls::matmul(x, first);  // on logical device 0, which receives the input
    const auto next = context.logical_device(1);
    const ls::Tensor hidden_here = strategy.assign_to_logical_device(hidden, 1);
    const ls::Tensor error = ls::matmul(hidden_here, second) - 1.0f;  // the target output is 1
    const ls::Tensor output_gradient = error * (2.0f / 8);  // for the mean square over the global batch

    const ls::Tensor second_gradient = ls::matmul(hidden_here, output_gradient, /*transpose_a=*/true);
    const ls::Tensor back = strategy.assign_to_logical_device(
        ls::matmul(output_gradient, second, /*transpose_a=*/false, /*transpose_b=*/true), 0);
    const ls::Tensor first_gradient = ls::matmul(x, back, /*transpose_a=*/true);
    optimizer.apply_gradients({{first_gradient, first}, {second_gradient, second}});
    return error * error;
  };

  const auto data = ls::Dataset::from_tensor_slices(ls::Tensor::ones({8, 4})).repeat(50).batch(8);
  float loss = 0;
  for (const auto& batch : strategy.distribute_dataset(data))
    loss = strategy.reduce(ls::ReduceOp::mean, strategy.run(step, batch), /*axis=*/0).item<float>();
  std::cout << strategy.num_replicas_in_sync() << " replicas on " << strategy.num_logical_devices()
            << " devices each: loss " << loss << '\n';
  return std::isfinite(loss) && loss < 1e-6f ? 0 : 1;
}
