#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <lockstep/backend/kernel_backend.hpp>

#include "arithmetic/operators.hpp"
#include "host/host_tiles.hpp"
#include "host/reduce/nan_watch.hpp"
#include "host/reduce/results.hpp"
#include "host/reduce/rows_ahead.hpp"

namespace lockstep::host {

/// The number of rows that one block adds up; block sums are then added pairwise. It is small enough for
/// block_t and for accuracy.
constexpr std::int64_t kBlockRows = 64;
/// The total number of accumulators: they stay in the first- or second-level cache.
constexpr std::int64_t kAccumulators = 16384;
/// Several narrow rows are taken at a time, so that about this many elements are added at once.
constexpr std::int64_t kLanes = 1024;
/// Contiguous runs shorter than this are reduced in groups; so are slabs of several columns that are at most
/// this small.
constexpr std::int64_t kShortRun = 1024;
constexpr std::int64_t kTinySlab = 32;

/// The type in which a block is accumulated. It wraps, except that the sum of 8- or 16-bit integers fits 32
/// bits.
template <class Op, class C>
using block_t = std::conditional_t<
    Op::kSelects, C,
    std::conditional_t<std::same_as<Op, arithmetic::Sum> && std::integral<C> && sizeof(C) <= 2, std::int32_t,
                       arithmetic::wrapping_t<accumulator_t<C>>>>;

/// Reduces with `Op` over elements that are read as Cs.
template <class Op, class C>
class Reduction {
  using B = block_t<Op, C>;
  using A = accumulator_t<C>;  // the type in which blocks are combined and results are kept
  static constexpr bool kMayBeNan = Op::kSelects && std::floating_point<C>;
  static constexpr std::int64_t kRunLanes = 16;
  static constexpr std::int64_t kRowsAhead = 8;
  static constexpr std::int64_t kChunk = 1024 / sizeof(C);  // number of elements of a row between prefetches

 public:
  Reduction(const TensorView& out, const TensorView& in, const backend::AxisExtents& extents, double divisor)
      : extents_(extents), reader_(in), results_(out, in, extents_, divisor) {}

  void run() {
    const std::int64_t slab = extents_.axis * extents_.inner;
    if (slab == 0) return;  // there are no results
    if (slab <= (extents_.inner == 1 ? kShortRun : kTinySlab)) return reduce_small_slabs(slab);
    for (std::int64_t outer = 0; outer < extents_.outer; ++outer) reduce_slab(outer);
  }

 private:
  /// Reduces as many slabs at a time as fit in a tile.
  void reduce_small_slabs(std::int64_t slab) {
    const std::int64_t group = kTile / slab;
    A values[kTile];
    for (std::int64_t outer = 0; outer < extents_.outer; outer += group) {
      const std::int64_t count = std::min(group, extents_.outer - outer);
      const C* const x = reader_.read(outer * slab, count * slab);
      if (extents_.inner == 1 && slab >= kRunLanes) {
        std::int64_t o = 0;
        if constexpr (std::same_as<C, float> && !Op::kSelects)
          for (; o + 4 <= count; o += 4) reduce_four_runs(x + o * slab, slab, values + o);
        for (; o < count; ++o) values[o] = reduce_run(x + o * slab, slab);
      } else if (extents_.inner > 1 || !std::floating_point<C> ||
                 !reduce_runs(std::make_integer_sequence<std::int64_t, kRunLanes>(), slab, x, count,
                              values)) {
        reduce_tiny_slabs(x, count, values);
      }
      results_.write(outer * extents_.inner, values, count * extents_.inner);
    }
  }

  /// Runs the loop whose compile-time length is `length`: unrolled, for the types of gradients and losses.
  template <std::int64_t... kLength>
  static bool reduce_runs(std::integer_sequence<std::int64_t, kLength...>, std::int64_t length, const C* x,
                          std::int64_t count, A* values) {
    return ((length == kLength && kLength >= 2 ? (reduce_runs_of<kLength>(x, count, values), true) : false) ||
            ...);
  }
  template <std::int64_t kLength>
  static void reduce_runs_of(const C* x, std::int64_t count, A* values) {
    if constexpr (std::floating_point<C>) {
      for (std::int64_t o = 0; o < count; ++o) {
        B value = static_cast<B>(x[o * kLength]);
        for (std::int64_t i = 1; i < kLength; ++i)
          value = Op::apply(value, static_cast<B>(x[o * kLength + i]));
        values[o] = static_cast<A>(value);
      }
    }
  }

