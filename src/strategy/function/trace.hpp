#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/strategy/detail/function_call.hpp>

#include "detail/tracing.hpp"
#include "strategy/function/launch_limits.hpp"
#include "strategy/function/result_memory.hpp"
#include "strategy/function/step_graph.hpp"
#include "strategy/runtime/strategy_state.hpp"

namespace lockstep::detail {

/// What is known of the calls of one signature: first on what state of the host they depend and, where their
/// work is captured, the graphs. All calls are in a call of the strategy.
class Trace final : public TraceRecorder {
 public:
  /// @param takes_addresses  the call's inputs are kept, and read where they are.
  Trace(const FunctionCall& call, bool takes_addresses)
      : words_(call.signature.words()),
        variables_(call.signature.variables()),
        takes_addresses_(takes_addresses),
        kept_(takes_addresses ? call.inputs : RecycledVector<Tensor>()) {}

  /// Whether the trace serves the call.
  bool fits(const FunctionCall& call) const;
  bool has_graphs() const noexcept { return !graphs_.empty(); }

  /// Captures the work of a call. @param run  runs the call's replicas; is called again where a part of the
  /// trace asks for that. When it throws, nothing has changed.
  void capture(StrategyState& state, FunctionCall& call, FunctionRef<void()> run);
  /// Launches the graphs, with the call's inputs, and sets the call's results. @pre has_graphs()
  void launch(StrategyState& state, FunctionCall& call);
  /// The graphs' own memory for replica i's inputs. @pre in the captured run
  const Tensor* inputs_of(int i) const { return own_inputs_.data() + begins_[static_cast<std::size_t>(i)]; }

  bool captures() const noexcept override { return is_capturing_; }
  HostPart& part(const void* owner, int replica, FunctionRef<std::unique_ptr<HostPart>()> make) override;
  std::size_t reserve_numbers(std::size_t size_bytes) override;
  void repeat() noexcept override { is_repeated_ = true; }
  std::byte* numbers_on(const Device& device, std::size_t place) override;

 private:
  using Parts = std::map<std::pair<const void*, int>, std::unique_ptr<HostPart>>;
  struct Result {
    std::size_t graph;
    ResultMemory memory;
  };

  void capture_once(StrategyState& state, FunctionCall& call, FunctionRef<void()> run);
  void take_results(const FunctionCall& call, int num_replicas, std::vector<std::vector<Tensor>>& of_graphs);
  std::size_t result_index(const Tensor& tensor, std::vector<std::vector<Tensor>>& of_graphs,
                           std::vector<Tensor>& all);

  const RecycledVector<std::uint64_t> words_;
  const RecycledVector<Variable> variables_;  // whose addresses are among the words
  const bool takes_addresses_;
  const RecycledVector<Tensor> kept_;  // and so are these tensors'
  std::mutex mutex_;                   // guards parts_ and numbers_end_ in a recorded run
  Parts parts_;
  std::size_t numbers_end_ = 0;
  bool is_capturing_ = false;
  std::atomic<bool> is_repeated_{false};

  std::vector<std::unique_ptr<StepGraph>> graphs_;
  LaunchLimits limits_;
  RecycledVector<std::size_t> begins_;
  RecycledVector<Tensor> own_inputs_;                      // of the graphs, in the order of the call's
  std::vector<Result> results_;                            // each tensor once
  std::vector<std::optional<std::size_t>> result_leaves_;  // of the results' tensors, in results_
  std::shared_ptr<const void> results_copy_;               // with empty tensors
};

}  // namespace lockstep::detail
