#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/nn.h>
#include <torch/optim/sgd.h>

#include <lockstep/integrations/libtorch_ddp.hpp>
#include <lockstep/lockstep.hpp>

#undef CHECK  // torch's logging has one, too

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include "support/matchers.hpp"
#include "support/num_copies.hpp"
#include "support/replica_values.hpp"

namespace lockstep::test {

namespace {

using libtorch::DistributedDataParallel;

/// Two layers, [4] to [3] to [2], and parameters and buffers of many kinds.
struct Net : torch::nn::Module {
  explicit Net(int seed) {
    const auto value = static_cast<double>(seed);
    first = register_parameter("first", at::full({3, 4}, value).set_requires_grad(true));
    second = register_parameter("second", at::full({2, 3}, -value).set_requires_grad(true));
    frozen = register_parameter("frozen", at::full({2}, value), /*requires_grad=*/false);
    columns = register_buffer("columns", at::full({2, 3}, value).t());
    flag = register_buffer("flag", at::full({1}, seed == 0, at::kBool));
    steps = register_buffer("steps", at::full({}, seed, at::kLong));
    minus_zero = register_buffer("minus_zero", at::full({1}, seed == 0 ? -0.0 : 1.0, at::kDouble));
  }
  at::Tensor forward(const at::Tensor& x) { return at::linear(at::linear(x, first), second); }

  at::Tensor first, second, frozen, columns, flag, steps, minus_zero;
};

/// A net for each replica, made before the run.
std::vector<std::unique_ptr<Net>> nets(int n) {
  std::vector<std::unique_ptr<Net>> result;
  for (int k = 0; k < n; ++k) result.push_back(std::make_unique<Net>(k));
  return result;
}

/// The gradient of second for x = scale * ones: that of the sum of outputs.
void backward(Net& net, double scale) { net.forward(at::full({1, 4}, scale)).sum().backward(); }

/// How many copy_ torch's dispatcher has called, on all threads, while this object is there.
class TorchCopies {
 public:
  TorchCopies()
      : handle_(
            at::addGlobalCallback(at::RecordFunctionCallback(&seen).scopes({at::RecordScope::FUNCTION}))) {
    count = 0;
  }
  ~TorchCopies() { at::removeCallback(handle_); }

  static inline std::atomic<std::int64_t> count{0};

