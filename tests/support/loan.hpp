#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/dlpack.hpp>
#include <lockstep/tensor.hpp>

#include "dlpack/abi.hpp"
#include "dlpack/element_types.hpp"

namespace lockstep::test {

/// Another library's managed tensor. It counts the calls of its deleter.
template <class Struct>
class Loan {
 public:
  /// A tensor of the memory of `memory`, which the test keeps.
  explicit Loan(const TensorView& memory)
      : shape(memory.shape.begin(), memory.shape.end()),
        strides(memory.strides.begin(), memory.strides.begin() + memory.shape.rank()) {
    managed.manager_ctx = this;
    managed.deleter = [](Struct* self) {
      Loan& loan = *static_cast<Loan*>(self->manager_ctx);
      ++loan.num_ends;
      if (loan.at_end) loan.at_end();
    };
    const bool is_gpu = memory.device.kind() == DeviceKind::gpu;
    const std::int32_t ordinal =
        is_gpu ? current_stream(memory.device).device_backend().ordinal() : std::int32_t{0};
    tensor() = {.data = memory.data,
                .device = {is_gpu ? kDLCUDA : kDLCPU, ordinal},
                .ndim = memory.shape.rank(),
                .dtype = dlpack::to_element_type(memory.dtype),
                .shape = shape.data(),
                .strides = strides.data(),
                .byte_offset = 0};
    if constexpr (std::same_as<Struct, DLManagedTensorVersioned>) managed.version = {1, 0};
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  DLTensor& tensor() { return managed.dl_tensor; }
  std::unique_ptr<Struct, dlpack::Deleter> give() {
    return std::unique_ptr<Struct, dlpack::Deleter>(&managed);
  }

  Struct managed{};
  std::vector<std::int64_t> shape, strides;
  int num_ends = 0;
  std::function<void()> at_end;
};

}  // namespace lockstep::test
