#include "trainer.hpp"

#include <algorithm>
#include <memory>

#include <ATen/Parallel.h>
#include <torch/nn.h>
#include <torch/optim/sgd.h>

#include <lockstep/integrations/libtorch_ddp.hpp>
#include <lockstep/lockstep.hpp>

#include "digits/digits_data.hpp"

namespace libtorch_ddp {
namespace {

namespace ls = lockstep;

constexpr int kNumHidden = 128;
constexpr std::uint64_t kSeed = 1438;

struct Net : torch::nn::Module {
  Net() {
    hidden = register_module("hidden", torch::nn::Linear(digits::kNumPixels, kNumHidden));
    classes = register_module("classes", torch::nn::Linear(kNumHidden, digits::kNumClasses));
  }
  at::Tensor forward(const at::Tensor& images) { return classes(torch::relu(hidden(images))); }

  torch::nn::Linear hidden = nullptr, classes = nullptr;
};

/// One replica's module and optimizer.
class Replica {
 public:
  explicit Replica(at::ScalarType dtype)
      : dtype_(dtype),
        sgd_((net_.to(dtype), net_.parameters()), torch::optim::SGDOptions(0.1).momentum(0.9)) {}

  /// In the replica's function, before the first step: replica 0's parameters are everyone's.
  void start(const ls::CommunicationOptions& options) {
    at::set_num_threads(1);  // of this thread: the replicas share the cores
    ddp_ = std::make_unique<ls::libtorch::DistributedDataParallel>(net_, options);
  }

  /// @return the mean loss of the replica's rows.
  ls::Tensor step(const ls::Tensor& images, const ls::Tensor& labels) {
    net_.zero_grad(/*set_to_none=*/true);
    const at::Tensor loss =
        torch::nn::functional::cross_entropy(net_.forward(input(images)), ls::libtorch::to(labels));
    loss.backward();  // gradients are the mean over the replicas after it
    sgd_.step();
    return ls::libtorch::from(loss.detach());
  }

  double accuracy(const digits::Examples& examples) {
    const at::NoGradGuard no_grad;
    const at::Tensor read = net_.forward(input(examples.images)).argmax(1);
    return (read == ls::libtorch::to(examples.labels)).to(at::kDouble).mean().item<double>();
  }

  std::vector<at::Tensor> parameters() const { return net_.parameters(); }

 private:
  at::Tensor input(const ls::Tensor& images) const { return ls::libtorch::to(images).to(dtype_); }

  at::ScalarType dtype_;
  Net net_;
  torch::optim::SGD sgd_;
  std::unique_ptr<ls::libtorch::DistributedDataParallel> ddp_;
};

std::vector<ls::Device> host_devices(int count) {
  std::vector<ls::Device> devices;
  for (int k = 0; k < count; ++k) devices.emplace_back(ls::DeviceKind::cpu, k);
  return devices;
}

}  // namespace

Trained train(const TrainerOptions& options, const std::filesystem::path& data) {
  const digits::DigitsData digits = digits::load_digits(data);
  ls::MirroredStrategy strategy(host_devices(options.num_replicas));

  // Each replica's random parameters are others; start() makes them equal.
  at::manual_seed(kSeed);
  std::vector<std::unique_ptr<Replica>> replicas;
  for (int k = 0; k < options.num_replicas; ++k)
    replicas.push_back(std::make_unique<Replica>(options.double_precision ? at::kDouble : at::kFloat));
  const auto mine = [&](ls::ReplicaContext& context) -> Replica& {
    return *replicas[static_cast<std::size_t>(context.local_index())];
  };
  strategy.run(
      [&](ls::ReplicaContext& context) { mine(context).start({.bytes_per_pack = options.bytes_per_pack}); });

  Trained trained;
  const auto batches = strategy.distribute_dataset(
      ls::Dataset::from_tensor_slices(digits.training.images, digits.training.labels)
          .shuffle(digits.training.num_rows(), kSeed)
          .repeat()
          .batch(options.batch_size));
  for (const auto& [images, labels] : batches) {
    if (static_cast<int>(trained.losses.size()) == options.num_steps) break;
    const auto losses =
        strategy.run([&](ls::ReplicaContext& context, const ls::Tensor& rows,
                         const ls::Tensor& digits_shown) { return mine(context).step(rows, digits_shown); },
                     images, labels);
    const ls::Tensor loss = strategy.reduce(ls::ReduceOp::mean, losses);
    trained.losses.push_back(loss.cast(ls::DType::f64).item<double>());
  }

  trained.accuracy = replicas[0]->accuracy(digits.test);
  for (const auto& replica : replicas)
    trained.replicas_agree =
        trained.replicas_agree && std::ranges::equal(replica->parameters(), replicas[0]->parameters(),
                                                     [](const auto& a, const auto& b) { return a.equal(b); });
  return trained;
}

}  // namespace libtorch_ddp
