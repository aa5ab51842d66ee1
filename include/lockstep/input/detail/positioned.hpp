#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/input/detail/row_block.hpp>

#pragma GCC visibility push(default)

namespace lockstep::readers {

/// A place in a file, as numbers of the reader's own choice: a byte, a row, a line.
using Position = std::vector<std::uint64_t>;

}  // namespace lockstep::readers

namespace lockstep::detail {

/// A callable that knows its position, as readers.hpp describes.
template <class F>
concept Seekable = requires(const F& there, F& here, const readers::Position& position) {
  { there.position() } -> std::convertible_to<readers::Position>;
  here.seek(position);
};

/// A callable that knows its position, and also gives elements as Iterator::next_rows does.
template <class F>
concept GivesRows = Seekable<F> && requires(F& here) {
  { here.next_rows(std::int64_t{1}) } -> std::same_as<std::optional<RowBlock>>;
};

/// Calls `next` as often as the position says, or until it returns false. An exception counts as an element.
/// @throws InvalidArgument  the position is not one number.
void skip_to(const readers::Position& position, FunctionRef<bool()> next);

/// A callable that gives elements, with a position: its own if it has one, else the number of calls.
template <class F>
class Positioned {
 public:
  template <class G>
  requires(!std::is_same_v<std::remove_cvref_t<G>, Positioned>) explicit Positioned(G&& generate)
      : generate_(std::forward<G>(generate)) {}

  auto operator()() {
    if constexpr (!Seekable<F>) ++num_calls_;
    return generate_();
  }
  std::optional<RowBlock> next_rows(std::int64_t most) {
    if constexpr (GivesRows<F>)
      return generate_.next_rows(most);
    else
      return std::nullopt;
  }
  /// As Iterator's.
  bool owns_memory() const {
    if constexpr (requires { generate_.owns_memory(); })
      return generate_.owns_memory();
    else
      return GivesRows<F>;
  }
  readers::Position position() const {
    if constexpr (Seekable<F>)
      return generate_.position();
    else
      return {num_calls_};
  }
  /// @pre no element was given yet.
  void seek(const readers::Position& position) {
    if constexpr (Seekable<F>)
      generate_.seek(position);
    else
      skip_to(position, [this] { return (*this)().has_value(); });
  }

 private:
  F generate_;
  std::uint64_t num_calls_ = 0;
};

}  // namespace lockstep::detail

#pragma GCC visibility pop
