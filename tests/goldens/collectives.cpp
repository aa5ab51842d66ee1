// Collectives in replicas, and reductions of sparse rows.
#include "goldens/programs.hpp"

namespace lockstep::test {

GOLDEN("all-reduce-two-values") {
  Replicas s(2);
  r("sum", [&] { return s.run([] { return context().all_reduce(kSum, std::vector{f32(1), f32(2)}); }); });
}

GOLDEN("all-gather-1d") {
  Replicas s(2);
  r("axis 0", [&] { return s.run([] { return context().all_gather(f32s({1, 2, 3}), 0); }); });
}

GOLDEN("all-reduce-table") {
  Replicas s(2);
  const auto reduced = [&](ReduceOp op, auto make) {
    return s.run([&, op] { return context().all_reduce(op, make()); });
  };
  const auto one_more = [] { return id_tensor() + 1.0; };
  const auto dict = [](const auto& nest) {
    return Json({{"dict", {{"a", encode(std::get<0>(nest))}, {"b", encode(std::get<1>(nest))}}}});
  };
  r("dict, sum", [&] {
    return dict(reduced(kSum, [&] { return std::tuple(id_tensor(), std::tuple(one_more(), f32s({1, 2}))); }));
  });
  r("dict, mean",
    [&] { return dict(reduced(kMean, [&] { return std::tuple(id_tensor(), std::tuple(one_more())); })); });
  r("host 1.0, sum", [&] { return reduced(kSum, [] { return 1.0F; }); });
  r("host 1, sum", [&] { return reduced(kSum, [] { return 1; }); });
  r("host 1, mean", [&] { return reduced(kMean, [] { return 1; }); });
  r("no leaves", [&] { return reduced(kSum, [] { return std::tuple<>(); }); });
  r("name 'SUM'", [&] { return reduced(parse_reduce_op("SUM"), one_more); });
  r("name 'sum'", [&] { return reduced(parse_reduce_op("sum"), one_more); });
  r("name 'MIN'", [&] { return reduced(parse_reduce_op("MIN"), one_more); });
  for_each_dtype([&]<Element T>(const std::string& dtype) {
    if (dtype == "float32" || dtype == "int16" || dtype == "uint16" || dtype == "uint32" || dtype == "uint64")
      return;
    for (const auto& [name, op_now] : kOps) {
      const ReduceOp op = op_now;
      r(dtype + " " + name, [&] { return reduced(op, [] { return number<T>(replica_id() + 1); }); });
    }
  });
  const Variable w = variable(s, 2.0);
  r("mirrored variable 2, sum", [&] { return reduced(kSum, [&] { return w; }); });
  Variable c = variable(s, 0.0, VariableAggregation::sum, VariableSynchronization::on_read);
  s.run([&] { c.assign(one_more()); });
  r("on_read variable {1, 2}, sum", [&] { return reduced(kSum, [&] { return c; }); });
  r("on_read variable {1, 2}, mean", [&] { return reduced(kMean, [&] { return c; }); });
  const Tensor t = f32(3);
  const auto captured = [&] { return t; };
  r("captured tensor 3, sum", [&] { return reduced(kSum, captured); });
  r("captured tensor 3, mean", [&] { return reduced(kMean, captured); });
  r("in a function: captured tensor 3, sum", [&] { return reduced(kSum, captured); });
  r("in a function: host 1.0, sum", [&] { return reduced(kSum, [] { return 1.0F; }); });
  r("in a function: int32 mean", [&] { return reduced(kMean, [] { return i32(replica_id() + 1); }); });
  Replicas single(1);
  r("captured tensor, one replica",
    [&] { return single.run([&] { return context().all_reduce(kSum, t); }); });
  r("default context, tensor", [&] { return context().all_reduce(kSum, f32(3)); });
  r("default context, host 3", [&] { return context().all_reduce(kSum, 3); });
  r("default context, int mean", [&] { return context().all_reduce(kMean, i32(3)); });
}

GOLDEN("all-reduce-odd-dtypes") {
  Replicas s(2);
  for (const auto& [name, op_now] : kOps) {
    const ReduceOp op = op_now;
    r("boolean " + name,
      [&] { return s.run([&] { return context().all_reduce(op, Tensor::scalar(true)); }); });
  }
}

GOLDEN("all-reduce-shapes-differ") {
  Replicas s(2);
  r("sum",
    [&] { return s.run([] { return context().all_reduce(kSum, Tensor::ones({replica_id() + 1})); }); });
  r("structures differ", [&] {
    return s.run([] {
      return context().all_reduce(kSum,
                                  std::vector<Tensor>(static_cast<std::size_t>(replica_id()) + 1, f32(1)));
    });
  });
  r("replica 1 makes no call",
    [&] { return s.run([] { return replica_id() == 0 ? context().all_reduce(kSum, f32(1)) : f32(0); }); });
}

GOLDEN("sparse-reduce") {
  Replicas s(2);
  const auto v = table_rows();
  const auto scope = s.scope();
  for (const auto& [name, op_now] : kOps) {
    const ReduceOp op = op_now;
    const auto reduced = [&] { return s.extended().reduce_to(op, v, TestBackend::device(0))[0]; };
    r(name + ", sparse", reduced);
    r(name + ", dense", [&] { return reduced().to_dense(); });
  }
}

GOLDEN("all-reduce-sparse") {
  Replicas s(2);
  const auto rows = table_rows();
  for (const auto& [name, op_now] : kOps) {
    const ReduceOp op = op_now;
    const auto reduced = [&] {
      return s.local_results(
          s.run([&](const IndexedSlices& x) { return context().all_reduce(op, x); }, rows));
    };
    r(name + ", sparse", reduced);
    r(name + ", dense", [&] {
      std::vector<Tensor> dense;
      for (const IndexedSlices& slices : reduced()) dense.push_back(slices.to_dense());
      return dense;
    });
  }
}

GOLDEN("all-gather-table") {
  Replicas s(2);
  const auto gathered = [&](auto make, int axis = 0) {
    return s.run([&, axis] { return context().all_gather(make(), axis); });
  };
  const auto uneven = [] { return Tensor::full({replica_id() + 1, 1}, static_cast<float>(replica_id())); };
  r("uneven, axis 0", [&] { return gathered(uneven); });
  r("dict", [&] {
    const auto [a, b] = gathered([&] { return std::tuple(uneven(), std::vector{f32s({5}, {1, 1})}); });
    return Json({{"dict", {{"a", encode(a)}, {"b", encode(b)}}}});
  });
  r("replica 0 has no rows", [&] { return gathered([] { return Tensor::ones({replica_id(), 2}); }); });
  r("axis -1", [&] {
    return gathered([] { return f32s({1, 2}, {1, 2}) + static_cast<double>(replica_id()); }, -1);
  });
  r("int32", [&] { return gathered([] { return i32s({replica_id()}); }); });
  const Variable w = variable(s, f32s({1, 2}));
  r("mirrored variable", [&] { return gathered([&] { return w; }); });
  r("default context", [&] { return context().all_gather(f32s({1, 2}), 0); });
  const auto rows = table_rows();
  r("sparse rows", [&] { return gathered([&] { return rows[replica_id()]; }); });
}

GOLDEN("all-gather-errors") {
  Replicas s(2);
  const auto gather = [&](auto make, int axis = 0) {
    s.run([&, axis] { static_cast<void>(context().all_gather(make(), axis)); });
  };
  r("scalars", [&] { gather([] { return f32(1); }); });
  r("ranks", [&] { gather([] { return replica_id() == 0 ? Tensor::ones({1}) : Tensor::ones({1, 1}); }); });
  r("sizes", [&] { gather([] { return Tensor::ones({1, replica_id() + 1}); }); });
  r("axis 1", [&] { gather([] { return f32s({1}); }, 1); });
}

}  // namespace lockstep::test
