// StrategyExtended: reduce_to, batch_reduce_to, broadcast_to.
#include "goldens/programs.hpp"

namespace lockstep::test {

namespace {

Json places(const Mirrored<Tensor>& value) {
  std::vector<Device> devices;
  for (const Tensor& component : value) devices.push_back(component.device());
  return encode(devices);
}

}  // namespace

GOLDEN("reduce-to-table") {
  Replicas s(2);
  StrategyExtended& x = s.extended();
  const Device second = TestBackend::device(1);
  const Variable w = variable(s, 0.0);
  const auto v = per_replica({f32(1), f32(3)});
  const auto m = mirrored_value({f32(5), f32(5)});
  const Tensor t = f32(5);
  const auto row = [&](const std::string& name, const ReduceValue& value, const Destination& destination,
                       bool with_devices = false) {
    for (const auto& [op_name, op_now] : kOps) {
      const ReduceOp op = op_now;
      r(op_name + " " + name, [&] { return x.reduce_to(op, value, destination); });
      if (with_devices)
        r(op_name + " " + name + ": devices", [&] { return places(x.reduce_to(op, value, destination)); });
    }
  };
  {
    const auto scope = s.scope();
    row("to variable", v, w);
    row("to CPU:1", v, second, true);
    row("to a tensor on CPU:1", v, t.to(second), true);
    row("to itself", v, v);
    row("to a mirrored value", v, m);
    for (const auto& [op_name, op_now] : kOps) {
      const ReduceOp op = op_now;
      r(op_name + " to a list", [&] {
        return x.reduce_to(op, v, std::vector<Device>{TestBackend::device(0), second});
      });
      r(op_name + " to ''", [&] { return x.reduce_to(op, v, ""); });
    }
    row("mirrored to CPU:1", m, second);
    row("variable to CPU:1", variable(s, 5.0), second);
    row("plain to variable", t, w);
    row("plain to CPU:1", t, second);
    row("numpy 0 to variable", 0.0F, w);
    row("shapes differ", per_replica({f32s({1}), f32s({1, 2})}), w);
    row("dtypes differ", per_replica({f32(1), i32(1)}), w);
    r("by name 'sum'", [&] { return x.reduce_to(parse_reduce_op("sum"), v, w); });
    r("by name 'max'", [&] { return x.reduce_to(parse_reduce_op("max"), v, w); });
    r("int mean", [&] { return x.reduce_to(kMean, per_replica({i32(1), i32(2)}), w); });
  }
  r("default context", [&] { return x.reduce_to(kSum, v, w); });
  Replicas one(1);
  const Variable u = variable(one, 0.0);
  const auto scope = one.scope();
  r("one replica, plain sum to variable", [&] { return one.extended().reduce_to(kSum, t, u); });
  r("one replica, plain sum to CPU:1", [&] { return places(one.extended().reduce_to(kSum, t, second)); });
  r("one replica, plain mean to CPU:1", [&] { return places(one.extended().reduce_to(kMean, t, second)); });
}

GOLDEN("reduce-to-destinations") {
  Replicas s(2);
  StrategyExtended& x = s.extended();
  const Variable w = variable(s, 0.0);
  const auto v = per_replica({f32(0), f32(1)});
  const auto scope = s.scope();
  for (const auto& [name, op_now] : kOps) {
    const ReduceOp op = op_now;
    r(name + " to variable", [&] { return x.reduce_to(op, v, w); });
    r(name + " to CPU:0", [&] { return x.reduce_to(op, v, TestBackend::device(0)); });
    r(name + " to itself", [&] { return x.reduce_to(op, v, v); });
  }
  r("the variable", [&] { return w; });
}

GOLDEN("batch-reduce-mixed-destinations") {
  Replicas s(2);
  const Variable w = variable(s, 0.0);
  const auto a = per_replica({f32(0), f32(1)});
  const auto b = per_replica({f32(1), f32(2)});
  const auto scope = s.scope();
  for (const auto& [name, op_now] : kOps) {
    const ReduceOp op = op_now;
    r(name, [&] { return s.extended().batch_reduce_to(op, {{a, w}, {b, TestBackend::device(0)}}); });
  }
}

GOLDEN("batch-reduce-to-table") {
  Replicas s(2);
  StrategyExtended& x = s.extended();
  const Device first = TestBackend::device(0);
  const auto v = per_replica({f32(1), f32(3)});
  const auto u = per_replica({f32s({1, 2}), f32s({3, 4})});
  const auto z = per_replica({Tensor::from<std::int64_t>({1}, {1}), Tensor::from<std::int64_t>({2}, {1})});
  const auto m = mirrored_value({f32(5), f32(5)});
  const auto scope = s.scope();
  r("no pairs", [&] { return x.batch_reduce_to(kSum, {}); });
  r("shapes mixed, sum", [&] { return x.batch_reduce_to(kSum, {{u, u}, {v, v}}); });
  r("dtypes mixed, sum", [&] { return x.batch_reduce_to(kSum, {{v, v}, {z, z}, {u, u}}); });
  r("int mean", [&] { return x.batch_reduce_to(kMean, {{z, z}}); });
  r("mirrored, sum", [&] { return x.batch_reduce_to(kSum, {{m, m}}); });
  r("mirrored, mean", [&] { return x.batch_reduce_to(kMean, {{m, m}}); });
  r("plain, sum", [&] { return x.batch_reduce_to(kSum, {{f32(5), first}}); });
  r("plain, mean", [&] { return x.batch_reduce_to(kMean, {{f32(5), first}}); });
  r("by name", [&] { return x.batch_reduce_to(parse_reduce_op("mean"), {{v, v}}); });
}

GOLDEN("broadcast-to-table") {
  Replicas s(2);
  StrategyExtended& x = s.extended();
  const Device second = TestBackend::device(1);
  const Variable w = variable(s, 0.0);
  const Tensor t = f32(7);
  {
    const auto scope = s.scope();
    r("to variable", [&] { return x.broadcast_to(t, w); });
    r("to variable: devices", [&] { return places(x.broadcast_to(t, w)); });
    r("to CPU:1", [&] { return x.broadcast_to(t, second); });
    r("to CPU:1: devices", [&] { return places(x.broadcast_to(t, second)); });
    r("to a per-replica value", [&] { return x.broadcast_to(t, per_replica({t, t})); });
    r("host 7.0", [&] { return x.broadcast_to(7.0, w); });
    r("host 7", [&] { return x.broadcast_to(7, w); });
    r("to ''", [&] { return x.broadcast_to(t, ""); });
    r("to a list", [&] { return x.broadcast_to(t, std::vector<Device>{TestBackend::device(0), second}); });
    r("a mirrored value", [&] { return x.broadcast_to(mirrored_value({t, t}), w); });
  }
  OneDevice one;
  r("OneDevice", [&] { return one.extended().broadcast_to(t, second); });
  r("default", [&] { return get_strategy().extended().broadcast_to(t, TestBackend::device(0)); });
}

}  // namespace lockstep::test
