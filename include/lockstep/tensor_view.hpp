#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include <lockstep/device.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/shape.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Typed, shaped bytes that somebody else owns. Cheap to copy; says nothing about when the bytes may be
/// touched.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  std::array<std::int64_t, Shape::kMaxRank> strides{};  ///< In elements; may be 0 or leave gaps.
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
  /// Whether the elements lie one after the other in row-major order (always, with fewer than two elements).
  [[nodiscard]] bool is_contiguous() const noexcept;
};

}  // namespace lockstep

#pragma GCC visibility pop
