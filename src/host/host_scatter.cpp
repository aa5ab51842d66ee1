#include <algorithm>

#include "arithmetic/operators.hpp"
#include "detail/float_environment.hpp"
#include "host/host_kernels.hpp"
#include "host/host_tiles.hpp"

namespace lockstep::host {
namespace {

using backend::RowGroups;
using backend::ScatterOp;

struct Assign {
  template <class C>
  static C apply(C, C b) {
    return b;
  }
};

template <class Op, class C>
void scatter(const TensorView& out, const TensorView& in, const RowGroups& groups) {
  const auto* const targets = static_cast<const std::int64_t*>(groups.targets.data);
  const auto* const begins = static_cast<const std::int64_t*>(groups.begins.data);
  const auto* const rows = static_cast<const std::int64_t*>(groups.rows.data);
  const std::int64_t columns = out.shape[1];
  TileReader<C> old(out), reader(in);
  TileWriter<C> writer(out);
  C values[kTile];
  for (std::int64_t group = 0; group < groups.targets.size(); ++group) {
    for_each_tile(columns, true, [&](std::int64_t column, std::int64_t n) {
      const std::int64_t target = targets[group] * columns + column;
      std::copy_n(old.read(target, n), n, values);
      for (std::int64_t i = begins[group]; i < begins[group + 1]; ++i) {
        const C* const row = reader.read(rows[i] * columns + column, n);
        for (std::int64_t j = 0; j < n; ++j) values[j] = Op::apply(values[j], row[j]);
      }
      std::copy_n(values, n, writer.at(target));
      writer.commit(target, n);
    });
  }
}

}  // namespace

void HostKernels::scatter_rows(ScatterOp op, const TensorView& out, const TensorView& in,
                               const RowGroups& groups, backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  if (op == ScatterOp::assign && is_boolean(out.dtype))
    return scatter<Assign, std::uint8_t>(as_bytes(out), as_bytes(in), groups);
  dispatch_arithmetic(name(op), out, [&]<class C>() {
    switch (op) {
      case ScatterOp::add: return scatter<arithmetic::Sum, C>(out, in, groups);
      case ScatterOp::subtract: return scatter<arithmetic::Difference, C>(out, in, groups);
      case ScatterOp::multiply: return scatter<arithmetic::Product, C>(out, in, groups);
      case ScatterOp::divide: return scatter<arithmetic::Quotient, C>(out, in, groups);
      case ScatterOp::min: return scatter<arithmetic::Min, C>(out, in, groups);
      case ScatterOp::max: return scatter<arithmetic::Max, C>(out, in, groups);
      case ScatterOp::assign: return scatter<Assign, C>(out, in, groups);
    }
  });
}

}  // namespace lockstep::host
