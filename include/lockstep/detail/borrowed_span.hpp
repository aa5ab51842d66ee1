#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

#pragma GCC visibility push(default)

namespace lockstep::detail {

/// A span of constants. It cannot be made from a temporary container, which it would outlive.
template <class T>
class BorrowedSpan : public std::span<const T> {
  using Base = std::span<const T>;
  template <class R>
  static constexpr bool kOutlives =
      std::is_lvalue_reference_v<R> || std::ranges::enable_borrowed_range<std::remove_cvref_t<R>>;

 public:
  constexpr BorrowedSpan() = default;
  constexpr BorrowedSpan(const T* first, std::size_t size) : Base(first, size) {}
  template <class R>
  requires(!std::same_as<std::remove_cvref_t<R>, BorrowedSpan> && std::constructible_from<Base, R> &&
           kOutlives<R>) constexpr BorrowedSpan(R&& range)
      : Base(range) {}
  /// Deleted: keep the container in a variable.
  template <class R>
  requires(!std::same_as<std::remove_cvref_t<R>, BorrowedSpan> && std::constructible_from<Base, R> &&
           !kOutlives<R>) BorrowedSpan(R&& temporary)
  = delete;
};

}  // namespace lockstep::detail

#pragma GCC visibility pop
