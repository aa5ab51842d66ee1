// What averaging gradients adds to a training step of LibTorch, by lockstep's DistributedDataParallel on host
// replicas; pytorch_ddp.py is the same with PyTorch's: compare_libtorch_ddp --ranks N --rounds N --steps N
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <torch/nn.h>
#include <torch/optim/sgd.h>
#include <torch/version.h>

#include <lockstep/integrations/libtorch_ddp.hpp>
#include <lockstep/lockstep.hpp>

namespace {

namespace ls = lockstep;
using Times = std::vector<double>;  // of steps, µs

constexpr std::int64_t kRows = 64, kPixels = 784, kHidden = 256, kClasses = 10;

// A network with its optimizer and its data.
struct Training {
  Training()
      : net(torch::nn::Linear(kPixels, kHidden), torch::nn::ReLU(), torch::nn::Linear(kHidden, kHidden),
            torch::nn::ReLU(), torch::nn::Linear(kHidden, kClasses)),
        sgd(net->parameters(), 0.01),
        images(at::randn({kRows, kPixels})),
        labels(at::randint(kClasses, {kRows}, at::kLong)) {}

  void step() {
    net->zero_grad(/*set_to_none=*/true);
    torch::nn::functional::cross_entropy(net->forward(images), labels).backward();
    sgd.step();
  }
  void steps(int count, Times& times) {
    for (int i = 0; i < count; ++i) {
      const auto start = std::chrono::steady_clock::now();
      step();
      times.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
  }

  torch::nn::Sequential net;
  torch::optim::SGD sgd;
  at::Tensor images, labels;
};

// Of one replica: the same training twice.
struct Replica {
  Training alone, averaged;
  std::unique_ptr<ls::libtorch::DistributedDataParallel> ddp;
};

double quantile(Times times, double fraction) {
  const auto index = static_cast<std::size_t>(fraction * static_cast<double>(times.size()));
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(index));
  return times[index];
}

}  // namespace

int main(int argc, char** argv) {
  int ranks = 2, rounds = 20, steps = 50;
  CLI::App app("What averaging the gradients adds to a training step of LibTorch.");
  app.add_option("--ranks", ranks, "replicas [2]");
  app.add_option("--rounds", rounds, "of steps without and with averaging, in alternation [20]");
  app.add_option("--steps", steps, "of each kind in a round [50]");
  CLI11_PARSE(app, argc, argv);

  std::vector<ls::Device> devices;
  for (int k = 0; k < ranks; ++k) devices.emplace_back(ls::DeviceKind::cpu, k);
  ls::MirroredStrategy strategy(devices);
  std::vector<std::unique_ptr<Replica>> replicas;
  for (int k = 0; k < ranks; ++k) replicas.push_back(std::make_unique<Replica>());
  const auto run = [&](const auto& function) {
    strategy.run([&](ls::ReplicaContext& context) {
      function(*replicas[static_cast<std::size_t>(context.local_index())],
               context.replica_id_in_sync_group() == 0);
    });
  };

  Times alone, averaged;  // of replica 0
  run([&](Replica& replica, bool) {
    at::set_num_threads(1);
    replica.ddp = std::make_unique<ls::libtorch::DistributedDataParallel>(*replica.averaged.net);
    Times mine;
    replica.alone.steps(10, mine);
    replica.averaged.steps(10, mine);
  });
  for (int round = 0; round < rounds; ++round) {
    run([&](Replica& replica, bool is_first) {
      Times other;
      replica.alone.steps(steps, is_first ? alone : other);
    });
    run([&](Replica& replica, bool is_first) {
      Times other;
      replica.averaged.steps(steps, is_first ? averaged : other);
    });
  }

  std::int64_t wrong = 0;
  const auto expected = replicas[0]->averaged.net->parameters();
  for (const auto& replica : replicas) {
    const auto parameters = replica->averaged.net->parameters();
    for (std::size_t i = 0; i < expected.size(); ++i)
      wrong += at::ne(parameters[i], expected[i]).sum().item<std::int64_t>();
  }
  const auto added = [&](double fraction) {
    return quantile(averaged, fraction) - quantile(alone, fraction);
  };
  const nlohmann::ordered_json result = {{"operation", "data_parallel_step"},
                                         {"ranks", ranks},
                                         {"size", 0},
                                         {"in_place", false},
                                         {"time", added(0.5)},
                                         {"time_p10", added(0.1)},
                                         {"step", quantile(alone, 0.5)},
                                         {"wrong", wrong}};
  std::cout << nlohmann::ordered_json{{"peer", "LibTorch"}, {"version", TORCH_VERSION}, {"results", {result}}}
                   .dump(1)
            << std::endl;
}
