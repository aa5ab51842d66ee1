// Builders of handlers that apply one scalar function to the lanes of a warp.
#pragma once

#include <type_traits>

#include "exec/fp.hpp"
#include "exec/machine.hpp"

namespace vgpu::ptx {

// How a value of type T lies in a lane: small types fill a 32-bit lane, zero-extended.
template <class T>
struct LaneOf {
  using type = std::conditional_t<(sizeof(T) <= 4), u32, u64>;
  static T get(type s) {
    if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bf16>)
      return T{static_cast<u16>(s)};
    else if constexpr (sizeof(T) == sizeof(type))
      return std::bit_cast<T>(s);
    else
      return static_cast<T>(s);
  }
  static type put(T v) {
    if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bf16>)
      return v.bits;
    else if constexpr (sizeof(T) == sizeof(type))
      return std::bit_cast<type>(v);
    else
      return static_cast<std::make_unsigned_t<T>>(v);
  }
};
template <class T>
using Lane = typename LaneOf<T>::type;

alignas(64) constexpr u32 kLaneBit[kLanes] = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,
    1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15,
    1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21, 1u << 22, 1u << 23,
    1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

template <class F>
inline void each_lane(u32 mask, F f) {
  for (u32 m = mask; m; m &= m - 1) f(static_cast<int>(std::countr_zero(m)));
}

// d[l] = f(l) for the lanes of the mask. Cheap functions run on all lanes, so that the compiler vectorises
// them; each lane's result may overwrite that lane's operands.
template <bool kCheap, class L, class F>
inline void store_lanes(L* d, u32 mask, F f) {
  if (mask == kFull) {
#pragma GCC ivdep
    for (u32 l = 0; l < kLanes; ++l) d[l] = f(l);
  } else if constexpr (kCheap) {
    alignas(64) L t[kLanes];
    for (u32 l = 0; l < kLanes; ++l) t[l] = f(l);
    for (u32 l = 0; l < kLanes; ++l) d[l] = mask & kLaneBit[l] ? t[l] : d[l];
  } else {
    each_lane(mask, [&](int l) { d[l] = f(static_cast<u32>(l)); });
  }
}

// Handlers for result op[0] and operands op[1]...: f is a captureless lambda.
template <class D, class A, bool kCheap = true, class F>
Handler unary(F) {
  return [](Warp& w, const Inst& in, u32 mask) {
    const Lane<A>* a = w.in<Lane<A>>(in.op[1]);
    store_lanes<kCheap>(w.reg<Lane<D>>(in.op[0]), mask,
                        [=](u32 l) { return LaneOf<D>::put(F{}(LaneOf<A>::get(a[l]))); });
  };
}
template <class D, class A, class B, bool kCheap = true, class F>
Handler binary(F) {
  return [](Warp& w, const Inst& in, u32 mask) {
    const Lane<A>* a = w.in<Lane<A>>(in.op[1]);
    const Lane<B>* b = w.in<Lane<B>>(in.op[2]);
    store_lanes<kCheap>(w.reg<Lane<D>>(in.op[0]), mask, [=](u32 l) {
      return LaneOf<D>::put(F{}(LaneOf<A>::get(a[l]), LaneOf<B>::get(b[l])));
    });
  };
}
template <class D, class A, class B, class C, bool kCheap = true, class F>
Handler ternary(F) {
  return [](Warp& w, const Inst& in, u32 mask) {
    const Lane<A>* a = w.in<Lane<A>>(in.op[1]);
    const Lane<B>* b = w.in<Lane<B>>(in.op[2]);
    const Lane<C>* c = w.in<Lane<C>>(in.op[3]);
    store_lanes<kCheap>(w.reg<Lane<D>>(in.op[0]), mask, [=](u32 l) {
      return LaneOf<D>::put(F{}(LaneOf<A>::get(a[l]), LaneOf<B>::get(b[l]), LaneOf<C>::get(c[l])));
    });
  };
}
// As above, with f also given the instruction (its imm or sub say more).
template <class D, class A, class B, bool kCheap = true, class F>
Handler binary_with(F) {
  return [](Warp& w, const Inst& in, u32 mask) {
    const Lane<A>* a = w.in<Lane<A>>(in.op[1]);
    const Lane<B>* b = w.in<Lane<B>>(in.op[2]);
    const s64 imm = in.imm;
    store_lanes<kCheap>(w.reg<Lane<D>>(in.op[0]), mask, [=](u32 l) {
      return LaneOf<D>::put(F{}(LaneOf<A>::get(a[l]), LaneOf<B>::get(b[l]), imm));
    });
  };
}

// The lanes for which f(a, b) holds, as a mask.
template <class A, class F>
inline u32 lanes_where(const Lane<A>* a, const Lane<A>* b, F f) {
  u32 r = 0;
  for (u32 l = 0; l < kLanes; ++l) r |= f(LaneOf<A>::get(a[l]), LaneOf<A>::get(b[l])) ? kLaneBit[l] : 0;
  return r;
}

}  // namespace vgpu::ptx
