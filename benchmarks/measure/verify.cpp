#include "measure/verify.hpp"

#include <algorithm>
#include <concepts>

#include "detail/splitmix64.hpp"

namespace lockstep::bench {
namespace {

using detail::splitmix64;

// The pieces of element i's contributions. Ranks 2k and 2k+1 contribute amounts that cancel, so that totals
// stay small for any number of ranks. One rank adds an extra (all ranks do for mean, whose sum must be a
// multiple of their number).
class ElementPattern {
 public:
  ElementPattern(const Pattern& pattern, std::int64_t i)
      : op_(pattern.op),
        num_ranks_(pattern.num_ranks),
        hash_(splitmix64(pattern.seed * 0x10001 + static_cast<std::uint64_t>(i))),
        chosen_rank_(static_cast<int>((hash_ >> 8) % static_cast<std::uint64_t>(num_ranks_))) {}

  // Exact in double: the magnitude is at most 7, with 3 significant bits.
  double floating(int rank) const {
    const bool is_chosen = rank == chosen_rank_;
    if (op_ == ReduceOp::product) {
      const double factor = is_chosen && (hash_ & 1) != 0 ? 3 : 1;
      const double sign = (pair_hash(rank) & 16) != 0 && is_odd(rank) ? -1 : 1;
      return sign * factor * kPowers[amount(rank) % 2 + 1];
    }
    const int extra = op_ == ReduceOp::mean || is_chosen ? 1 + static_cast<int>(hash_ % 4) : 0;
    return amount(rank) + extra;
  }

  // Modulo 2^64.
  std::uint64_t integer(int rank) const {
    if (op_ == ReduceOp::product)
      return splitmix64(pair_hash(rank) + (is_odd(rank) ? 1u : 0u)) % 7 + (rank == chosen_rank_ ? 1 : 0);
    return splitmix64(hash_ + static_cast<std::uint64_t>(rank));
  }

 private:
  static constexpr double kPowers[] = {0.5, 1, 2};

  static bool is_odd(int rank) { return rank % 2 != 0; }
  std::uint64_t pair_hash(int rank) const { return splitmix64(hash_ + static_cast<std::uint64_t>(rank / 2)); }
  // In [-3, 3]; opposite in the two ranks of a pair, 0 without a partner.
  int amount(int rank) const {
    if (rank == num_ranks_ - 1 && !is_odd(rank)) return 0;
    const int positive = static_cast<int>(pair_hash(rank) % 7) - 3;
    return is_odd(rank) ? -positive : positive;
  }

  ReduceOp op_;
  int num_ranks_;
  std::uint64_t hash_;
  int chosen_rank_;
};

template <class T>
T contribution(const ElementPattern& element, int rank) {
  if constexpr (std::integral<T>)
    return static_cast<T>(element.integer(rank));
  else
    return T(element.floating(rank));
}

// Integers wrap: they are reduced modulo 2^64, then cut to T. Floats are reduced in double, where every step
// is exact.
template <class T>
T reduction(const Pattern& pattern, std::int64_t i) {
  using Exact = std::conditional_t<std::integral<T>, std::uint64_t, double>;
  const ElementPattern element(pattern, i);
  T extreme = contribution<T>(element, 0);
  auto total = static_cast<Exact>(extreme);
  for (int rank = 1; rank < pattern.num_ranks; ++rank) {
    const T value = contribution<T>(element, rank);
    switch (pattern.op) {
      case ReduceOp::sum:
      case ReduceOp::mean: total += static_cast<Exact>(value); break;
      case ReduceOp::product: total *= static_cast<Exact>(value); break;
      case ReduceOp::min: extreme = std::min(extreme, value); break;
      case ReduceOp::max: extreme = std::max(extreme, value); break;
    }
  }
  if (pattern.op == ReduceOp::min || pattern.op == ReduceOp::max) return extreme;
  if (pattern.op == ReduceOp::mean) total /= static_cast<Exact>(pattern.num_ranks);
  return static_cast<T>(total);
}

// The values are small enough to be exact in every datatype.
template <class T>
T message(const Pattern& pattern, int rank, std::int64_t i) {
  const std::uint64_t hash = splitmix64(splitmix64(pattern.seed * 0x10001 + static_cast<std::uint64_t>(i)) +
                                        static_cast<std::uint64_t>(rank));
  if constexpr (std::integral<T>)
    return static_cast<T>(hash);
  else
    return T(static_cast<double>(hash % 15) - 7);
}

}  // namespace

void fill_contribution(const Pattern& pattern, int rank, void* data, std::int64_t begin, std::int64_t end) {
  dispatch(pattern.dtype, [&]<class T>() {
    for (std::int64_t i = begin; i < end; ++i)
      static_cast<T*>(data)[i - begin] = contribution<T>(ElementPattern(pattern, i), rank);
  });
}

std::int64_t count_wrong(const Pattern& pattern, std::span<const void* const> results, std::int64_t begin,
                         std::int64_t end) {
  return dispatch(pattern.dtype, [&]<class T>() {
    std::int64_t wrong = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const T expected = reduction<T>(pattern, i);
      // This is not "!=", because a NaN must count as wrong.
      for (const void* result : results)
        wrong += static_cast<const T*>(result)[i - begin] == expected ? 0 : 1;
    }
    return wrong;
  });
}

void fill_message(const Pattern& pattern, int rank, void* data, std::int64_t begin, std::int64_t end) {
  dispatch(pattern.dtype, [&]<class T>() {
    for (std::int64_t i = begin; i < end; ++i)
      static_cast<T*>(data)[i - begin] = message<T>(pattern, rank, i);
  });
}

std::int64_t count_wrong_copies(const Pattern& pattern, int rank, std::span<const void* const> results,
                                std::int64_t begin, std::int64_t end) {
  return dispatch(pattern.dtype, [&]<class T>() {
    std::int64_t wrong = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const T expected = message<T>(pattern, rank, i);
      for (const void* result : results)
        wrong += static_cast<const T*>(result)[i - begin] == expected ? 0 : 1;
    }
    return wrong;
  });
}

}  // namespace lockstep::bench