  void reduce_tiny_slabs(const C* x, std::int64_t count, A* values) const {
    const auto [outer, axis, inner] = extents_;
    for (std::int64_t o = 0; o < count; ++o, x += axis * inner) {
      for (std::int64_t j = 0; j < inner; ++j) {
        B value = static_cast<B>(x[j]);
        for (std::int64_t i = 1; i < axis; ++i)
          value = PlainCombiner<Op>::apply(value, static_cast<B>(x[i * inner + j]));
        *values++ = static_cast<A>(value);
      }
    }
  }

  /// @pre kRunLanes <= n <= kShortRun
  static A reduce_run(const C* x, std::int64_t n) {
    if constexpr (kMayBeNan) {
      NanWatch<Op, C> watch;
      for (std::int64_t i = 0; i < n; ++i) watch.see(x[i], x[i]);
      if (!watch.seen()) return reduce_run_by<NanWatch<Op, C>>(x, n);
    }
    return reduce_run_by<PlainCombiner<Op>>(x, n);
  }

  template <class Combiner>
  static A reduce_run_by(const C* x, std::int64_t n) {
    B lanes[kRunLanes];
    for (std::int64_t lane = 0; lane < kRunLanes; ++lane) lanes[lane] = static_cast<B>(x[lane]);
    std::int64_t i = kRunLanes;
    for (; i + kRunLanes <= n; i += kRunLanes) {
      for (std::int64_t lane = 0; lane < kRunLanes; ++lane) {
        lanes[lane] = Combiner::apply(lanes[lane], static_cast<B>(x[i + lane]));
      }
    }
    for (std::int64_t half = kRunLanes / 2; half > 0; half /= 2) {
      for (std::int64_t lane = 0; lane < half; ++lane)
        lanes[lane] = Combiner::apply(lanes[lane], lanes[lane + half]);
    }
    for (; i < n; ++i) lanes[0] = Combiner::apply(lanes[0], static_cast<B>(x[i]));
    return static_cast<A>(lanes[0]);
  }

  /// values[r] := reduce_run(x + r * n, n) for four runs; their lanes are combined together.
  static void reduce_four_runs(const C* x, std::int64_t n, A* values) {
    using Four [[gnu::vector_size(4 * sizeof(float))]] = float;  // every machine has vectors of this size
    const auto load = [](const C* from) {
      Four four;
      std::memcpy(&four, from, sizeof(four));
      return four;
    };
    static_assert(kRunLanes == 16);
    const std::int64_t whole = n / kRunLanes * kRunLanes;
    Four lanes[4];
    for (std::int64_t r = 0; r < 4; ++r) {
      const C* const run = x + r * n;
      Four a = load(run), b = load(run + 4), c = load(run + 8), d = load(run + 12);
      for (std::int64_t i = kRunLanes; i < whole; i += kRunLanes) {
        a = Op::apply(a, load(run + i));
        b = Op::apply(b, load(run + i + 4));
        c = Op::apply(c, load(run + i + 8));
        d = Op::apply(d, load(run + i + 12));
      }
      lanes[r] = Op::apply(Op::apply(a, c), Op::apply(b, d));
    }
    const auto halves = [](Four a, Four b) {
      return Op::apply(__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7));
    };
    const Four ab = halves(lanes[0], lanes[1]), cd = halves(lanes[2], lanes[3]);
    const Four all =
        Op::apply(__builtin_shufflevector(ab, cd, 0, 2, 4, 6), __builtin_shufflevector(ab, cd, 1, 3, 5, 7));
    for (std::int64_t r = 0; r < 4; ++r) {
      C value = all[r];
      for (std::int64_t i = whole; i < n; ++i) value = Op::apply(value, x[r * n + i]);
      values[r] = value;
    }
  }

