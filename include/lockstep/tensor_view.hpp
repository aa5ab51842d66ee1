#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include <lockstep/device.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/shape.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Typed, shaped bytes that another object owns. Cheap to copy. A view does not say when the bytes may be
/// accessed.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  std::array<std::int64_t, Shape::kMaxRank> strides{};  ///< In elements; a stride may be 0 or leave gaps.
  Device device;
  bool read_only = false;

  TensorView() = default;
  /// A contiguous view.
  TensorView(void* bytes, const Shape& extents, DType type, Device place = {})
      : data(bytes),
        dtype(type),
        shape(extents),
        strides(extents.contiguous_strides()),
        device(std::move(place)) {}
  /// A contiguous view that must not be written.
  TensorView(const void* bytes, const Shape& extents, DType type, Device place = {})
      : TensorView(const_cast<void*>(bytes), extents, type, std::move(place)) {
    read_only = true;
  }

  [[nodiscard]] std::int64_t size() const noexcept { return shape.size(); }
  [[nodiscard]] std::int64_t nbytes() const noexcept {
    return shape.size() * static_cast<std::int64_t>(size_of(dtype));
  }
  /// Whether the elements are adjacent in row-major order (always true for fewer than two elements).
  [[nodiscard]] bool is_contiguous() const noexcept;
};

}  // namespace lockstep

#pragma GCC visibility pop
