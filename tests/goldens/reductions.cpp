// Reductions: reduce along axes and across replicas, in every dtype.
#include <lockstep/ops.hpp>

#include "goldens/programs.hpp"

namespace lockstep::test {

GOLDEN("reduce-sum-scalars") {
  Replicas s(2);
  const auto v = s.distribute_values_from_function([](ValueContext) { return f32(1); });
  r("out of scope", [&] { return s.reduce(kSum, v); });
  const auto scope = s.scope();
  r("in scope", [&] { return s.reduce(kSum, v); });
}

GOLDEN("reduce-sum-replica-ids") {
  Replicas s(4);
  r("sum", [&] { return s.reduce(kSum, s.run(replica_id)); });
}

GOLDEN("reduce-axis0-even") {
  Replicas s(3);
  const auto v = s.run([] { return f32s({1, 2}); });
  r("mean axis 0", [&] { return s.reduce(kMean, v, {0}); });
  r("sum axis 0", [&] { return s.reduce(kSum, v, {0}); });
}

GOLDEN("reduce-vector-across") {
  Replicas s(2);
  const auto v = per_replica({f32s({0, 1, 2, 3}), f32s({4, 5, 6, 7})});
  r("sum", [&] { return s.reduce(kSum, v); });
  r("sum axis 0", [&] { return s.reduce(kSum, v, {0}); });
}

GOLDEN("reduce-mean-of-means") {
  Replicas s(2);
  const auto v = per_replica({f32s({0, 1, 2, 3}), f32s({4, 5})});
  const auto means = s.run([](const Tensor& x) { return mean(x); }, v);
  r("mean of the means", [&] { return s.reduce(kMean, means); });
  r("mean axis 0", [&] { return s.reduce(kMean, v, {0}); });
}

GOLDEN("reduce-negative-axis") {
  Replicas s(2);
  const auto v = per_replica({f32s({1, 2, 3, 4}, {2, 2}), f32s({1, 2, 3, 4}, {2, 2})});
  r("sum axis -1", [&] { return s.reduce(kSum, v, {-1}); });
}

GOLDEN("reduce-axis-out-of-range") {
  Replicas s(2);
  const auto v = per_replica({f32s({1, 2}), f32s({3, 4})});
  r("mean axis 1", [&] { return s.reduce(kMean, v, {1}); });
  r("mean axis -2", [&] { return s.reduce(kMean, v, {-2}); });
}

GOLDEN("reduce-scalar-with-axis") {
  Replicas s(2);
  const auto v = per_replica({f32(1), f32(2)});
  r("sum axis 0", [&] { return s.reduce(kSum, v, {0}); });
  r("mean axis 0", [&] { return s.reduce(kMean, v, {0}); });
}

GOLDEN("reduce-int-sum-dtype") {
  Replicas s(2);
  r("sum axis 0", [&] { return s.reduce(kSum, per_replica({i32s({1}), i32s({2})}), {0}); });
}

GOLDEN("reduce-plain-mean") {
  Replicas s(2);
  r("mean", [&] { return s.reduce(kMean, f32(5)); });
}

GOLDEN("reduce-mirrored-mean") {
  Replicas s(2);
  r("mean", [&] { return s.reduce(kMean, mirrored_value({f32(3), f32(3)})); });
}

GOLDEN("reduce-mirrored-sum") {
  Replicas s(2);
  r("sum", [&] { return s.reduce(kSum, mirrored_value({f32(3), f32(3)})); });
}

GOLDEN("reduce-all-empty") {
  Replicas s(2);
  const auto v = per_replica({f32s({}), f32s({})});
  r("sum axis 0", [&] { return s.reduce(kSum, v, {0}); });
  r("mean axis 0", [&] { return s.reduce(kMean, v, {0}); });
}

GOLDEN("reduce-op-names") {
  Replicas s(1);
  for (const char* const name : {"mean", "MEAN", "sum", "SUM"})
    r(name, [&] { return s.reduce(parse_reduce_op(name), f32(1)); });
  r("unknown name", [&] { return s.reduce(parse_reduce_op("product of all"), f32(1)); });
}

GOLDEN("reduce-axis-table") {
  Replicas s(2);
  const auto v = per_replica({f32s({1, 2, 3, 4, 5, 6}, {2, 3}), f32s({7, 8, 9}, {1, 3})});
  for (const auto& [name, op_now] : kOps) {
    const ReduceOp op = op_now;
    r(name, [&] { return s.reduce(op, v); });
    r(name + " axis 0", [&] { return s.reduce(op, v, {0}); });
    r(name + " axis -2", [&] { return s.reduce(op, v, {-2}); });
    r(name + " axes (0, 1)", [&] { return s.reduce(op, v, {0, 1}); });
    r(name + " axes [0, 1], a list", [&] { return s.reduce(op, v, {0, 1}); });
    r(name + " axes ()", [&] { return s.reduce(op, per_replica({f32s({1, 2}), f32s({3, 4})}), {}); });
  }
  r("sum axis 1", [&] { return s.reduce(kSum, v, {1}); });
  r("mean axes (0, -1)", [&] { return s.reduce(kMean, v, {0, -1}); });
  r("sum axes (0, 0)", [&] { return s.reduce(kSum, v, {0, 0}); });
  r("sum axes (0, -2)", [&] { return s.reduce(kSum, v, {0, -2}); });
}

GOLDEN("reduce-axis1-uneven-rows") {
  Replicas s(2);
  const auto v = per_replica({f32s({1, 2, 3, 4}, {2, 2}), f32s({5, 6, 7, 8, 9, 10}, {2, 3})});
  for (const auto& [name, op_now] : kOps) {
    const ReduceOp op = op_now;
    r(name + " axis 1", [&] { return s.reduce(op, v, {1}); });
    r(name + " axis 0", [&] { return s.reduce(op, v, {0}); });
  }
}

GOLDEN("reduce-no-broadcast") {
  Replicas s(2);
  const std::vector<std::tuple<std::string, Tensor, Tensor>> table{
      {" () and [2]", f32(1), f32s({1, 2})},
      {" [1] and [2]", f32s({1}), f32s({1, 2})},
      {" [2] and [1 2]", f32s({1, 2}), f32s({1, 2}, {1, 2})}};
  for (const auto& [shapes, a, b] : table) {
    const auto v = per_replica({a, b});
    for (const auto& [name, op_now] : kOps) {
      const ReduceOp op = op_now;
      r(name + shapes, [&] { return s.reduce(op, v); });
    }
  }
}

GOLDEN("reduce-dtypes") {
  Replicas s(2);
  for_each_dtype([&]<Element T>(const std::string& dtype) {
    const auto v = per_replica({numbers<T>({1, 2}), numbers<T>({4, 5})});
    for (const auto& [name, op_now] : kOps) {
      const ReduceOp op = op_now;
      r(dtype + " " + name, [&] { return s.reduce(op, v); });
      r(dtype + " " + name + " axis 0", [&] { return s.reduce(op, v, {0}); });
    }
  });
}

GOLDEN("reduce-odd-dtypes") {
  Replicas s(2);
  const auto b = per_replica({Tensor::full({2}, true), Tensor::full({2}, true)});
  for (const auto& [name, op_now] : kOps) {
    const ReduceOp op = op_now;
    r("boolean " + name, [&] { return s.reduce(op, b); });
    r("boolean " + name + " axis 0", [&] { return s.reduce(op, b, {0}); });
  }
}

GOLDEN("reduce-overflow") {
  Replicas s(4);
  const auto four = [](const Tensor& t) { return per_replica({t, t, t, t}); };
  const Tensor large = Tensor::scalar(40000.0F).cast(DType::f16);
  r("float16 sum", [&] { return s.reduce(kSum, four(large)); });
  r("float16 mean", [&] { return s.reduce(kMean, four(large)); });
  r("float16 mean axis 0", [&] { return s.reduce(kMean, four(large.reshape({1})), {0}); });
  const auto brain = per_replica({number<bf16>(256), number<bf16>(1), number<bf16>(1), number<bf16>(1)});
  r("bfloat16 sum of 256 1 1 1", [&] { return s.reduce(kSum, brain); });
  r("bfloat16 mean of 256 1 1 1", [&] { return s.reduce(kMean, brain); });
  r("int8 sum", [&] { return s.reduce(kSum, four(number<std::int8_t>(100))); });
  r("int8 mean", [&] { return s.reduce(kMean, four(number<std::int8_t>(100))); });
  r("int32 sum", [&] { return s.reduce(kSum, four(i32(1 << 30))); });
  r("int32 mean", [&] { return s.reduce(kMean, four(i32(1 << 30))); });
}

GOLDEN("reduce-nest") {
  Replicas s(2);
  const auto a = per_replica({f32(1), f32(2)});
  const auto b = per_replica({f32s({1, 2}), f32s({3})});
  const auto dict = [](const char* first, const char* second, const auto& nest) {
    return Json({{"dict", {{first, encode(std::get<0>(nest))}, {second, encode(std::get<1>(nest))}}}});
  };
  const std::tuple tree(a, std::tuple(a, a));
  r("sum", [&] { return dict("a", "b", s.reduce(kSum, tree)); });
  r("mean", [&] { return dict("a", "b", s.reduce(kMean, tree)); });
  r("mean with a mirrored leaf", [&] {
    return dict("a", "m", s.reduce(kMean, std::tuple(a, mirrored_value({f32(5), f32(5)}))));
  });
  r("sum axis 0", [&] { return dict("b", "c", s.reduce(kSum, std::tuple(b, b), {0})); });
  r("mean axis 0", [&] { return dict("b", "c", s.reduce(kMean, std::tuple(b, b), {0})); });
  r("sum axis 0 of a list", [&] { return s.reduce(kSum, std::vector{b, b}, {0}); });
  r("empty tuple", [&] { return s.reduce(kSum, std::tuple<>()); });
}

GOLDEN("reduce-plain-values") {
  Replicas s(2);
  r("sum of host 5.0", [&] { return s.reduce(kSum, 5.0); });
  r("mean of host 5.0", [&] { return s.reduce(kMean, 5.0); });
  r("sum of host 0", [&] { return s.reduce(kSum, 0); });
  r("mean of host 0", [&] { return s.reduce(kMean, 0); });
  r("sum of numpy 0", [&] { return s.reduce(kSum, 0.0F); });
  r("sum of numpy [0 0]", [&] { return s.reduce(kSum, Tensor::zeros({2})); });
  r("sum of numpy 3", [&] { return s.reduce(kSum, 3.0F); });
  r("sum of tensor 0", [&] { return s.reduce(kSum, f32(0)); });
  r("sum of tensor [1 2]", [&] { return s.reduce(kSum, f32s({1, 2})); });
  r("mean of tensor [1 2]", [&] { return s.reduce(kMean, f32s({1, 2})); });
  r("mean of int tensor 5", [&] { return s.reduce(kMean, i32(5)); });
}

GOLDEN("reduce-variables") {
  Replicas s(2);
  const Variable m = variable(s, 3.0, VariableAggregation::sum);
  r("mirrored sum", [&] { return s.reduce(kSum, m); });
  r("mirrored mean", [&] { return s.reduce(kMean, m); });
  const Variable vector = variable(s, f32s({1, 2}));
  r("mirrored vector, sum axis 0", [&] { return s.reduce(kSum, vector, {0}); });
  r("mirrored vector, mean axis 0", [&] { return s.reduce(kMean, vector, {0}); });
  for (const VariableAggregation aggregation : aggregations()) {
    Variable v = variable(s, 0.0, aggregation, VariableSynchronization::on_read);
    s.run([&] { v.assign(id_tensor() * 3.0 + 1.0); });
    r("on_read " + text(aggregation) + ": sum", [&] { return s.reduce(kSum, v); });
    r("on_read " + text(aggregation) + ": mean", [&] { return s.reduce(kMean, v); });
  }
  const Variable outside(f32(5));
  r("variable of no strategy: sum", [&] { return s.reduce(kSum, outside); });
  r("variable of no strategy: mean", [&] { return s.reduce(kMean, outside); });
}

GOLDEN("reduce-contexts") {
  Replicas s(2);
  const auto v = per_replica({f32s({1, 2}), f32s({3, 4})});
  r("in run", [&] { return s.run([&] { return s.reduce(kSum, v); }); });
  r("in merge function", [&] {
    return s.run([] {
      return context().merge_call([](Strategy& st, const auto& x) { return st.reduce(kSum, x); },
                                  id_tensor() + 1.0);
    });
  });
  r("in merge function, axis 0", [&] {
    return s.run([] {
      return context().merge_call([](Strategy& st, const auto& x) { return st.reduce(kMean, x, {0}); },
                                  Tensor::full({replica_id() + 1}, 3.0F));
    });
  });
  r("run in merge function", [&] {
    return s.run([] {
      return context().merge_call(
          [](Strategy& st, const PerReplica<Tensor>& x) {
            return st.run([](const Tensor& y) { return y * 10.0; }, x);
          },
          id_tensor());
    });
  });
  r("scope in run", [&] { s.run([&] { const auto scope = s.scope(); }); });
  const Variable w = variable(s, 1.0);
  r("in update", [&] { return s.extended().update(w, [&](Tensor&) { return s.reduce(kSum, v); }); });
}

GOLDEN("reduce-one-device-and-default") {
  const auto table = [&](const std::string& name, Strategy& s) {
    const Tensor t = f32s({1, 2});
    r(name + ": sum", [&] { return s.reduce(kSum, t); });
    r(name + ": mean", [&] { return s.reduce(kMean, t); });
    r(name + ": sum axis 0", [&] { return s.reduce(kSum, t, {0}); });
    r(name + ": mean axis 0", [&] { return s.reduce(kMean, t, {0}); });
    r(name + ": int mean", [&] { return s.reduce(kMean, i32(5)); });
    r(name + ": int mean axis 0", [&] { return s.reduce(kMean, i32s({1, 2}), {0}); });
    r(name + ": dict", [&] { return s.reduce(kSum, std::map<std::string, Tensor>{{"a", t}}); });
    r(name + ": boolean", [&] { return s.reduce(kSum, Tensor::scalar(true)); });
    r(name + ": gather", [&] { return s.gather(t, 0); });
  };
  OneDevice one;
  table("OneDevice", one);
  table("default", get_strategy());
}

GOLDEN("reduce-mirrored-one-replica") {
  Replicas s(1);
  r("tensor sum", [&] { return s.reduce(kSum, f32(3)); });
  r("mirrored value sum", [&] { return s.reduce(kSum, mirrored_value({f32(3)})); });
  r("mirrored value mean", [&] { return s.reduce(kMean, mirrored_value({f32(3)})); });
  const Variable w = variable(s, 3.0);
  r("variable sum", [&] { return s.reduce(kSum, w); });
  r("variable mean", [&] { return s.reduce(kMean, w); });
  const Variable v = variable(s, 3.0, VariableAggregation::sum, VariableSynchronization::on_read);
  r("on_read sum", [&] { return s.reduce(kSum, v); });
  r("int mean", [&] { return s.reduce(kMean, i32(3)); });
  r("int mean of run's result", [&] { return s.reduce(kMean, s.run([] { return i32(3); })); });
  r("int per-replica mean", [&] { return s.reduce(kMean, per_replica({i32(3)})); });
  r("mean axis 0", [&] { return s.reduce(kMean, f32s({1, 2, 6}), {0}); });
}

GOLDEN("reduce-in-function") {
  Replicas s(2);
  const auto v = per_replica({f32s({1, 2}), f32s({4})});
  const auto u = per_replica({i32(1), i32(2)});
  r("sum axis 0, mean axis 0, int sum, int mean", [&] {
    return std::tuple(s.reduce(kSum, v, {0}), s.reduce(kMean, v, {0}), s.reduce(kSum, u), s.reduce(kMean, u));
  });
}

}  // namespace lockstep::test