  void reduce_slab(std::int64_t outer) {
    // Take 2^k rows as one row, to have enough independent accumulators; combine their columns at the end.
    // They must fit one tile.
    std::int64_t joined = 1;
    while (joined * extents_.inner < kLanes && joined * 8 <= extents_.axis) joined *= 2;
    while (joined > 1 && joined * extents_.inner > tile_width(extents_.axis / joined)) joined /= 2;
    const std::int64_t width = extents_.inner * joined;
    const std::int64_t rows = extents_.axis / joined;
    const std::int64_t start = outer * extents_.axis * extents_.inner;
    const std::int64_t tile = std::min(width, tile_width(rows));
    for (std::int64_t column = 0; column < width; column += tile) {
      const std::int64_t n = std::min(tile, width - column);
      reduce_columns(start + column, rows, width, n);
      if (joined > 1) join(start, rows * joined, joined);
      results_.write(outer * extents_.inner + column, sums_, joined > 1 ? extents_.inner : n);
    }
  }

  /// The number of columns whose accumulators fit, with one level for each step of adding the blocks of
  /// `rows` rows pairwise.
  static std::int64_t tile_width(std::int64_t rows) {
    const std::int64_t num_blocks = (rows + kBlockRows - 1) / kBlockRows;
    const int levels = std::bit_width(static_cast<std::uint64_t>(num_blocks));
    return kAccumulators / levels / 64 * 64;  // whole cache lines
  }

  /// Leaves the n columns' results in sums_. Blocks of rows are combined pairwise, in the way that a binary
  /// counter carries.
  void reduce_columns(std::int64_t start, std::int64_t rows, std::int64_t stride, std::int64_t n) {
    A* top = sums_;
    std::int64_t done = 0;
    for (std::int64_t row = 0; row < rows; row += kBlockRows) {
      reduce_block(start + row * stride, std::min(kBlockRows, rows - row), stride, n, top);
      ++done;
      for (std::int64_t carry = done; carry % 2 == 0; carry /= 2, top -= n) combine_into(top - n, top, n);
      top += n;
    }
    for (top -= n; top != sums_; top -= n) combine_into(top - n, top, n);
  }

  static void combine_into(A* into, const A* from, std::int64_t n) {
    LOCKSTEP_INDEPENDENT_ELEMENTS
    for (std::int64_t i = 0; i < n; ++i) into[i] = Op::apply(into[i], from[i]);
  }

  void reduce_block(std::int64_t start, std::int64_t rows, std::int64_t stride, std::int64_t n, A* sums) {
    if constexpr (std::same_as<A, B>) {
      add_rows(start, rows, stride, n, sums);
    } else {
      // The loop goes by tiles, so that the block's own accumulators stay in the first-level cache.
      B block[kTile];
      for (std::int64_t done = 0; done < n; done += kTile) {
        const std::int64_t count = std::min(kTile, n - done);
        add_rows(start + done, rows, stride, count, block);
        for (std::int64_t i = 0; i < count; ++i) sums[done + i] = static_cast<A>(block[i]);
      }
    }
  }

  /// sums[i] := the reduction of column i over the rows.
  void add_rows(std::int64_t start, std::int64_t rows, std::int64_t stride, std::int64_t n, B* sums) {
    const std::int64_t step = reader_.converts() ? kTile / 4 : n;
    for (std::int64_t done = 0; done < n; done += step) {
      const std::int64_t count = std::min(step, n - done);
      if constexpr (kMayBeNan) {
        NanWatch<Op, C> watch;
        add_rows(start + done, rows, stride, count, sums + done, watch);
        if (!watch.seen()) continue;
      }
      PlainCombiner<Op> plain;
      add_rows(start + done, rows, stride, count, sums + done, plain);
    }
  }

