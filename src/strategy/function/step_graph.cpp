#include "strategy/function/step_graph.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>

namespace lockstep::detail {

namespace {

std::int64_t largest(std::span<const Tensor> tensors) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : tensors)
    if (tensor.defined()) bytes = std::max(bytes, tensor.nbytes());
  return bytes;
}

/// Writes the k-th copy of a slot's list.
void list(std::byte* slot, std::size_t k, void* to, const void* from, std::int64_t size_bytes) {
  const backend::ListedCopy copy{to, from, size_bytes};
  std::memcpy(slot + k * sizeof copy, &copy, sizeof copy);
}

}  // namespace

StepGraph::StepGraph(std::vector<int> replicas, std::span<backend::DeviceBackend* const> devices)
    : replicas_(std::move(replicas)) {
  for (const int i : replicas_) {
    backend::DeviceBackend& device = *devices[static_cast<std::size_t>(i)];
    devices_.push_back(&device);
    streams_.emplace_back(device);
    ends_.emplace_back(device);
  }
}

StepGraph::~StepGraph() {
  if (num_launches_ == 0) return;
  try {
    for (const Stream& stream : streams_) stream.wait(current_.front());
    if (num_copied_ > 0) return;
    for (const Tensor& input : own_inputs_)  // the caller's may be dropped now
      if (const auto stream = input.defined() ? input.stream() : std::nullopt) stream->wait(current_.front());
  } catch (const Error&) {  // the memory is lost with the device
  }
}

bool StepGraph::has_device(const Device& device) const noexcept {
  return std::ranges::any_of(devices_, [&](const auto* own) { return own->device() == device; });
}

void StepGraph::begin(std::span<const Tensor> inputs, bool in_place) {
  const Stream& root = streams_.front();
  backend::GraphBackend& graphs = *devices_.front()->graphs();
  graphs.begin_capture(root.handle());
  num_copied_ = in_place ? 0 : inputs.size();
  entry_ = SlotRing(num_copied_ * sizeof(backend::ListedCopy) + kNumbersBytes, root);
  if (!in_place)
    graphs.copy_listed(reinterpret_cast<const backend::ListedCopy*>(entry_.block()),
                       static_cast<std::int64_t>(inputs.size()), largest(inputs), root.handle());
  for (std::size_t k = 1; k < streams_.size(); ++k) streams_[k].wait(root);
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
    const auto owner = std::ranges::find_if(
        streams_, [&](const Stream& stream) { return stream.device() == input.device(); });
    const StreamScope here(*owner);
    own_inputs_.push_back(Tensor::empty(input.shape(), input.dtype(), input.device()));
  }
}

void StepGraph::end(std::span<const Tensor> results) {
  const Stream& root = streams_.front();
  backend::GraphBackend& graphs = *devices_.front()->graphs();
  for (std::size_t k = 1; k < streams_.size(); ++k) root.wait(streams_[k]);
  own_results_.clear();
  for (const Tensor& result : results) own_results_.push_back(result.view().data);
  if (!results.empty()) {
    exit_ = SlotRing(results.size() * sizeof(backend::ListedCopy), root);
    graphs.copy_listed(reinterpret_cast<const backend::ListedCopy*>(exit_.block()),
                       static_cast<std::int64_t>(results.size()), largest(results), root.handle());
  }
  entry_.enqueue_report(root);
  graph_ = graphs.end_capture(root.handle());
  entry_.reset(root);
  if (!results.empty()) exit_.reset(root);
}

void StepGraph::drop() noexcept {
  try {
    for (std::size_t k = 1; k < streams_.size(); ++k) streams_.front().wait(streams_[k]);
  } catch (const Error&) {  // the capture is broken
  }
  devices_.front()->graphs()->drop_capture(streams_.front().handle());
  own_inputs_.clear();
}

void StepGraph::prepare(std::span<const Tensor> inputs, std::span<const std::byte> numbers,
                        std::span<const Tensor> results) {
  current_.clear();
  for (backend::DeviceBackend* const device : devices_) current_.push_back(current_stream(*device));
  while (num_launches_ - entry_.num_ended() >= SlotRing::kNumSlots) {
    current_.front().synchronize();
    std::this_thread::yield();  // the launches may be on a stream that was current before
  }
  std::byte* const entry = entry_.slot(num_launches_);
  for (std::size_t k = 0; k < num_copied_; ++k)
    if (inputs[k].defined())
      list(entry, k, own_inputs_[k].view().data, inputs[k].view().data, inputs[k].nbytes());
    else
      list(entry, k, nullptr, nullptr, 0);
  std::memcpy(entry + num_copied_ * sizeof(backend::ListedCopy), numbers.data(), numbers.size());
  if (results.empty()) return;
  std::byte* const exit = exit_.slot(num_launches_);
  for (std::size_t k = 0; k < results.size(); ++k)
    list(exit, k, results[k].view().data, own_results_[k], results[k].nbytes());
}

void StepGraph::launch() {
  const StreamRef& root = current_.front();
  for (std::size_t k = 1; k < current_.size(); ++k) {
    ends_[k].record(current_[k]);
    root.wait(ends_[k]);
  }
  graph_->launch(root.handle());
  ++num_launches_;
  if (current_.size() == 1) return;
  ends_.front().record(root);
  for (std::size_t k = 1; k < current_.size(); ++k) current_[k].wait(ends_.front());
}

}  // namespace lockstep::detail
