#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "host/host_kernels.hpp"
#include "host/host_tiles.hpp"

namespace lockstep::host {
namespace {

// Each operator: the type in which a block is accumulated, the identity, and the combination. Integers wrap:
// accumulated unsigned.

template <class C>
using wide_t = std::conditional_t<std::integral<C>, std::uint64_t, C>;

struct Sum {
  // A block's sum of 8- or 16-bit integers fits 32 bits.
  template <class C>
  using block_t = std::conditional_t<(std::integral<C> && sizeof(C) <= 2), std::int32_t, wide_t<C>>;
  template <class A>
  static constexpr A identity() {
    return A(0);
  }
  template <class A>
  static A combine(A a, A b) {
    return a + b;
  }
};

struct Product {
  template <class C>
  using block_t = wide_t<C>;
  template <class A>
  static constexpr A identity() {
    return A(1);
  }
  template <class A>
  static A combine(A a, A b) {
    return a * b;
  }
};

// NaN wins wherever it stands, and stays.
struct Min {
  template <class C>
  using block_t = C;
  template <class A>
  static constexpr A identity() {
    return std::numeric_limits<A>::max();
  }
  template <class A>
  static A combine(A a, A b) {
    return b < a || b != b ? b : a;
  }
};

struct Max {
  template <class C>
  using block_t = C;
  template <class A>
  static constexpr A identity() {
    return std::numeric_limits<A>::lowest();
  }
  template <class A>
  static A combine(A a, A b) {
    return b > a || b != b ? b : a;
  }
};

/// Rows that one block adds up; its sums are then added pairwise. Short enough for Sum::block_t, and for
/// accuracy.
constexpr std::int64_t kBlockRows = 256;
/// Accumulators in all: they stay in the first or second level of cache.
constexpr std::int64_t kAccumulators = 8192;
/// Narrow rows are taken several at a time, so that about this many are added at once.
constexpr std::int64_t kLanes = 64;
/// Slabs no larger than this are added one element after the other.
constexpr std::int64_t kTinySlab = 32;

/// Writes results, still in their accumulator type, to the output.
template <class A>
class Results {
 public:
  Results(const TensorView& out, double divisor) : out_(out), divisor_(divisor) {}

  void write(std::int64_t begin, const A* values, std::int64_t n) {
    auto* const to =
        static_cast<std::byte*>(out_.data) + begin * static_cast<std::int64_t>(size_of(out_.dtype));
    if (divisor_ == 1) return narrow(values, to, out_.dtype, 1, n);
    using Q = std::conditional_t<std::integral<A>, double, A>;
    const Q divisor = static_cast<Q>(divisor_);
    Q quotients[kTile];
    for (std::int64_t done = 0; done < n; done += kTile) {
      const std::int64_t count = std::min(kTile, n - done);
      for (std::int64_t i = 0; i < count; ++i) quotients[i] = static_cast<Q>(values[done + i]) / divisor;
      narrow(quotients, to + done * static_cast<std::int64_t>(size_of(out_.dtype)), out_.dtype, 1, count);
    }
  }

 private:
  const TensorView& out_;
  double divisor_;
};

/// One reduction: `Op` over elements that are read as Cs.
template <class Op, class C>
class Reduction {
  using B = typename Op::template block_t<C>;
  // Blocks are combined, and results kept, in the accumulator type; unsigned where that is signed, so as to
  // wrap.
  using A = accumulator_t<C>;

 public:
  Reduction(const TensorView& out, const TensorView& in, const backend::AxisExtents& extents, double divisor)
      : reader_(in), results_(out, divisor), extents_(extents) {}

  void run() {
    const std::int64_t slab = extents_.axis * extents_.inner;
    if (slab == 0)
      write_identity();
    else if (slab <= kTinySlab)
      reduce_tiny_slabs(slab);
    else
      for (std::int64_t outer = 0; outer < extents_.outer; ++outer) reduce_slab(outer);
  }