  template <class Combiner>
  void add_rows(std::int64_t start, std::int64_t rows, std::int64_t stride, std::int64_t n, B* sums,
                Combiner& result) {
    Combiner combiner;  // a local object can live in a register
    const auto read = [&](std::int64_t row, int slot) {
      return reader_.read(start + row * stride, n, rows_[slot]);
    };
    std::int64_t row = 0;
    if (rows < 4) {
      const C* const a = read(0, 0);
      for (std::int64_t i = 0; i < n; ++i) {
        sums[i] = static_cast<B>(a[i]);
        combiner.see(sums[i], sums[i]);
      }
      row = 1;
    }
    RowsAhead ahead(reader_, start + kRowsAhead * stride, n, stride);
    for (; row + 4 <= rows; row += 4) {
      const C *const a = read(row, 0), *const b = read(row + 1, 1), *const c = read(row + 2, 2),
                     *const d = read(row + 3, 3);
      for (std::int64_t begin = 0; begin < n; begin += kChunk) {
        const std::int64_t end = std::min(n, begin + kChunk);
        ahead.prefetch(4 * (end - begin));
        if (row == 0) {
          for (std::int64_t i = begin; i < end; ++i) sums[i] = combine_four(combiner, a[i], b[i], c[i], d[i]);
        } else {
          for (std::int64_t i = begin; i < end; ++i)
            sums[i] = Combiner::apply(sums[i], combine_four(combiner, a[i], b[i], c[i], d[i]));
        }
      }
    }
    for (; row < rows; ++row) {
      const C* const a = read(row, 0);
      for (std::int64_t i = 0; i < n; ++i) {
        const B value = static_cast<B>(a[i]);
        combiner.see(value, value);
        sums[i] = Combiner::apply(sums[i], value);
      }
    }
    result = combiner;
  }

  template <class Combiner>
  static B combine_four(Combiner& combiner, C a, C b, C c, C d) {
    combiner.see(static_cast<B>(a), static_cast<B>(b));
    combiner.see(static_cast<B>(c), static_cast<B>(d));
    return Combiner::apply(Combiner::apply(static_cast<B>(a), static_cast<B>(b)),
                           Combiner::apply(static_cast<B>(c), static_cast<B>(d)));
  }

  /// Combines the columns of the joined rows. The rows from `row` on, which were too few to join, are added
  /// when as many columns are left.
  void join(std::int64_t start, std::int64_t row, std::int64_t joined) {
    const std::int64_t rest = extents_.axis - row;
    for (std::int64_t half = joined / 2; half > 0; half /= 2) {
      const std::int64_t n = half * extents_.inner;
      combine_into(sums_, sums_ + n, n);
      if ((rest & half) == 0) continue;
      const C* const x = reader_.read(start + row * extents_.inner, n);
      for (std::int64_t i = 0; i < n; ++i) sums_[i] = Op::apply(sums_[i], static_cast<A>(x[i]));
      row += half;
    }
  }

  const backend::AxisExtents extents_;
  TileReader<C> reader_;
  Results<C> results_;
  A sums_[kAccumulators];
  C rows_[4][std::same_as<C, float> ? kTile / 4 : 1];  // converted rows
};

/// Reduces by `Op`. A separate file compiles each operator.
template <class Op>
void reduce_by(std::string_view operation, const TensorView& out, const TensorView& in,
               const backend::AxisExtents& extents, double divisor) {
  dispatch_arithmetic(operation, in, [&]<class C>() { Reduction<Op, C>(out, in, extents, divisor).run(); });
}

extern template void reduce_by<arithmetic::Sum>(std::string_view, const TensorView&, const TensorView&,
                                                const backend::AxisExtents&, double);
extern template void reduce_by<arithmetic::Product>(std::string_view, const TensorView&, const TensorView&,
                                                    const backend::AxisExtents&, double);
extern template void reduce_by<arithmetic::Min>(std::string_view, const TensorView&, const TensorView&,
                                                const backend::AxisExtents&, double);
extern template void reduce_by<arithmetic::Max>(std::string_view, const TensorView&, const TensorView&,
                                                const backend::AxisExtents&, double);

}  // namespace lockstep::host
