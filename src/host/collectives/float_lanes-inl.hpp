// Vectors of floats, compiled for each instruction set: like Highway's own "-inl.h" files, included once for
// each set.
#if defined(LOCKSTEP_FLOAT_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_FLOAT_LANES_INL
#undef LOCKSTEP_FLOAT_LANES_INL
#else
#define LOCKSTEP_FLOAT_LANES_INL
#endif

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include <lockstep/dtype.hpp>

#include "arithmetic/operators.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::host::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
template <class T>
constexpr bool kInLanes = std::same_as<T, f16> || std::same_as<T, bf16>;
#else
template <class T>
constexpr bool kInLanes = false;
#endif

// Applies Op to vectors.
template <class Op, class V>
HWY_INLINE V apply_lanes(V a, V b) {
  if constexpr (std::same_as<Op, arithmetic::Sum>)
    return hn::Add(a, b);
  else if constexpr (std::same_as<Op, arithmetic::Product>)
    return hn::Mul(a, b);
  else if constexpr (std::same_as<Op, arithmetic::Min>)
    return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
  else
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
}

using Floats = hn::ScalableTag<float>;

// Loads one 16-bit float for each lane and converts them as SmallFloat does.
HWY_INLINE hn::Vec<Floats> load_floats(const f16* data) {
  const hn::Rebind<hwy::float16_t, Floats> d;
  return hn::PromoteTo(Floats(), hn::LoadU(d, reinterpret_cast<const hwy::float16_t*>(data)));
}
HWY_INLINE hn::Vec<Floats> load_floats(const bf16* data) {
  const hn::Rebind<std::uint32_t, Floats> wide;
  const hn::Rebind<std::uint16_t, Floats> d;
  const auto bits = hn::PromoteTo(wide, hn::LoadU(d, reinterpret_cast<const std::uint16_t*>(data)));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(bits));
}
// Loads fewer elements than the vector has lanes, and zeros.
template <class T>
HWY_INLINE hn::Vec<Floats> load_some_floats(const T* data, std::size_t n) {
  T some[hn::MaxLanes(Floats())] = {};
  std::memcpy(some, data, n * sizeof(T));
  return load_floats(some);
}
HWY_INLINE void store_floats(hn::Vec<Floats> values, f16* data) {
  const hn::Rebind<hwy::float16_t, Floats> d;
  hn::StoreU(hn::DemoteTo(d, values), d, reinterpret_cast<hwy::float16_t*>(data));
}
using Bits = hn::Rebind<std::uint32_t, Floats>;
// Rounds `values` to bf16; the results are the upper halves of the lanes.
HWY_INLINE hn::Vec<Bits> round_to_bf16(hn::Vec<Floats> values) {
  const Bits d;
  const auto bits = hn::BitCast(d, values);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(d, 1u << 22));
  return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(values)), quiet, rounded);
}
HWY_INLINE void store_floats(hn::Vec<Floats> values, bf16* data) {
  const hn::Rebind<std::uint16_t, Floats> d;
  hn::StoreU(hn::TruncateTo(d, hn::ShiftRight<16>(round_to_bf16(values))), d,
             reinterpret_cast<std::uint16_t*>(data));
}

// Two vectors of floats. For bf16, which are the upper halves of floats, one vector has the even elements and
// the other the odd ones: moving lanes to their order would take longer than all other work.
template <class A>
struct Pair {
  hn::Vec<hn::ScalableTag<A>> a, b;
};
using FloatPair = Pair<float>;
HWY_INLINE FloatPair load_pair(const f16* data) {
  return {load_floats(data), load_floats(data + hn::Lanes(Floats()))};
}
HWY_INLINE void store_pair(FloatPair values, f16* data) {
  store_floats(values.a, data);
  store_floats(values.b, data + hn::Lanes(Floats()));
}
HWY_INLINE FloatPair load_pair(const bf16* data) {
  const Bits d;
  const auto bits = hn::LoadU(d, reinterpret_cast<const std::uint32_t*>(data));
  return {hn::BitCast(Floats(), hn::ShiftLeft<16>(bits)),
          hn::BitCast(Floats(), hn::And(bits, hn::Set(d, 0xffff0000)))};
}
HWY_INLINE void store_pair(FloatPair values, bf16* data) {
  const Bits d;
  const auto even = hn::ShiftRight<16>(round_to_bf16(values.a));
  const auto odd = hn::And(round_to_bf16(values.b), hn::Set(d, 0xffff0000));
  hn::StoreU(hn::Or(even, odd), d, reinterpret_cast<std::uint32_t*>(data));
}
template <std::floating_point A>
HWY_INLINE Pair<A> load_pair(const A* data) {
  const hn::ScalableTag<A> d;
  return {hn::LoadU(d, data), hn::LoadU(d, data + hn::Lanes(d))};
}
template <std::floating_point A>
HWY_INLINE void store_pair(Pair<A> values, A* data) {
  const hn::ScalableTag<A> d;
  hn::StoreU(values.a, d, data);
  hn::StoreU(values.b, d, data + hn::Lanes(d));
}
template <class Op, class A>
HWY_INLINE Pair<A> apply_pairs(Pair<A> x, Pair<A> y) {
  return {apply_lanes<Op>(x.a, y.a), apply_lanes<Op>(x.b, y.b)};
}

}  // namespace
}  // namespace lockstep::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
