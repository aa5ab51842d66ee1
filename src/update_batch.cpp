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
    batch->memory_.updates_.push_back(std::move(update));
  else
    enqueue(update, {&update.tensors, 1});
}

void UpdateBatch::Memory::reserve(std::size_t num_updates) {
  updates_.reserve(num_updates);
  alike_.reserve(num_updates);
  is_made_.reserve(num_updates);
}

void UpdateBatch::make() {
  auto& updates = memory_.updates_;
  auto& alike = memory_.alike_;
  auto& is_made = memory_.is_made_;
  is_made.assign(updates.size(), 0);
  for (std::size_t i = 0; i < updates.size(); ++i) {
    if (is_made[i] != 0) continue;
    alike.clear();
    for (std::size_t k = i; k < updates.size(); ++k) {
      if (is_made[k] != 0 || !are_alike(updates[i], updates[k])) continue;
      alike.push_back(updates[k].tensors);
      is_made[k] = 1;
    }
    enqueue(updates[i], alike);
  }
  updates.clear();
}

}  // namespace lockstep::detail
