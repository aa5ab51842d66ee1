#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <lockstep/collectives/options.hpp>
#include <lockstep/error.hpp>
#include <lockstep/integrations/libtorch.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/strategy/context.hpp>
#include <lockstep/strategy/packed_reduction.hpp>
#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

namespace lockstep::libtorch {

/// Data parallel training of a torch module, as PyTorch's DistributedDataParallel: each replica has a copy of
/// the module, and after `loss.backward()` each parameter's gradient is the mean over all replicas. Losses
/// are means over the replica's rows; the mean is then that of the global batch, if all have as many rows.
///
///     strategy.run([&](ls::ReplicaContext& context) {
///       Net& net = nets[context.replica_id_in_sync_group()];
///       ls::libtorch::DistributedDataParallel ddp(net);  // replica 0's parameters are everyone's now
///       torch::optim::SGD sgd(net.parameters(), 0.1);
///       for (const auto& [images, labels] : batches_of(context)) {
///         net.zero_grad();
///         torch::nn::functional::cross_entropy(net.forward(images), labels).backward();
///         sgd.step();  // gradients are means over the replicas
///       }
///     });
///
/// Hooks on the parameters add gradients to a PackedReduction as the backward pass gives them, in the reverse
/// of the module's order of parameters, so that a pack is reduced while the pass goes on; on the host by the
/// replicas' threads themselves, within the pass. The last pack is reduced when the pass is at its end.
/// Gradients are reduced where they lie; for a strided one `grad()` becomes a new tensor.
///
/// Made and used on the replica's thread, in functions given to Strategy::run, of one worker or of several;
/// it may live longer than one run. Hold the module for as long; it must keep its parameters. Torch's number
/// of threads belongs to the thread that computes: call at::set_num_threads(1) in the replica's function, or
/// replicas fight for the cores.
///
/// `backward` throws what the reduction does (PackedReduction), and:
/// @throws InvalidArgument  at its end: a parameter that requires a gradient has none on this replica.
/// @throws ContextError  it runs outside of the replica's function.
/// After that gradients may be local, averaged, or partly so: clear them. The next pass begins anew.
class DistributedDataParallel {
 public:
  /// Gives the module replica 0's parameters and buffers, bit for bit. All replicas make one at the same
  /// time.
  /// @param options  bytes_per_pack: of a bucket, default PackedReduction::kDefaultBytesPerPack.
  /// @throws InvalidArgument  no parameter requires a gradient, or a negative option.
  /// @throws Unsupported  a parameter or buffer is not on the CPU: autograd then works on other threads than
  /// the replica's. @throws ContextError  not in a replica context. @throws as ReplicaContext::all_reduce.
  explicit DistributedDataParallel(torch::nn::Module& module, const CommunicationOptions& options = {})
      : options_(options.merged_over({})) {
    ReplicaContext* const context = get_replica_context();
    if (context == nullptr)
      throw ContextError(
          "DistributedDataParallel: there is no replica here. Make one in each replica, in the "
          "function given to Strategy::run.");
    strategy_ = &context->strategy();
    replica_id_ = context->replica_id_in_sync_group();
    for (const auto& buffer : module.named_buffers()) {
      require_cpu("buffer", buffer.key(), buffer.value());
      buffers_.push_back(buffer.value());
    }
    std::vector<at::Tensor> values;
    for (const auto& parameter : module.named_parameters()) {
      require_cpu("parameter", parameter.key(), parameter.value());
      values.push_back(parameter.value());
      if (parameter.value().requires_grad())
        parameters_.insert(parameters_.begin(), {parameter.key(), parameter.value(), {}, 0});
    }
    if (parameters_.empty())
      throw InvalidArgument(
          "DistributedDataParallel: no parameter of the module requires a gradient, so there is nothing to "
          "average.");
    for (const at::Tensor& value : values) broadcast(*context, value);
    broadcast_buffers();
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      Parameter& parameter = parameters_[k];
      parameter.accumulator = torch::autograd::impl::grad_accumulator(parameter.value);
      parameter.hook = parameter.accumulator->add_post_hook(std::make_unique<Hook>(*this, k));
    }
  }
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;
  /// Takes the hooks off.
  ~DistributedDataParallel() {
    for (Parameter& parameter : parameters_)
      if (parameter.accumulator) parameter.accumulator->del_post_hook(parameter.hook);
  }

  /// Gives the module replica 0's buffers again, such as running means, which replicas' forward passes write
  /// without each other. All replicas call it at the same time. @throws as ReplicaContext::all_reduce
  void broadcast_buffers() {
    ReplicaContext& context = this->context();
    for (const at::Tensor& buffer : buffers_) broadcast(context, buffer);
  }

