#include "strategy/function/trace.hpp"

#include <algorithm>
#include <list>
#include <set>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "trace/span.hpp"

namespace lockstep::detail {

namespace {

/// Replicas whose work is captured into one graph, and the devices that it is on.
struct Draft {
  Draft(StrategyState& state, int replica) : replicas{replica} {
    const auto add = [this](backend::DeviceBackend* device) {
      if (std::ranges::find(devices, device) == devices.end()) devices.push_back(device);
      hardware.insert(device->graphs()->hardware());
    };
    for (ReplicaGroup& group : state.groups())
      add(group.device_backends()[static_cast<std::size_t>(replica)]);
    if (!state.has_parameter_devices()) return;
    for (backend::DeviceBackend* const device : open_all(state.parameter_devices())) add(device);
  }
  bool shares_hardware_with(const Draft& other) const {
    return std::ranges::any_of(hardware, [&](int one) { return other.hardware.contains(one); });
  }
  void add_before(const Draft& other) {
    replicas.insert(replicas.begin(), other.replicas.begin(), other.replicas.end());
    std::erase_if(devices,
                  [&](auto* one) { return std::ranges::find(other.devices, one) != other.devices.end(); });
    devices.insert(devices.begin(), other.devices.begin(), other.devices.end());
    hardware.insert(other.hardware.begin(), other.hardware.end());
  }

  std::vector<int> replicas;
  std::vector<backend::DeviceBackend*> devices;
  std::set<int> hardware;
};

/// One graph for each piece of hardware, or for those together that work for the same replicas.
std::vector<std::unique_ptr<StepGraph>> make_graphs(StrategyState& state) {
  std::vector<Draft> drafts;
  for (int i = 0; i < state.num_local_replicas(); ++i) {
    Draft draft(state, i);
    std::erase_if(drafts, [&](const Draft& before) {
      if (!draft.shares_hardware_with(before)) return false;
      draft.add_before(before);
      return true;
    });
    drafts.push_back(std::move(draft));
  }
  std::vector<std::unique_ptr<StepGraph>> graphs;
  for (Draft& draft : drafts) {
    const std::shared_ptr<LastLaunch> last = state.last_launch(*draft.devices.front());
    graphs.push_back(std::make_unique<StepGraph>(std::move(draft.replicas), std::move(draft.devices), last));
  }
  return graphs;
}

template <class Graphs, class Act>
void on_roots(StrategyState& state, const Graphs& graphs, const Act& act) {
  if (graphs.size() == 1 && graphs.front()->root() == 0) return act(*graphs.front());
  state.executor().run([&](int i) {
    for (const auto& graph : graphs)
      if (graph->root() == i) act(*graph);
  });
}

RecycledVector<Tensor> inputs_of_graph(const StepGraph& graph, const FunctionCall& call) {
  RecycledVector<Tensor> inputs;
  for (const int i : graph.replicas()) {
    const auto index = static_cast<std::size_t>(i);
    inputs.insert(inputs.end(), call.inputs.begin() + static_cast<std::ptrdiff_t>(call.begins[index]),
                  call.inputs.begin() + static_cast<std::ptrdiff_t>(call.begins[index + 1]));
  }
  return inputs;
}

}  // namespace

bool Trace::fits(const FunctionCall& call) const {
  return words_ == call.signature.words() &&
         std::ranges::all_of(parts_, [](const auto& part) { return part.second->fits(); });
}

HostPart& Trace::part(const void* owner, int replica, FunctionRef<std::unique_ptr<HostPart>()> make) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<HostPart>& part = parts_[{owner, replica}];
  if (part == nullptr) part = make();
  return *part;
}

std::size_t Trace::reserve_numbers(std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_EXPECTS(numbers_end_ + size_bytes <= StepGraph::kNumbersBytes, Unsupported,
                   "function: the traced step makes more steps of optimizers than ",
                   numbers_end_ / size_bytes,
                   ", which is all that a graph has numbers for. Make fewer in one function.");
  return std::exchange(numbers_end_, numbers_end_ + size_bytes);
}

std::byte* Trace::numbers_on(const Device& device, std::size_t place) {
  const auto graph = std::ranges::find_if(graphs_, [&](const auto& one) { return one->has_device(device); });
  return (*graph)->numbers_on(device) + place;
}

std::size_t Trace::result_index(const Tensor& tensor, std::vector<std::vector<Tensor>>& of_graphs,
                                std::vector<Tensor>& all) {
  const auto same = std::ranges::find_if(all, [&](const Tensor& one) { return one.is_same_object(tensor); });
  if (same != all.end()) return static_cast<std::size_t>(same - all.begin());
  const auto graph =
      std::ranges::find_if(graphs_, [&](const auto& one) { return one->has_device(tensor.device()); });
  LOCKSTEP_EXPECTS(graph != graphs_.end(), InvalidArgument, "function: a result is ", describe(tensor),
                   ", which is no replica's device. Return it on the replica's, and copy it after the call.");
  const auto g = static_cast<std::size_t>(graph - graphs_.begin());
  all.push_back(tensor);
  of_graphs[g].push_back(tensor.contiguous());
  results_.push_back({g, ResultMemory(tensor.shape(), tensor.dtype(), tensor.device())});
  return all.size() - 1;
}