 private:
  static A combine(A a, A b) {
    if constexpr (std::signed_integral<A>) {
      // Min and max need the sign; sums and products must wrap.
      if constexpr (std::same_as<B, C>)
        return Op::combine(a, b);
      else
        return static_cast<A>(Op::combine(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
    } else {
      return Op::combine(a, b);
    }
  }

  void write_identity() {
    A identity[kTile];
    std::fill_n(identity, kTile, Op::template identity<A>());
    for_each_tile(extents_.outer * extents_.inner, true,
                  [&](std::int64_t begin, std::int64_t n) { results_.write(begin, identity, n); });
  }

  void reduce_tiny_slabs(std::int64_t slab) {
    const std::int64_t group = kTile / slab;
    A values[kTile];
    for (std::int64_t outer = 0; outer < extents_.outer; outer += group) {
      const std::int64_t count = std::min(group, extents_.outer - outer);
      const C* const x = reader_.read(outer * slab, count * slab);
      std::int64_t written = 0;
      for (std::int64_t o = 0; o < count; ++o) {
        for (std::int64_t j = 0; j < extents_.inner; ++j) {
          const C* const column = x + o * slab + j;
          B value = static_cast<B>(*column);
          for (std::int64_t i = 1; i < extents_.axis; ++i) {
            value = Op::combine(value, static_cast<B>(column[i * extents_.inner]));
          }
          values[written++] = static_cast<A>(value);
        }
      }
      results_.write(outer * extents_.inner, values, written);
    }
  }

  void reduce_slab(std::int64_t outer) {
    // Take 2^k rows as one, to have enough independent accumulators; combined at the end.
    std::int64_t joined = 1;
    while (joined * extents_.inner < kLanes && joined * 8 <= extents_.axis) joined *= 2;
    const std::int64_t width = extents_.inner * joined;
    const std::int64_t rows = extents_.axis / joined;
    const std::int64_t start = outer * extents_.axis * extents_.inner;

    const std::int64_t num_blocks = (rows + kBlockRows - 1) / kBlockRows;
    const int levels = std::bit_width(static_cast<std::uint64_t>(num_blocks));
    const std::int64_t tile = std::min(width, kAccumulators / levels);
    for (std::int64_t column = 0; column < width; column += tile) {
      const std::int64_t n = std::min(tile, width - column);
      reduce_columns(start + column, rows, width, n);
      if (joined > 1) join(start, rows * joined, joined);
      results_.write(outer * extents_.inner + column, sums_, joined > 1 ? extents_.inner : n);
    }
  }

  /// Leaves the n columns' results in sums_. Blocks of rows are combined pairwise, as a binary counter
  /// carries.
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
    for (std::int64_t i = 0; i < n; ++i) into[i] = combine(into[i], from[i]);
  }

  void reduce_block(std::int64_t start, std::int64_t rows, std::int64_t stride, std::int64_t n, A* sums) {
    if constexpr (std::same_as<A, B>) {
      add_rows(start, rows, stride, n, sums);
    } else {
      // One tile after the other, so that the block's own accumulators stay in the first-level cache.
      B block[kTile];
      for (std::int64_t done = 0; done < n; done += kTile) {
        const std::int64_t count = std::min(kTile, n - done);
        add_rows(start + done, rows, stride, count, block);
        for (std::int64_t i = 0; i < count; ++i) sums[done + i] = static_cast<A>(block[i]);
      }
    }
  }

  void add_rows(std::int64_t start, std::int64_t rows, std::int64_t stride, std::int64_t n, B* sums) {
    if (reader_.converts() && n > kTile / 4) {
      for (std::int64_t done = 0; done < n; done += kTile / 4) {
        add_rows(start + done, rows, stride, std::min(kTile / 4, n - done), sums + done);
      }
      return;
    }
    const auto read = [&](std::int64_t row, int slot) {
      return reader_.read(start + row * stride, n, rows_[slot]);
    };
    std::int64_t row = 0;
    if (rows >= 4) {
      const C *a = read(0, 0), *b = read(1, 1), *c = read(2, 2), *d = read(3, 3);
      for (std::int64_t i = 0; i < n; ++i) sums[i] = combine_four(a[i], b[i], c[i], d[i]);
      for (row = 4; row + 4 <= rows; row += 4) {
        a = read(row, 0), b = read(row + 1, 1), c = read(row + 2, 2), d = read(row + 3, 3);
        for (std::int64_t i = 0; i < n; ++i)
          sums[i] = Op::combine(sums[i], combine_four(a[i], b[i], c[i], d[i]));
      }
    } else {
      const C* const a = read(0, 0);
      for (std::int64_t i = 0; i < n; ++i) sums[i] = static_cast<B>(a[i]);
      row = 1;
    }
    for (; row < rows; ++row) {
      const C* const a = read(row, 0);
      for (std::int64_t i = 0; i < n; ++i) sums[i] = Op::combine(sums[i], static_cast<B>(a[i]));
    }
  }

  static B combine_four(C a, C b, C c, C d) {
    return Op::combine(Op::combine(static_cast<B>(a), static_cast<B>(b)),
                       Op::combine(static_cast<B>(c), static_cast<B>(d)));
  }

  /// Combines the joined rows' columns, and the rows from `row` on that were too few to join.
  void join(std::int64_t start, std::int64_t row, std::int64_t joined) {
    for (std::int64_t half = joined / 2; half > 0; half /= 2) {
      combine_into(sums_, sums_ + half * extents_.inner, half * extents_.inner);
    }
    for (; row < extents_.axis; ++row) {
      const C* const x = reader_.read(start + row * extents_.inner, extents_.inner);
      for (std::int64_t i = 0; i < extents_.inner; ++i) sums_[i] = combine(sums_[i], static_cast<A>(x[i]));
    }
  }

  TileReader<C> reader_;
  Results<A> results_;
  const backend::AxisExtents extents_;
  A sums_[kAccumulators];
  C rows_[4][std::same_as<C, float> ? kTile / 4 : 1];  // converted
};

template <class Op>
void reduce(ReduceOp op, const TensorView& out, const TensorView& in, const backend::AxisExtents& extents,
            double divisor) {
  dispatch_arithmetic(name(op), in, [&]<class C>() { Reduction<Op, C>(out, in, extents, divisor).run(); });
}

}  // namespace

void HostKernels::reduce_axis(ReduceOp op, const TensorView& out, const TensorView& in,
                              const backend::AxisExtents& extents, double divisor, backend::StreamHandle) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
      return reduce<Sum>(op, out, in, extents, divisor);
    case ReduceOp::product:
      return reduce<Product>(op, out, in, extents, divisor);
    case ReduceOp::min:
      return reduce<Min>(op, out, in, extents, divisor);
    case ReduceOp::max:
      return reduce<Max>(op, out, in, extents, divisor);
  }
}

}  // namespace lockstep::host
