// Trains a LibTorch module on real handwritten digits with four replicas, each a thread with a copy of the
// module. Gradients are averaged in buckets during the backward pass, and nothing is copied between torch and
// lockstep.
#include <exception>
#include <iostream>

#include "trainer.hpp"

int main() try {
  const libtorch_ddp::TrainerOptions options{.num_steps = 300};
  const libtorch_ddp::Trained trained = libtorch_ddp::train(options, LOCKSTEP_DIGITS_DATA);
  for (std::size_t step = 0; step < trained.losses.size(); step += 50)
    std::cout << "step " << step << ": loss " << trained.losses[step] << '\n';
  std::cout << options.num_replicas << " replicas, " << 100 * trained.accuracy
            << "% of the test images read\n";
  return trained.replicas_agree && trained.accuracy > 0.9 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "libtorch_ddp: " << error.what() << '\n';
  return 1;
}