void Trace::take_results(const FunctionCall& call, int num_replicas,
                         std::vector<std::vector<Tensor>>& of_graphs) {
  results_.clear();
  result_leaves_.clear();
  std::vector<Tensor> all;
  for (int i = 0; i < num_replicas; ++i)
    call.for_each_result(i, [&](Tensor& tensor) {
      result_leaves_.push_back(tensor.defined() ? std::optional(result_index(tensor, of_graphs, all))
                                                : std::nullopt);
      tensor = Tensor();
    });
  results_copy_ = call.copy_results();
}

void Trace::capture(StrategyState& state, FunctionCall& call, FunctionRef<void()> run) {
  for (;;) {
    try {
      return capture_once(state, call, run);
    } catch (...) {
      if (!is_repeated_.exchange(false)) throw;
    }
  }
}

void Trace::capture_once(StrategyState& state, FunctionCall& call, FunctionRef<void()> run) {
  // Captured work waits for nothing outside that is not done.
  for (const StreamRef& stream : state.streams()) stream.synchronize();
  Parts before = std::exchange(parts_, {});
  std::list<StreamScope> scopes;
  try {
    numbers_end_ = 0;
    graphs_ = make_graphs(state);
    begins_ = call.begins;
    own_inputs_ = RecycledVector<Tensor>(call.inputs.size());
    for (const auto& graph : graphs_)
      for (const Stream& stream : graph->streams()) scopes.emplace_back(stream);
    is_capturing_ = true;
    on_roots(state, graphs_,
             [&](StepGraph& graph) { graph.begin(inputs_of_graph(graph, call), takes_addresses_); });
    for (const auto& graph : graphs_) {
      auto own = graph->own_inputs().begin();
      for (const int i : graph->replicas())
        for (std::size_t k = begins_[static_cast<std::size_t>(i)];
             k < begins_[static_cast<std::size_t>(i) + 1]; ++k, ++own)
          own_inputs_[k] = own->defined() ? own->read_only() : Tensor();
    }
    limits_.begin_capture(state.groups());
    run();
    limits_.end_capture(state.groups());
    std::vector<std::vector<Tensor>> results(graphs_.size());
    take_results(call, state.num_local_replicas(), results);
    on_roots(state, graphs_, [&](StepGraph& graph) {
      const auto g = std::ranges::find(graphs_, &graph, &std::unique_ptr<StepGraph>::get) - graphs_.begin();
      graph.end(results[static_cast<std::size_t>(g)]);
    });
    is_capturing_ = false;
    for (const auto& [owner, part] : parts_) part->restore();  // until a launch commits
  } catch (...) {
    is_capturing_ = false;
    limits_.end_capture(state.groups());
    on_roots(state, graphs_, [](StepGraph& graph) { graph.drop(); });
    for (const auto& [owner, part] : parts_) part->restore();
    parts_ = std::move(before);
    own_inputs_.clear();
    graphs_.clear();
    throw;
  }
}

void Trace::launch(StrategyState& state, FunctionCall& call) {
  const Span span(SpanKind::run, "function");
  state.groups().for_each_rendezvous([](const Rendezvous& rendezvous) {
    LOCKSTEP_EXPECTS(!rendezvous.is_aborted(), CollectiveAborted,
                     "function: the strategy's collectives have failed before. Make a new strategy.");
  });
  state.failures().clear();
  alignas(std::max_align_t) std::array<std::byte, StepGraph::kNumbersBytes> numbers{};
  for (const auto& [owner, part] : parts_) part->prepare(numbers.data());
  for (Tensor& input : call.inputs)
    if (!takes_addresses_ && input.defined() && !input.is_contiguous()) input = input.contiguous();
  RecycledVector<Tensor> results;
  results.reserve(results_.size());
  for (Result& result : results_)
    results.push_back(result.memory.take(current_stream(result.memory.view().device)));
  for (std::size_t g = 0; g < graphs_.size(); ++g) {
    RecycledVector<Tensor> own;
    for (std::size_t k = 0; k < results.size(); ++k)
      if (results_[k].graph == g) own.push_back(results[k]);
    graphs_[g]->prepare(inputs_of_graph(*graphs_[g], call), std::span(numbers).first(numbers_end_), own);
  }
  limits_.begin_launch(state.groups());
  const std::uint64_t num_launches = graphs_.front()->num_launches();
  try {
    state.groups().front().launch_graphs(
        [&] { on_roots(state, graphs_, [](StepGraph& graph) { graph.launch(); }); });
    limits_.end_launch(state.groups());
  } catch (const Error& error) {
    // The collectives of those that were launched wait for the one that was not; or the step is made, and the
    // variables do not know.
    if (graphs_.size() > 1 || graphs_.front()->num_launches() != num_launches)
      for (ReplicaGroup& group : state.groups()) group.abort(error.what());
    throw;
  }
  for (const auto& [owner, part] : parts_) part->commit();
  if (results_copy_ == nullptr) return;
  call.set_results(results_copy_.get());
  auto leaf = result_leaves_.begin();
  for (int i = 0; i < state.num_local_replicas(); ++i)
    call.for_each_result(i, [&](Tensor& tensor) {
      if (const auto& index = *leaf++) tensor = results[*index];
    });
}

}  // namespace lockstep::detail
