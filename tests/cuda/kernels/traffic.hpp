#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/tensor.hpp>

#include "count/counting.hpp"
#include "cuda/kernels/traffic_limits.hpp"
#include "support/test_backend.hpp"

/// What an operation moves and launches, as virtual GPUs count it, beside the least.
namespace lockstep::test {

/// `size` elements, or a tensor, that starts `offset_bytes` after a boundary of 256 bytes. All are 0.
class Operand {
 public:
  Operand(DType dtype, const Shape& shape, std::int64_t offset_bytes = 0, int device = 0)
      : storage_(Tensor::zeros(Shape(shape.size() * static_cast<std::int64_t>(size_of(dtype)) + offset_bytes),
                               DType::u8, TestBackend::device(device))),
        view_(static_cast<std::byte*>(storage_.view().data) + offset_bytes, shape, dtype, storage_.device()) {
    current_stream(storage_.device()).synchronize();
  }
  const TensorView& view() const { return view_; }

 private:
  Tensor storage_;
  TensorView view_;
};

inline std::vector<TensorView> views_of(std::span<const Operand> operands) {
  std::vector<TensorView> views;
  for (const Operand& operand : operands) views.push_back(operand.view());
  return views;
}

/// The sectors of 32 bytes that have a part of an element.
inline std::int64_t num_sectors(const TensorView& view) {
  constexpr std::uintptr_t kSectorBytes = 32;
  const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
  const std::uintptr_t size = size_of(view.dtype);
  std::set<std::uintptr_t> sectors;
  for (std::int64_t i = 0; i < view.size(); ++i) {
    std::int64_t rest = i, at = 0;
    for (int axis = view.shape.rank() - 1; axis >= 0; --axis) {
      at += rest % view.shape[axis] * view.strides[static_cast<std::size_t>(axis)];
      rest /= view.shape[axis];
    }
    const std::uintptr_t address = begin + static_cast<std::uintptr_t>(at) * size;
    sectors.insert(address / kSectorBytes);
    sectors.insert((address + size - 1) / kSectorBytes);
  }
  return static_cast<std::int64_t>(sectors.size());
}

/// Runs what `enqueue` puts on streams of one GPU, counts it, and holds it to the operation's limits.
/// @param operands  each is read or written once.
inline void check_work(const std::string& operation, const std::vector<TensorView>& operands,
                       const std::function<void()>& enqueue) {
  double sectors = 0, accesses = 0;
  for (const TensorView& operand : operands) {
    sectors += static_cast<double>(num_sectors(operand));
    accesses += static_cast<double>(operand.nbytes()) / 512;
  }
  const bench::Counting counting;
  counting.begin();
  enqueue();
  counting.end();
  for (const Device& device : TestBackend::devices(TestBackend::num_devices()))
    current_stream(device).synchronize();
  const bench::Work work = counting.work();
  const double sector_ratio = static_cast<double>(work.sectors) / sectors;
  const double access_ratio = static_cast<double>(work.accesses) / accesses;
  INFO("operation: " << operation);
  INFO("traffic: " << sector_ratio << ", " << access_ratio << ", " << work.launches);
  const auto* const limits = std::ranges::find(kLimits, operation, &Limits::operation);
  if (limits == std::end(kLimits)) {
    FAIL_CHECK("traffic_limits.hpp has no limits for it");
    return;
  }
  CHECK(sector_ratio >= 1);
  CHECK(sector_ratio <= limits->sectors);
  CHECK(access_ratio <= limits->accesses);
  CHECK(work.launches <= limits->launches);
  CHECK(work.waits == 0);
}

}  // namespace lockstep::test
