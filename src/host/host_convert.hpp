#pragma once

#include <cstdint>

#include <lockstep/dtype.hpp>

namespace lockstep::host {

/// Conversions go through the four accumulator types, which hold every element exactly. This needs one loop
/// to them for each dtype and four loops from them, instead of a loop for every pair of dtypes. Strides are
/// in elements.

/// out[i] := in[i · stride], exactly. @pre dtype_of<A> is accumulator_dtype(dtype).
template <class A>
void widen(const void* in, DType dtype, std::int64_t stride, A* out, std::int64_t n);

/// out[i · stride] := in[i], by saturate_cast.
template <class A>
void narrow(const A* in, void* out, DType dtype, std::int64_t stride, std::int64_t n);

}  // namespace lockstep::host
