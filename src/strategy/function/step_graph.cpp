#include "strategy/function/step_graph.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

namespace {

std::int64_t largest(std::span<const Tensor> tensors, std::span<const std::size_t> indices) {
  std::int64_t bytes = 0;
  for (const std::size_t k : indices) bytes = std::max(bytes, tensors[k].nbytes());
  return bytes;
}

/// Writes the k-th copy of a slot's list.
void list(std::byte* slot, std::size_t k, void* to, const void* from, std::int64_t size_bytes) {
  const backend::ListedCopy copy{to, from, size_bytes};
  std::memcpy(slot + k * sizeof copy, &copy, sizeof copy);
}

}  // namespace

StepGraph::StepGraph(std::vector<int> replicas, std::vector<backend::DeviceBackend*> devices,
                     std::shared_ptr<LastLaunch> last)
    : replicas_(std::move(replicas)), devices_(std::move(devices)), last_(std::move(last)) {
  for (std::size_t k = 0; k < devices_.size(); ++k) {
    streams_.emplace_back(*devices_[k]);
    ends_.emplace_back(*devices_[k]);
    const auto same = std::ranges::find_if(parts_, [&](const Part& part) {
      return graphs_of(part).hardware() == devices_[k]->graphs()->hardware();
    });
    Part& part = same != parts_.end() ? *same : parts_.emplace_back();
    part.devices.push_back(k);
  }
}

StepGraph::~StepGraph() {
  if (!launched_on_) return;
  try {
    last_->leave(*launched_on_);
    for (const Stream& stream : streams_) stream.wait(*launched_on_);
    for (const Part& part : std::span(parts_).subspan(1))
      graph_->free_after(graphs_of(part), stream_of(part).handle());
    if (!is_in_place_) return;
    for (const Tensor& input : own_inputs_)  // the caller's may be dropped now
      if (const auto stream = input.defined() ? input.stream() : std::nullopt) stream->wait(*launched_on_);
  } catch (const Error&) {  // the memory is lost with the device
  }
}

backend::GraphBackend& StepGraph::graphs_of(const Part& part) const {
  return *devices_[part.devices.front()]->graphs();
}

std::size_t StepGraph::index_of(const Device& device) const noexcept {
  const auto found = std::ranges::find_if(devices_, [&](const auto* own) { return own->device() == device; });
  return static_cast<std::size_t>(found - devices_.begin());
}

bool StepGraph::has_device(const Device& device) const noexcept { return index_of(device) < devices_.size(); }

std::size_t StepGraph::part_of(const Device& device) const noexcept {
  const auto found = std::ranges::find_if(parts_, [k = index_of(device)](const Part& part) {
    return std::ranges::find(part.devices, k) != part.devices.end();
  });
  return static_cast<std::size_t>(found - parts_.begin());
}

std::byte* StepGraph::numbers_on(const Device& device) const {
  const Part& part = parts_[part_of(device)];
  return part.entry.block() + part.inputs.size() * sizeof(backend::ListedCopy);
}

void StepGraph::begin(std::span<const Tensor> inputs, bool in_place) {
  const Stream& root = streams_.front();
  is_in_place_ = in_place;
  for (Part& part : parts_) {
    part.inputs.clear();
    if (&part != &parts_.front()) graphs_of(part).load();
  }
  for (std::size_t k = 0; k < inputs.size() && !in_place; ++k)
    if (inputs[k].defined()) parts_[part_of(inputs[k].device())].inputs.push_back(k);
  graphs_of(parts_.front()).begin_capture(root.handle());
  for (Part& part : parts_) {
    const Stream& stream = stream_of(part);
    stream.wait(root);
    part.entry = SlotRing(part.inputs.size() * sizeof(backend::ListedCopy) + kNumbersBytes, stream);
    graphs_of(part).copy_listed(reinterpret_cast<const backend::ListedCopy*>(part.entry.block()),
                                static_cast<std::int64_t>(part.inputs.size()), largest(inputs, part.inputs),
                                stream.handle());
    for (const std::size_t k : part.devices) streams_[k].wait(stream);
  }
  if (in_place) {
    own_inputs_.assign(inputs.begin(), inputs.end());
    return;
  }
  own_inputs_.clear();
  for (const Tensor& input : inputs) {
    if (!input.defined()) {
      own_inputs_.emplace_back();
      continue;
    }
    const StreamScope here(streams_[index_of(input.device())]);
    own_inputs_.push_back(Tensor::empty(input.shape(), input.dtype(), input.device()));
  }
}

