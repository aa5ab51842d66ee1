#include "update_batch.hpp"

#include <utility>

#include <lockstep/backend/device_backend.hpp>

namespace lockstep::detail {

namespace {

thread_local UpdateBatch* innermost_batch = nullptr;

/// Whether one kernel can make both.
bool are_alike(const UpdateBatch::Update& a, const UpdateBatch::Update& b) {
  const auto has_slot = [](const UpdateBatch::Update& update) {
    return update.tensors.first_slot.data != nullptr;
  };
  return a.rule == b.rule && a.stream == b.stream && a.parameters == b.parameters &&
         a.tensors.variable.dtype == b.tensors.variable.dtype && has_slot(a) == has_slot(b);
}

void enqueue(const UpdateBatch::Update& first, std::span<const backend::UpdateTensors> updates) {
  backend::KernelBackend& kernels = first.stream.device_backend().kernels();
  if (first.rule == UpdateBatch::Rule::sgd)
    kernels.sgd_updates(updates, first.parameters, first.stream.handle());
  else
    kernels.adam_updates(updates, first.parameters, first.stream.handle());
}

}  // namespace

UpdateBatch*& UpdateBatch::innermost() noexcept { return innermost_batch; }

void UpdateBatch::add(Update update) {
  if (UpdateBatch* const batch = innermost(); batch != nullptr)
    batch->updates_.push_back(std::move(update));
  else
    enqueue(update, {&update.tensors, 1});
}

void UpdateBatch::make() {
  RecycledVector<backend::UpdateTensors> alike;
  alike.reserve(updates_.size());
  RecycledVector<char> is_made(updates_.size(), 0);
  for (std::size_t i = 0; i < updates_.size(); ++i) {
    if (is_made[i] != 0) continue;
    alike.clear();
    for (std::size_t k = i; k < updates_.size(); ++k) {
      if (is_made[k] != 0 || !are_alike(updates_[i], updates_[k])) continue;
      alike.push_back(updates_[k].tensors);
      is_made[k] = 1;
    }
    enqueue(updates_[i], alike);
  }
  updates_.clear();
}

}  // namespace lockstep::detail