  /// Whether backward passes average gradients; true at first. Without, gradients add up on each replica, as
  /// in PyTorch's no_sync(), and the next pass that averages has their sums. The same on all replicas.
  void set_require_backward_grad_sync(bool is_required) noexcept { is_sync_required_ = is_required; }

 private:
  // A shared or an intrusive pointer, by torch's version.
  using AccumulatorPtr = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

  struct Parameter {
    std::string name;
    at::Tensor value;
    AccumulatorPtr accumulator;
    std::uintptr_t hook;
  };

  /// One backward pass, which owns it.
  struct Pass {
    Pass(ReplicaContext& context, const CommunicationOptions& options, std::size_t num_parameters)
        : reduction(context, ReduceOp::mean, options, PackedReduction::Values::given),
          is_ready(num_parameters) {}

    PackedReduction reduction;
    std::vector<bool> is_ready;  // by parameter
    std::size_t next = 0;        // the first parameter that was not added
  };

  /// Called when a parameter's gradient is there.
  class Hook final : public torch::autograd::FunctionPostHook {
   public:
    Hook(DistributedDataParallel& owner, std::size_t parameter) : owner_(owner), parameter_(parameter) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list&) override {
      owner_.take_gradient(parameter_);
      return outputs;
    }

   private:
    DistributedDataParallel& owner_;
    std::size_t parameter_;
  };

  static void require_cpu(const char* kind, const std::string& name, const at::Tensor& tensor) {
    if (!tensor.device().is_cpu())
      throw Unsupported(std::string("DistributedDataParallel: ") + kind + " \"" + name + "\" is on " +
                        tensor.device().str() +
                        ", where backward passes leave the replica's thread. Move the module to the CPU, or "
                        "reduce its gradients after the pass with a PackedReduction.");
  }

  /// Of replica 0's value: the other replicas add zeros to its bytes.
  static void broadcast(ReplicaContext& context, const at::Tensor& tensor) {
    const at::NoGradGuard no_grad;
    const at::Tensor dense = tensor.detach().contiguous();
    const Shape bytes{static_cast<std::int64_t>(dense.nbytes())};
    Tensor memory = Tensor::view(dense.data_ptr(), bytes, DType::u8, context.device());
    memory.copy_(context.all_reduce(ReduceOp::sum, context.replica_id_in_sync_group() == 0
                                                       ? memory
                                                       : Tensor::zeros(bytes, DType::u8, context.device())));
    if (!dense.is_alias_of(tensor)) tensor.detach().copy_(dense);
  }

  ReplicaContext& context() const {
    ReplicaContext* const context = get_replica_context();
    if (context == nullptr || &context->strategy() != strategy_ ||
        context->replica_id_in_sync_group() != replica_id_)
      throw ContextError("DistributedDataParallel of replica " + std::to_string(replica_id_) +
                         ": this is not the replica's function. Call backward() and broadcast_buffers() in "
                         "the function given to Strategy::run, on its thread.");
    return *context;
  }

  void take_gradient(std::size_t k) {
    if (!is_sync_required_ || !parameters_[k].value.grad().defined()) return;
    std::shared_ptr<Pass> pass = pass_.lock();  // ends with its backward pass, also if that throws
    if (!pass) {
      pass = std::make_shared<Pass>(context(), options_, parameters_.size());
      pass_ = pass;
      torch::autograd::Engine::get_default_engine().queue_callback([this, pass] { finish(*pass); });
    }
    pass->is_ready[k] = true;
    for (; pass->next < parameters_.size() && pass->is_ready[pass->next]; ++pass->next)
      pass->reduction.add(from(parameters_[pass->next].value.grad()));
  }

  void finish(Pass& pass) {
    if (pass.next < parameters_.size()) {
      std::string names;
      for (std::size_t k = 0; k < parameters_.size(); ++k)
        if (!pass.is_ready[k]) names += (names.empty() ? "\"" : ", \"") + parameters_[k].name + "\"";
      throw InvalidArgument(
          "DistributedDataParallel on replica " + std::to_string(replica_id_) +
          ": the backward pass gave no gradient to " + names +
          ". Let each parameter that requires a gradient take part in the loss, or freeze it "
          "before.");
    }
    const std::vector<Tensor> means = pass.reduction.wait();
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      at::Tensor& gradient = parameters_[k].value.mutable_grad();
      if (means[k].view().data != gradient.data_ptr()) gradient = to(means[k]);
    }
  }

  CommunicationOptions options_;
  Strategy* strategy_ = nullptr;
  int replica_id_ = 0;
  std::vector<Parameter> parameters_;  // those that require a gradient, the last one first
  std::vector<at::Tensor> buffers_;
  bool is_sync_required_ = true;
  std::weak_ptr<Pass> pass_;
};

}  // namespace lockstep::libtorch

#pragma GCC visibility pop