void StepGraph::end(std::span<const Tensor> results) {
  const Stream& root = streams_.front();
  for (Part& part : parts_) {
    part.results.clear();
    part.own_results.clear();
  }
  for (std::size_t k = 0; k < results.size(); ++k) {
    Part& part = parts_[part_of(results[k].device())];
    part.results.push_back(k);
    part.own_results.push_back(results[k].view().data);
  }
  for (Part& part : parts_) {
    const Stream& stream = stream_of(part);
    for (const std::size_t k : part.devices) stream.wait(streams_[k]);
    if (part.results.empty()) continue;
    part.exit = SlotRing(part.results.size() * sizeof(backend::ListedCopy), stream);
    graphs_of(part).copy_listed(reinterpret_cast<const backend::ListedCopy*>(part.exit.block()),
                                static_cast<std::int64_t>(part.results.size()),
                                largest(results, part.results), stream.handle());
  }
  for (const Part& part : parts_) root.wait(stream_of(part));
  parts_.front().entry.enqueue_report(root);
  graph_ = graphs_of(parts_.front()).end_capture(root.handle());
  for (Part& part : parts_) {
    part.entry.reset(stream_of(part));
    if (!part.results.empty()) part.exit.reset(stream_of(part));
  }
}

void StepGraph::drop() noexcept {
  try {
    for (const Stream& stream : streams_) streams_.front().wait(stream);
  } catch (const Error&) {  // the capture is broken
  }
  graphs_of(parts_.front()).drop_capture(streams_.front().handle());
  own_inputs_.clear();
}

void StepGraph::prepare(std::span<const Tensor> inputs, std::span<const std::byte> numbers,
                        std::span<const Tensor> results) {
  current_.clear();
  for (backend::DeviceBackend* const device : devices_) {
    current_.push_back(current_stream(*device));
    LOCKSTEP_EXPECTS(
        !device->is_capturing(current_.back().handle()), ContextError, "function on ", device->device(),
        ": its current stream is being captured, into which no function can be launched. Call it "
        "after the capture, or with another StreamScope.");
  }
  last_->require_can_move_to(current_.front());
  while (num_launches_ - parts_.front().entry.num_ended() >= SlotRing::kNumSlots) {
    current_.front().synchronize();
    std::this_thread::yield();  // the launches may be on a stream that was current before
  }
  for (const Part& part : parts_) {
    std::byte* const entry = part.entry.slot(num_launches_);
    for (std::size_t c = 0; c < part.inputs.size(); ++c) {
      const Tensor& input = inputs[part.inputs[c]];
      list(entry, c, own_inputs_[part.inputs[c]].view().data, input.view().data, input.nbytes());
    }
    std::memcpy(entry + part.inputs.size() * sizeof(backend::ListedCopy), numbers.data(), numbers.size());
    if (part.results.empty()) continue;
    std::byte* const exit = part.exit.slot(num_launches_);
    for (std::size_t c = 0; c < part.results.size(); ++c) {
      const Tensor& result = results[part.results[c]];
      list(exit, c, result.view().data, part.own_results[c], result.nbytes());
    }
  }
}

void StepGraph::launch() {
  const StreamRef& root = current_.front();
  for (std::size_t k = 1; k < current_.size(); ++k) {
    ends_[k].record(current_[k]);
    root.wait(ends_[k]);
  }
  last_->move_to(root);
  graph_->launch(root.handle());
  launched_on_ = root;
  ++num_launches_;
  if (current_.size() == 1) return;
  ends_.front().record(root);
  for (std::size_t k = 1; k < current_.size(); ++k) current_[k].wait(ends_.front());
}

}  // namespace lockstep::detail
