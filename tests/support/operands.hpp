#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/expected.hpp"
#include "support/guarded_buffer.hpp"
#include "support/test_backend.hpp"

/// Operands of kernels.
namespace lockstep::test {

/// Where elements of T may start: 4 bytes after a 256-byte boundary, or at the first multiple of their size.
template <class T>
inline constexpr std::size_t kOddOffset = sizeof(T) > 4 ? sizeof(T) : 4;

inline StreamRef test_stream() { return default_stream(TestBackend::open()); }
inline backend::KernelBackend& test_kernels() { return TestBackend::open().kernels(); }

/// The first n elements of f(i), as T.
template <Element T, class F>
std::vector<HostElement<T>> elements(std::int64_t n, F&& f) {
  std::vector<HostElement<T>> values;
  values.reserve(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<T>(f(i)));
  return values;
}

/// The first n elements of `pattern`.
template <Element T>
std::vector<HostElement<T>> pattern_elements(std::int64_t n) {
  return elements<T>(n, [](std::int64_t i) { return pattern<T>(i); });
}

/// An operand under test.
template <Element T>
GuardedBuffer<T> operand(const std::vector<HostElement<T>>& values,
                         std::size_t offset_bytes = kOddOffset<T>) {
  return GuardedBuffer<T>(test_stream(), values, offset_bytes);
}

/// A result under test, with something in it.
template <Element T>
GuardedBuffer<T> result(std::int64_t n) {
  return operand<T>(elements<T>(n, [](std::int64_t) { return 1; }));
}

/// Equal, or both NaN.
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](T x, T y) { return x == y || (x != x && y != y); });
}

}  // namespace lockstep::test
