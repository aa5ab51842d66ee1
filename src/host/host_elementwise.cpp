#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "arithmetic/operators.hpp"
#include "arithmetic/wide_quotient.hpp"
#include "detail/float_environment.hpp"
#include "host/host_kernels.hpp"
#include "host/host_tiles.hpp"

namespace lockstep::host {
namespace {

using backend::BinaryOp;
using backend::UnaryOp;

struct Equal {
  template <class C>
  static bool apply(C a, C b) {
    return a == b;
  }
};

template <class Op, class C, class R>
void apply_binary(const C* a, bool a_is_one, const C* b, bool b_is_one, R* out, std::int64_t n) {
  if (a_is_one) {
    const C left = *a;
    LOCKSTEP_INDEPENDENT_ELEMENTS
    for (std::int64_t i = 0; i < n; ++i) out[i] = Op::apply(left, b[i]);
  } else if (b_is_one) {
    const C right = *b;
    LOCKSTEP_INDEPENDENT_ELEMENTS
    for (std::int64_t i = 0; i < n; ++i) out[i] = Op::apply(a[i], right);
  } else {
    LOCKSTEP_INDEPENDENT_ELEMENTS
    for (std::int64_t i = 0; i < n; ++i) out[i] = Op::apply(a[i], b[i]);
  }
}

template <class Op, class C, class R = C>
void binary_of(const TensorView& out, const TensorView& a, const TensorView& b) {
  const bool a_is_one = a.size() == 1;
  const bool b_is_one = b.size() == 1;
  TileReader<C> a_reader(a);
  TileReader<C> b_reader(b);
  // Read first: a single element may lie in `out`, which the loop below overwrites.
  const C a_one = *a_reader.read(0, 1);
  const C b_one = *b_reader.read(0, 1);
  TileWriter<R> writer(out);
  for_each_tile(out.size(), a_reader.converts(), [&](std::int64_t begin, std::int64_t n) {
    const C* const left = a_is_one ? &a_one : a_reader.read(begin, n);
    const C* const right = b_is_one ? &b_one : b_reader.read(begin, n);
    apply_binary<Op>(left, a_is_one, right, b_is_one, writer.at(begin), n);
    writer.commit(begin, n);
  });
}

template <class C, class F>
void map(const TensorView& out, const TensorView& in, F f) {
  TileReader<C> reader(in);
  TileWriter<C> writer(out);
  for_each_tile(out.size(), reader.converts(), [&](std::int64_t begin, std::int64_t n) {
    const C* const from = reader.read(begin, n);
    C* const to = writer.at(begin);
    LOCKSTEP_INDEPENDENT_ELEMENTS
    for (std::int64_t i = 0; i < n; ++i) to[i] = f(from[i]);
    writer.commit(begin, n);
  });
}

}  // namespace

void HostKernels::binary(BinaryOp op, const TensorView& out, const TensorView& a, const TensorView& b,
                         backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  if (op == BinaryOp::equal && is_boolean(a.dtype))
    return binary_of<Equal, std::uint8_t, bool>(out, as_bytes(a), as_bytes(b));
  dispatch_arithmetic(name(op), a, [&]<class C>() {
    switch (op) {
      case BinaryOp::add: return binary_of<arithmetic::Sum, C>(out, a, b);
      case BinaryOp::subtract: return binary_of<arithmetic::Difference, C>(out, a, b);
      case BinaryOp::multiply: return binary_of<arithmetic::Product, C>(out, a, b);
      case BinaryOp::divide: return binary_of<arithmetic::Quotient, C>(out, a, b);
      case BinaryOp::equal: return binary_of<Equal, C, bool>(out, a, b);
      case BinaryOp::relu_gradient: return binary_of<arithmetic::ReluGradient, C>(out, a, b);
    }
  });
}

void HostKernels::unary(UnaryOp op, const TensorView& out, const TensorView& in, backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  switch (op) {
    case UnaryOp::exp:
      return dispatch_floating(name(op), in,
                               [&]<class C>() { map<C>(out, in, [](C x) { return std::exp(x); }); });
    case UnaryOp::log:
      return dispatch_floating(name(op), in,
                               [&]<class C>() { map<C>(out, in, [](C x) { return std::log(x); }); });
    case UnaryOp::sqrt:
      return dispatch_floating(name(op), in,
                               [&]<class C>() { map<C>(out, in, [](C x) { return std::sqrt(x); }); });
    case UnaryOp::negate:
      return dispatch_arithmetic(
          name(op), in, [&]<class C>() { map<C>(out, in, [](C x) { return arithmetic::negated(x); }); });
    case UnaryOp::relu:
      return dispatch_arithmetic(
          name(op), in, [&]<class C>() { map<C>(out, in, [](C x) { return arithmetic::relu(x); }); });
  }
}

void HostKernels::divide(const TensorView& out, const TensorView& in, double divisor, backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  dispatch_arithmetic("divide", in,
                      [&]<class C>() { map<C>(out, in, [=](C x) { return arithmetic::over(x, divisor); }); });
}

void HostKernels::divide_wide_sum(const TensorView& out, const TensorView& wrapped, const TensorView& rough,
                                  double divisor, backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  const auto divide_all = [&]<class C>() {
    TileReader<C> wrapped_reader(wrapped);
    TileReader<double> rough_reader(rough);
    TileWriter<double> writer(out);
    for_each_tile(out.size(), false, [&](std::int64_t begin, std::int64_t n) {
      const C* const sums = wrapped_reader.read(begin, n);
      const double* const rough_sums = rough_reader.read(begin, n);
      double* const to = writer.at(begin);
      for (std::int64_t i = 0; i < n; ++i) to[i] = arithmetic::wide_quotient(sums[i], rough_sums[i], divisor);
      writer.commit(begin, n);
    });
  };
  if (wrapped.dtype == DType::i64)
    divide_all.template operator()<std::int64_t>();
  else
    divide_all.template operator()<std::uint64_t>();
}

void HostKernels::add_row(const TensorView& out, const TensorView& a, const TensorView& b,
                          backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  const std::int64_t columns = b.size();
  dispatch_arithmetic("add_row", a, [&]<class C>() {
    TileReader<C> a_reader(a);
    TileReader<C> b_reader(b);
    TileWriter<C> writer(out);
    // The loop goes by columns of tiles, so that a converted piece of the row serves all rows.
    for_each_tile(columns, a_reader.converts(), [&](std::int64_t column, std::int64_t n) {
      const C* const row = b_reader.read(column, n);
      for (std::int64_t begin = column; begin < out.size(); begin += columns) {
        apply_binary<arithmetic::Sum>(a_reader.read(begin, n), false, row, false, writer.at(begin), n);
        writer.commit(begin, n);
      }
    });
  });
}

}  // namespace lockstep::host