 private:
  static std::unique_ptr<at::ObserverContext> seen(const at::RecordFunction& function) {
    if (std::string(function.name()) == "aten::copy_") ++count;
    return nullptr;
  }
  at::CallbackHandle handle_;
};

}  // namespace

TEST_CASE("DistributedDataParallel: all replicas begin with replica 0's parameters and buffers",
          "[integrations][host]") {
  const int n = GENERATE(1, 2, 3);
  Replicas strategy(n);
  const auto all = nets(n);
  strategy.run([&](ReplicaContext& context) {
    Net& net = *all[static_cast<std::size_t>(context.local_index())];
    DistributedDataParallel ddp(net);
    net.steps.add_(context.replica_id_in_sync_group() + 5);
    ddp.broadcast_buffers();
  });
  for (const auto& net : all) {
    REQUIRE(net->first.equal(at::zeros({3, 4})));
    REQUIRE(net->second.equal(at::zeros({2, 3})));
    REQUIRE(net->frozen.equal(at::zeros({2})));
    REQUIRE(net->columns.equal(at::zeros({3, 2})));
    REQUIRE(net->columns.stride(0) == 1);
    REQUIRE(net->flag.item<bool>());
    REQUIRE(net->steps.item<int>() == 5);
    REQUIRE(std::signbit(net->minus_zero.item<double>()));
  }
}

TEST_CASE("DistributedDataParallel: gradients are means after backward", "[integrations][host]") {
  const int n = GENERATE(1, 2, 3);
  const std::int64_t bytes_per_pack = GENERATE(0, 1);
  Replicas strategy(n);
  const auto all = nets(n);
  const auto are_in_place = strategy.run([&](ReplicaContext& context) {
    const int id = context.replica_id_in_sync_group();
    Net& net = *all[static_cast<std::size_t>(context.local_index())];
    DistributedDataParallel ddp(net, {.bytes_per_pack = bytes_per_pack});
    at::NoGradGuard no_grad;
    net.first.fill_(1);
    net.second.fill_(2);
    const at::AutoGradMode grad(true);
    backward(net, id);  // gradients add up, as torch's do: the mean's, and this replica's of the next pass
    const void* const place = net.first.grad().data_ptr();
    backward(net, id);
    ddp.set_require_backward_grad_sync(false);
    return net.first.grad().data_ptr() == place;
  });
  for (const bool is_in_place : are_in_place) REQUIRE(is_in_place);
  const double mean = (n - 1) / 2.0;
  for (const auto& net : all) {
    REQUIRE(net->first.grad().allclose(at::full({3, 4}, 2 * 4 * mean)));
    REQUIRE(net->second.grad().allclose(at::full({2, 3}, 2 * 4 * mean)));
    REQUIRE_FALSE(net->frozen.grad().defined());
    REQUIRE(net->first.grad().equal(all[0]->first.grad()));
  }
}

TEST_CASE("DistributedDataParallel: passes without reduction add up", "[integrations][host]") {
  Replicas strategy(2);
  const auto all = nets(2);
  const auto local = strategy.run([&](ReplicaContext& context) {
    const int id = context.replica_id_in_sync_group();
    Net& net = *all[static_cast<std::size_t>(id)];
    DistributedDataParallel ddp(net);
    {
      const at::NoGradGuard no_grad;
      net.first.fill_(1);
    }
    ddp.set_require_backward_grad_sync(false);
    backward(net, id);
    const auto before = net.second.grad()[0][0].item<float>();
    ddp.set_require_backward_grad_sync(true);
    backward(net, id);
    return before;
  });
  REQUIRE((local[0] == 0 && local[1] == 4));
  for (const auto& net : all)
    REQUIRE(net->second.grad().equal(at::full({2, 3}, 4.0)));  // mean of 0 and 4 + 4
}

TEST_CASE("DistributedDataParallel: its hooks end with it", "[integrations][host]") {
  Replicas strategy(2);
  const auto all = nets(2);
  strategy.run([&](ReplicaContext& context) {
    DistributedDataParallel ddp(*all[static_cast<std::size_t>(context.local_index())]);
  });
  backward(*all[1], 1);  // outside of the replica
  REQUIRE(all[1]->second.grad().defined());
}

TEST_CASE("DistributedDataParallel: what it refuses", "[integrations][host]") {
  Replicas strategy(2);
  const auto all = nets(2);
  const auto mine = [&](ReplicaContext& context) -> Net& {
    return *all[static_cast<std::size_t>(context.local_index())];
  };
  {
    const auto scope = strategy.scope();
    REQUIRE_THROWS_MATCHES(DistributedDataParallel(*all[0]), ContextError,
                           says("no replica here", "Strategy::run"));
  }
  REQUIRE_THROWS_AS(strategy.run([&](ReplicaContext& context) {
    DistributedDataParallel(mine(context), {.bytes_per_pack = -1});
  }),
                    InvalidArgument);
  struct Frozen : torch::nn::Module {
  } none;
  REQUIRE_THROWS_MATCHES(DistributedDataParallel(none), InvalidArgument,
                         says("no parameter", "requires a gradient"));
  struct Meta : torch::nn::Module {
    Meta() { register_parameter("far", at::empty({2}, at::kMeta)); }
  } meta;
  REQUIRE_THROWS_MATCHES(DistributedDataParallel(meta), Unsupported,
                         says("parameter \"far\"", "meta", "to the CPU"));
  struct MetaBuffer : torch::nn::Module {
    MetaBuffer() { register_buffer("far", at::empty({2}, at::kMeta)); }
  } meta_buffer;
  REQUIRE_THROWS_MATCHES(DistributedDataParallel(meta_buffer), Unsupported, says("buffer \"far\""));

  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& context) {
    DistributedDataParallel ddp(mine(context));
    (mine(context).second.sum() * 2).backward();
  }),
                         InvalidArgument, says("gave no gradient to \"first\"", "freeze"));
  std::vector<std::unique_ptr<DistributedDataParallel>> kept(2);
  strategy.run([&](ReplicaContext& context) {
    kept[static_cast<std::size_t>(context.local_index())] =
        std::make_unique<DistributedDataParallel>(mine(context));
  });
  REQUIRE_THROWS_MATCHES(backward(*all[1], 1), ContextError,
                         says("of replica 1", "not the replica's function"));
  REQUIRE_THROWS_AS(kept[0]->broadcast_buffers(), ContextError);
}

