#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <lockstep/dtype.hpp>
#include <lockstep/error.hpp>
#include <lockstep/tensor_view.hpp>

#include "detail/expects.hpp"
#include "detail/independent_elements.hpp"
#include "host/host_convert.hpp"

namespace lockstep::host {

/// The number of elements converted at a time: they fit the first-level cache.
inline constexpr std::int64_t kTile = 1024;

/// Calls `f.template operator()<C>()` with the type in which arithmetic on `dtype` is done: float for the
/// small floats, else the host type itself.
/// @throws Unsupported  the dtype is boolean.
template <class F>
void dispatch_arithmetic(std::string_view operation, const TensorView& operand, F&& f) {
  dispatch(operand.dtype, [&]<class T>() {
    if constexpr (std::same_as<T, bool>) {
      LOCKSTEP_EXPECTS(false, Unsupported, operation, " on ", operand.device, ": ", operand.shape, " ",
                       operand.dtype, " is not a number. Cast it to a number first.");
    } else if constexpr (std::integral<T>) {
      f.template operator()<T>();
    } else {
      f.template operator()<accumulator_t<T>>();
    }
  });
}

/// The same for floating dtypes only.
/// @throws Unsupported  the dtype is another.
template <class F>
void dispatch_floating(std::string_view operation, const TensorView& operand, F&& f) {
  LOCKSTEP_EXPECTS(is_floating(operand.dtype), Unsupported, operation, " on ", operand.device, ": ",
                   operand.shape, " ", operand.dtype, " is not a floating dtype. Cast it to one first.");
  if (operand.dtype == DType::f64)
    f.template operator()<double>();
  else
    f.template operator()<float>();
}

/// A view of booleans as the numbers 0 and 1.
inline TensorView as_bytes(TensorView view) {
  view.dtype = DType::u8;
  return view;
}

/// Reads a contiguous tensor as Cs: in place if it holds Cs, else converted (small floats to float).
template <class C>
class TileReader {
 public:
  explicit TileReader(const TensorView& view) : data_(view.data), dtype_(view.dtype) {}

  /// Elements [begin, begin + n). @pre if converted, n <= kTile; the result is then valid until the next
  /// call.
  const C* read(std::int64_t begin, std::int64_t n) { return read(begin, n, scratch_); }
  /// The same; a conversion uses the caller's memory.
  const C* read(std::int64_t begin, std::int64_t n, C* scratch) const {
    if constexpr (std::same_as<C, float>) {
      if (converts()) {
        widen(static_cast<const std::byte*>(data_) + begin * static_cast<std::int64_t>(size_of(dtype_)),
              dtype_, 1, scratch, n);
        return scratch;
      }
    }
    return static_cast<const C*>(data_) + begin;
  }
  bool converts() const { return std::same_as<C, float> && dtype_ != DType::f32; }
  /// The address of element `i`, which may lie beyond the last element.
  std::uintptr_t address(std::int64_t i) const {
    return reinterpret_cast<std::uintptr_t>(data_) + static_cast<std::uintptr_t>(i) * size_of(dtype_);
  }

 private:
  const void* data_;
  DType dtype_;
  C scratch_[std::same_as<C, float> ? kTile : 1];
};

/// Writes a contiguous tensor as Cs: in place if it holds Cs, else converted when `commit` is called.
template <class C>
class TileWriter {
 public:
  explicit TileWriter(const TensorView& view) : data_(view.data), dtype_(view.dtype) {}

  /// The address at which to write elements from `begin` on.
  C* at(std::int64_t begin) {
    if constexpr (std::same_as<C, float>) {
      if (converts()) return scratch_;
    }
    return static_cast<C*>(data_) + begin;
  }
  /// Elements [begin, begin + n) have been written. @pre if converted, n <= kTile.
  void commit(std::int64_t begin, std::int64_t n) {
    if constexpr (std::same_as<C, float>) {
      if (!converts()) return;
      narrow(scratch_, static_cast<std::byte*>(data_) + begin * static_cast<std::int64_t>(size_of(dtype_)),
             dtype_, 1, n);
    }
  }
  bool converts() const { return std::same_as<C, float> && dtype_ != DType::f32; }

 private:
  void* data_;
  DType dtype_;
  C scratch_[std::same_as<C, float> ? kTile : 1];
};

/// Calls f(begin, n) for consecutive pieces of [0, size): tiles if the operation converts, else one piece.
template <class F>
void for_each_tile(std::int64_t size, bool converts, F&& f) {
  const std::int64_t step = converts ? kTile : size;
  for (std::int64_t begin = 0; begin < size; begin += step) f(begin, std::min(step, size - begin));
}

}  // namespace lockstep::host