TEST_CASE("DistributedDataParallel: a replica that fails releases the others, and the next run trains",
          "[integrations][host]") {
  struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  const int n = 3, culprit = GENERATE(0, 1);
  const std::int64_t bytes_per_pack = GENERATE(0, 1);
  Replicas strategy(n);
  const auto all = nets(n);
  std::vector<std::unique_ptr<DistributedDataParallel>> ddp(n);
  const auto step = [&](int failing) {
    strategy.run([&](ReplicaContext& context) {
      const auto k = static_cast<std::size_t>(context.local_index());
      if (!ddp[k])
        ddp[k] = std::make_unique<DistributedDataParallel>(
            *all[k], CommunicationOptions{.bytes_per_pack = bytes_per_pack});
      all[k]->zero_grad();
      at::Tensor loss = all[k]->forward(at::full({1, 4}, static_cast<double>(k))).sum();
      // In the middle of the pass, where the other replicas have given a part of their gradients.
      if (context.replica_id_in_sync_group() == failing)
        all[k]->first.register_hook([](const at::Tensor&) { throw Failure("as planned"); });
      loss.backward();
    });
  };
  step(-1);
  for (int round = 0; round < 3; ++round) {
    REQUIRE_THROWS_AS(step(culprit), Failure);
    all[static_cast<std::size_t>(culprit)]->first.remove_hook(static_cast<unsigned>(round));
    step(-1);
    for (const auto& net : all) REQUIRE(net->second.grad().equal(all[0]->second.grad()));
  }
}

TEST_CASE("DistributedDataParallel: replicas with other parameters are told", "[integrations][host]") {
  Replicas strategy(2);
  REQUIRE_THROWS_AS(strategy.run([&](ReplicaContext& context) {
    torch::nn::Linear layer(2, 2 + context.replica_id_in_sync_group());
    DistributedDataParallel ddp(*layer);
  }),
                    CollectiveMismatch);
}

TEST_CASE("DistributedDataParallel: a step copies no more tensors than one without it",
          "[integrations][host]") {
  constexpr int kSteps = 10;
  const int n = GENERATE(1, 2, 3);
  const std::int64_t bytes_per_pack = GENERATE(0, 1);
  const bool set_to_none = GENERATE(true, false);
  Replicas strategy(n);
  std::vector<torch::nn::Sequential> modules;
  for (int k = 0; k < n; ++k)
    modules.emplace_back(torch::nn::Linear(64, 128), torch::nn::ReLU(), torch::nn::Linear(128, 64));
  std::vector<std::unique_ptr<DistributedDataParallel>> ddp(static_cast<std::size_t>(n));
  std::vector<std::unique_ptr<torch::optim::SGD>> sgd(static_cast<std::size_t>(n));
  const Tensor rows = Tensor::ones({16, 64});

  struct Copies {
    std::int64_t bytes, by_torch;
    bool operator==(const Copies&) const = default;
  };
  const auto run = [&](bool is_averaged) {
    const auto steps = [&](int count) {
      strategy.run([&](ReplicaContext& context) {
        at::set_num_threads(1);
        const auto k = static_cast<std::size_t>(context.local_index());
        if (!ddp[k]) {
          ddp[k] = std::make_unique<DistributedDataParallel>(
              *modules[k], CommunicationOptions{.bytes_per_pack = bytes_per_pack});
          sgd[k] = std::make_unique<torch::optim::SGD>(modules[k]->parameters(), 0.01);
        }
        ddp[k]->set_require_backward_grad_sync(is_averaged);
        for (int i = 0; i < count; ++i) {
          modules[k]->zero_grad(set_to_none);
          modules[k]->forward(libtorch::to(rows)).square().mean().backward();
          sgd[k]->step();
        }
      });
    };
    steps(3);
    const TorchCopies by_torch;
    const std::int64_t before = num_copied_bytes();
    steps(kSteps);
    return Copies{num_copied_bytes() - before, TorchCopies::count};
  };
  const Copies alone = run(false), averaged = run(true);
  INFO("alone " << alone.bytes << " B, " << alone.by_torch << " copy_; averaged " << averaged.bytes << " B, "
                << averaged.by_torch << " copy_");
  REQUIRE(averaged == alone);

  // What is counted.
  const TorchCopies by_torch;
  const std::int64_t before = num_copied_bytes();
  const at::Tensor one = at::ones({1024}), other = one.clone();
  REQUIRE(TorchCopies::count == 1);
  static_cast<void>(libtorch::from(other).clone());
  REQUIRE(num_copied_bytes() - before >= 4096);
}

}  // namespace lockstep::test
