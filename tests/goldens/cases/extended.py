"""StrategyExtended: properties, reduce_to, broadcast_to, update, non-slot devices, colocation, containers, multi-step."""
import gc

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import distribute_utils

from .framework import *


def places(value):
    """The device numbers of a value's components."""
    if isinstance(value, (Mirrored, PerReplica)):
        return [index(c.device) for c in value.values]
    return [index(value.device)]


# ---- first cases

@case("update-results", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = variable(s, 5.0)
    with s.scope():
        r("grouped", lambda: s.extended.update(v, lambda c: c.assign(1.0)), spec=[1, 1])
        r("ungrouped", lambda: s.extended.update(v, lambda c: c.assign(1.0), group=False), spec=[1, 1])


@case("update-non-slot", "N=3; default", known=True)
def _(r):
    calls = []
    for name, s, expected in (("Mirrored", mirrored(3), 3), ("default", default(), 1)):
        v = variable(s, 1.0)
        calls.clear()
        where = s.extended.non_slot_devices([v])
        s.extended.update_non_slot(where, lambda: calls.append(1))
        r(name, lambda: len(calls), spec=expected)


@case("non-slot-devices", "N=2; default", known=True)
def _(r):
    s = mirrored(2)
    b, a = variable(s, 1.0, name="b"), variable(s, 2.0, name="a")
    r("Mirrored", lambda: [index(d) for d in s.extended.non_slot_devices([b, a])], spec=[0, 1])
    b, a = tf.Variable(1.0, name="b"), tf.Variable(2.0, name="a")
    r("default", lambda: default().extended.non_slot_devices([b, a]) is a, spec=True)
    c = central(2)
    b, a = variable(c, 1.0, name="b"), variable(c, 2.0, name="a")
    r("CentralStorage", lambda: c.extended.non_slot_devices([b, a]) is a, spec=True)
    r("OneDevice", lambda: [index(d) for d in one_device().extended.non_slot_devices([a])], spec=[0])
    r("Mirrored, no variables", lambda: [index(d) for d in s.extended.non_slot_devices([])], spec=[0, 1])
    r("default, no variables", lambda: default().extended.non_slot_devices([]), spec="!InvalidArgument")


@case("variable-created-in-scope", "N=2", known=True)
def _(r):
    s = mirrored(2)
    inside, outside = variable(s, 1.0), tf.Variable(1.0)
    r("Mirrored: made in scope", lambda: s.extended.variable_created_in_scope(inside), spec=True)
    r("Mirrored: made outside", lambda: s.extended.variable_created_in_scope(outside), spec=False)
    r("default: made in scope", lambda: default().extended.variable_created_in_scope(inside), spec=False)
    r("default: made outside", lambda: default().extended.variable_created_in_scope(outside), spec=True)
    r("another strategy's", lambda: mirrored(2).extended.variable_created_in_scope(inside), spec=False)


@case("value-container", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v, t = variable(s, 1.0), f32(1)
    r("component 1", lambda: s.extended.value_container(v.values[1]) is v, spec=True)
    r("the variable", lambda: s.extended.value_container(v) is v, spec=True)
    r("a tensor", lambda: s.extended.value_container(t) is t, spec=True)


def multi_step(s, fn, steps, iterations, initial, distributed=None):
    """run_steps_on_iterator over the given per-replica steps."""
    dataset = tf.data.Dataset.from_tensor_slices(f32(steps))
    iterator = s.make_dataset_iterator(dataset.batch(s.num_replicas_in_sync))
    return s.extended.experimental_run_steps_on_iterator(fn, iterator, iterations, initial)


@case("multi-step-outputs", "N=2", known=True)
def _(r):
    s = mirrored(2)

    def fn(ctx, inputs):
        def replica(x):
            ctx.set_non_tensor_output("foo", "bar")
            loss = tf.reduce_sum(x)
            ctx.set_last_step_output("a", loss, MEAN)
            return loss
        loss = s.extended.call_for_each_replica(replica, args=(inputs,))
        ctx.set_last_step_output("b", loss, MEAN)
        ctx.set_last_step_output("c", loss)
        return tf.no_op() if not tf.executing_eagerly() else f32(0)
    box = []

    def go():
        box.append(multi_step(s, fn, [0, 1, 2, 3], 2, {"a": 0.0, "b": 0.0, "c": (0.0, 0.0)}))
        return True
    r("runs", go)
    r("a", lambda: box[0].last_step_outputs["a"], spec=2.5)
    r("b", lambda: box[0].last_step_outputs["b"], spec=2.5)
    r("c", lambda: box[0].last_step_outputs["c"], spec=[2, 3])
    r("foo", lambda: box[0].non_tensor_outputs["foo"], spec=["bar"])


# ---- more cases: multi-step

@case("multi-step-table", "N=2, run_steps_on_iterator")
def _(r):
    """Steps {0, 1}, {2, 3}: an output set by the first step alone; a name set twice; without an operator in R; the iterator ends
    early; 0 iterations; non-tensor outputs set in X and, different, in R; last_step_outputs replaced by a list."""
    s = mirrored(2)

    def step(act):
        def fn(ctx, inputs):
            act(ctx, s.extended.call_for_each_replica(lambda x: x[0], args=(inputs,)), inputs)
            return f32(0)
        return fn
    run = lambda act, iterations=2, initial=None: multi_step(s, step(act), [0, 1, 2, 3], iterations, initial)

    def twice(ctx, x, inputs):
        ctx.set_last_step_output("m", x, SUM)
        ctx.set_last_step_output("m", x, MEAN)
    r("name set twice", lambda: run(twice, initial={"m": 0.0}).last_step_outputs["m"], spec=2.5)

    def in_replica(ctx, x, inputs):
        s.extended.call_for_each_replica(lambda y: ctx.set_last_step_output("m", y), args=(x,))
    r("without an operator in R", lambda: run(in_replica), spec="!InvalidArgument")
    r("iterator ends early", lambda: run(lambda c, x, i: c.set_last_step_output("m", x, SUM), 3, {"m": 0.0}),
      spec="!OutOfRange")
    r("0 iterations", lambda: run(lambda c, x, i: c.set_last_step_output("m", x, SUM), 0, {"m": 7.0}).last_step_outputs,
      spec="!InvalidArgument")
    r("non-tensor in X", lambda: run(lambda c, x, i: c.set_non_tensor_output("k", "v")).non_tensor_outputs["k"], spec=["v"])

    def differ(ctx, x, inputs):
        s.extended.call_for_each_replica(lambda: ctx.set_non_tensor_output("k", str(replica_id())))
    r("non-tensor, different, in R", lambda: run(differ).non_tensor_outputs["k"], spec=["0", "1"])
    from tensorflow.python.distribute.input_lib import MultiStepContext
    r("last_step_outputs a list", lambda: MultiStepContext()._set_last_step_outputs([1]), spec="!InvalidArgument")
    r("no initial values", lambda: run(lambda c, x, i: c.set_last_step_output("m", x, SUM)).last_step_outputs["m"])


# ---- more cases: properties

@case("extended-properties", "N=2 or 1")
def _(r):
    """worker_devices, parameter_devices, N and the flags of every strategy of one process."""
    for name, s in (("Mirrored", mirrored(2)), ("OneDevice", one_device()), ("CentralStorage", central(2)),
                    ("default", default())):
        x = s.extended
        r(f"{name}: worker_devices", lambda: [index(d) for d in x.worker_devices])
        r(f"{name}: parameter_devices", lambda: [index(d) for d in (
            x.parameter_devices if isinstance(x.parameter_devices, tuple) else [x.parameter_devices])])
        r(f"{name}: num_replicas_in_sync", lambda: s.num_replicas_in_sync)
        for flag in ("experimental_between_graph", "experimental_require_static_shapes", "experimental_should_init",
                     "should_checkpoint", "should_save_summary"):
            r(f"{name}: {flag}", lambda: getattr(x, flag))
        r(f"{name}: cluster_resolver", lambda: s.cluster_resolver)


@case("mirrored-devices", "MirroredStrategy")
def _(r):
    """Device lists of MirroredStrategy: none, empty, a device twice under two names, order, one that is not there."""
    make = lambda *a: [index(d) for d in tf.distribute.MirroredStrategy(*a).extended.worker_devices]
    r("empty list", lambda: make([]))
    r("twice", lambda: make(["CPU:0", "CPU:0"]), spec="!InvalidArgument")
    r("twice, two names", lambda: make(["CPU:0", "/device:cpu:0"]), spec="!InvalidArgument")
    r("order", lambda: make(["CPU:3", "CPU:1"]), spec=[3, 1])
    r("ids in that order", lambda: mirrored(2, ["CPU:3", "CPU:1"]).run(
        lambda: [context().replica_id_in_sync_group, tf.constant(index(id_tensor().device))]), spec=[0, 1, 3, 1])
    r("not there", lambda: make(["CPU:99"]))
    r("canonical name", lambda: tf.distribute.MirroredStrategy(["cpu:1", "CPU:0"]).extended.worker_devices,
      spec=["/job:localhost/replica:0/task:0/device:CPU:1", "/job:localhost/replica:0/task:0/device:CPU:0"])
    r("not a list", lambda: make("CPU:0"))


# ---- more cases: reduce_to, batch_reduce_to, broadcast_to

@case("reduce-to-table", "N=2")
def _(r):
    """`reduce_to` of {1, 3}, of a mirrored 5, of plain values onto: a variable, a device, a tensor, the value, a list, a
    tuple, nothing, an empty text; by a name; by an aggregation; in the default context. Components' devices."""
    s = mirrored(2)
    x = s.extended
    w = variable(s, 0.0)
    v, m, t = per_replica(s, [f32(1), f32(3)]), mirrored_value([f32(5), f32(5)]), f32(5)
    with tf.device("CPU:1"):
        on_one = tf.identity(t)
    with s.scope():
        def row(name, value, destination, spec=None, devices=None):
            for op in ("SUM", "MEAN"):
                key = f"{op.lower()} {name}"
                out = r(key, lambda: x.reduce_to(op, value, destination), **({} if spec is None else dict(spec=spec[op == "MEAN"])))
                if out is not None and devices is not None:
                    r(f"{key}: devices", lambda: places(out), spec=devices)
        row("to variable", v, w, ([4, 4], [2, 2]))
        row("to CPU:1", v, "CPU:1", (4, 2), [1])
        row("to a tensor on CPU:1", v, on_one, (4, 2), [1])
        row("to itself", v, v, ([4, 4], [2, 2]))
        row("to a mirrored value", v, m, ([4, 4], [2, 2]))
        row("to a list", v, ["CPU:0", "CPU:1"], ("!InvalidArgument", "!InvalidArgument"))
        row("to a tuple", v, ("CPU:0",), ("!InvalidArgument", "!InvalidArgument"))
        row("to None", v, None, ("!InvalidArgument", "!InvalidArgument"))
        row("to ''", v, "", ("!InvalidArgument", "!InvalidArgument"))
        row("to a number", v, 1, ("!InvalidArgument", "!InvalidArgument"))
        row("mirrored to CPU:1", m, "CPU:1", ("!InvalidArgument", [5, 5]))
        row("variable to CPU:1", variable(s, 5.0), "CPU:1", ("!InvalidArgument", [5, 5]))
        row("plain to variable", t, w, ("!InvalidArgument", 5))
        row("plain to CPU:1", t, "CPU:1", ("!InvalidArgument", 5))
        row("numpy 0 to variable", np.float32(0), w, (0, 0))
        row("shapes differ", per_replica(s, [f32([1]), f32([1, 2])]), w, ("!InvalidArgument", "!InvalidArgument"))
        row("dtypes differ", per_replica(s, [f32(1), i32(1)]), w, ("!InvalidArgument", "!InvalidArgument"))
        row("nest", {"a": v, "b": [v]}, w)
        r("an aggregation", lambda: x.reduce_to(AGGREGATION.SUM, v, w), spec="!InvalidArgument")
        r("by name 'sum'", lambda: x.reduce_to("sum", v, w), spec=[4, 4])
        r("by name 'max'", lambda: x.reduce_to("max", v, w), spec="!InvalidArgument")
        r("int mean", lambda: x.reduce_to(MEAN, per_replica(s, [i32(1), i32(2)]), w), spec=[1.5, 1.5], dtype="float64")
    r("default context", lambda: x.reduce_to(SUM, v, w), spec=[4, 4])
    one = mirrored(1)
    u = variable(one, 0.0)
    with one.scope():
        r("one replica, plain sum to variable", lambda: one.extended.reduce_to(SUM, t, u), spec=5)
        r("one replica, plain sum to CPU:1", lambda: places(one.extended.reduce_to(SUM, t, "CPU:1")), spec=[1])
        r("one replica, plain mean to CPU:1", lambda: places(one.extended.reduce_to(MEAN, t, "CPU:1")), spec=[0])


@case("batch-reduce-to-table", "N=2")
def _(r):
    """`batch_reduce_to`: no pairs; pairs that are lists, triples; dtypes and shapes mixed; a plain tensor; a mirrored value;
    sparse rows among dense ones; in order."""
    s = mirrored(2)
    x = s.extended
    v, u = per_replica(s, [f32(1), f32(3)]), per_replica(s, [f32([1, 2]), f32([3, 4])])
    z = per_replica(s, [tf.constant([1], tf.int64), tf.constant([2], tf.int64)])
    m = mirrored_value([f32(5), f32(5)])
    with s.scope():
        r("no pairs", lambda: x.batch_reduce_to(SUM, []), spec=[])
        r("lists", lambda: x.batch_reduce_to(SUM, [[v, v]]), spec="!InvalidArgument")
        r("triples", lambda: x.batch_reduce_to(SUM, [(v, v, v)]), spec="!InvalidArgument")
        r("shapes mixed, sum", lambda: x.batch_reduce_to(SUM, [(u, u), (v, v)]), spec=[4, 6, 4, 6, 4, 4])
        r("dtypes mixed, sum", lambda: x.batch_reduce_to(SUM, [(v, v), (z, z), (u, u)]), spec=[4, 4, 3, 3, 4, 6, 4, 6])
        r("int mean", lambda: x.batch_reduce_to(MEAN, [(z, z)]), spec=[1.5, 1.5], dtype="float64")
        r("mirrored, sum", lambda: x.batch_reduce_to(SUM, [(m, m)]), spec="!InvalidArgument")
        r("mirrored, mean", lambda: x.batch_reduce_to(MEAN, [(m, m)]), spec=[5, 5])
        r("plain, sum", lambda: x.batch_reduce_to(SUM, [(f32(5), "CPU:0")]), spec="!InvalidArgument")
        r("plain, mean", lambda: x.batch_reduce_to(MEAN, [(f32(5), "CPU:0")]), spec=5)
        r("by name", lambda: x.batch_reduce_to("mean", [(v, v)]), spec=[2, 2])


@case("broadcast-to-table", "N=2")
def _(r):
    """`broadcast_to` of a tensor, host numbers and a mirrored value to a variable, a device, the value's devices, nothing,
    a list; OneDevice, default."""
    s = mirrored(2)
    x = s.extended
    w = variable(s, 0.0)
    t = f32(7)
    with s.scope():
        r("to variable", lambda: x.broadcast_to(t, w), spec=[7, 7])
        r("to variable: devices", lambda: places(x.broadcast_to(t, w)), spec=[0, 1])
        r("to CPU:1", lambda: x.broadcast_to(t, "CPU:1"), spec=7)
        r("to CPU:1: devices", lambda: places(x.broadcast_to(t, "CPU:1")), spec=[1])
        r("to a per-replica value", lambda: x.broadcast_to(t, per_replica(s, [t, t])), spec=[7, 7])
        r("host 7.0", lambda: x.broadcast_to(7.0, w), spec=7)
        r("host 7", lambda: x.broadcast_to(7, w), spec=7)
        r("to None", lambda: x.broadcast_to(t, None), spec="!InvalidArgument")
        r("to ''", lambda: x.broadcast_to(t, ""))
        r("to a list", lambda: x.broadcast_to(t, ["CPU:0", "CPU:1"]), spec="!InvalidArgument")
        r("a mirrored value", lambda: x.broadcast_to(mirrored_value([t, t]), w))
    r("OneDevice", lambda: one_device().extended.broadcast_to(t, "CPU:1"))
    r("default", lambda: default().extended.broadcast_to(t, "CPU:0"))


# ---- more cases: update

@case("update-table", "N=2, mirrored variable 5.0")
def _(r):
    """`update` grouped and ungrouped: fn that returns nothing, a tensor, a dict with a list, a host number, the component; with
    mirrored, plain, per-replica and nested arguments, keywords; of what is no variable; that throws; in R; in D."""
    s = mirrored(2)
    x = s.extended
    fresh = lambda: variable(s, 5.0, name="v")
    variable_outside, plain = variable(mirrored(2), 5.0), tf.Variable(1.0)
    m, p = mirrored_value([f32(1), f32(2)]), per_replica(s, [f32(1), f32(2)])
    with s.scope():
        for group in (True, False):
            g = "grouped" if group else "ungrouped"
            up = lambda fn, *a, **k: x.update(fresh(), fn, args=a, kwargs=k, group=group)
            r(f"{g}: nothing", lambda: up(lambda c: None))
            r(f"{g}: tensor", lambda: up(lambda c: c.assign_add(1.0) * 10.0), spec=[60, 60])
            r(f"{g}: dict", lambda: up(lambda c: {"a": c + 1.0, "b": [c + 2.0]}), spec=[6, 6, 7, 7])
            r(f"{g}: host number", lambda: up(lambda c: 3))
            r(f"{g}: component", lambda: up(lambda c: c))
            r(f"{g}: mirrored argument", lambda: up(lambda c, y: c + y, m), spec=[6, 7])
            r(f"{g}: plain argument", lambda: up(lambda c, y: c + y, f32(10)), spec=[15, 15])
            r(f"{g}: per-replica argument", lambda: up(lambda c, y: c + y, p), spec="!InvalidArgument")
            r(f"{g}: nested arguments", lambda: up(lambda c, d: c + d["k"][0] + d["l"], {"k": [m], "l": 1.0}), spec=[7, 8])
            r(f"{g}: keyword", lambda: up(lambda c, y=None: c + y, y=m), spec=[6, 7])
            r(f"{g}: variable argument", lambda: up(lambda c, y: c + y, variable(s, 100.0)), spec=[105, 105])
            r(f"{g}: on_read argument", lambda: up(lambda c, y: c + y, variable(s, 100.0, AGGREGATION.SUM, SYNC.ON_READ)))
        r("a tensor", lambda: x.update(f32(1), lambda c: c), spec="!InvalidArgument")
        r("a variable of no strategy", lambda: x.update(plain, lambda c: c), spec="!InvalidArgument")
        r("a component", lambda: x.update(fresh().values[0], lambda c: c), spec="!InvalidArgument")
        r("another strategy's variable", lambda: x.update(variable_outside, lambda c: c.assign(9.0)), spec="!InvalidArgument")
        v = fresh()

        def second(c):
            c.assign_add(1.0)
            if index(c.device) == 1:
                raise KeyError("x")
        r("fn throws on component 1", lambda: x.update(v, second), spec="!InvalidArgument")
        r("fn throws: components", lambda: components(v), spec=[6, 6])
        w, u = fresh(), fresh()
        r("another variable assigned in fn", lambda: (x.update(w, lambda c: _nothing(u.assign(f32(index(c.device))))),
                                                      components(u))[1], spec=[0, 1])
        r("nested update", lambda: x.update(w, lambda c: x.update(u, lambda d: d + 1.0)))
        r("run in update", lambda: x.update(w, lambda c: s.run(id_tensor)))
    r("in D", lambda: x.update(fresh(), lambda c: c + 1.0), spec=[6, 6])
    v = fresh()
    r("in R", lambda: s.run(lambda: x.update(v, lambda c, y: c.assign(y), args=(f32(3),))), spec="!ContextError")
    r("in R: components", lambda: components(v))
    v = fresh()
    r("in R, per-replica arguments", lambda: s.run(lambda: _nothing(x.update(v, lambda c, y: c.assign(y), args=(id_tensor(),)))),
      spec="!ContextError")
    r("in R, per-replica arguments: components", lambda: components(v))


def _nothing(*unused):
    return None


@case("update-other-strategies", "OneDevice, default, CentralStorage of two")
def _(r):
    """`update` of a variable 5.0: c + 1, grouped and ungrouped; mirrored and per-replica arguments; update_non_slot."""
    for name, s in (("OneDevice", one_device()), ("default", default()), ("CentralStorage", central(2))):
        v = variable(s, 5.0)
        x = s.extended
        r(f"{name}: grouped", lambda: x.update(v, lambda c: c + 1.0), spec=6)
        r(f"{name}: ungrouped", lambda: x.update(v, lambda c: c + 1.0, group=False), spec=[6])
        r(f"{name}: ungrouped, dict", lambda: x.update(v, lambda c: {"a": c + 1.0}, group=False), spec=[6])
        r(f"{name}: mirrored argument of two", lambda: x.update(
            v, lambda c, y: c + y, args=(mirrored_value([f32(1), f32(2)]),)))
        r(f"{name}: per-replica argument of two", lambda: x.update(v, lambda c, y: c + y, args=(PerReplica([f32(1), f32(2)]),)))
        where = x.non_slot_devices([v])
        r(f"{name}: update_non_slot", lambda: x.update_non_slot(where, lambda y: y + 1.0, args=(f32(1),)), spec=2)
        r(f"{name}: update_non_slot ungrouped", lambda: x.update_non_slot(where, lambda y: y + 1.0, args=(f32(1),), group=False),
          spec=[2])
        r(f"{name}: in run", lambda: s.run(lambda: x.update(v, lambda c: c + 1.0)))


@case("update-non-slot-table", "N=2")
def _(r):
    """`update_non_slot`: results grouped and ungrouped, mirrored and per-replica arguments, on a device, in R."""
    s = mirrored(2)
    x = s.extended
    v = variable(s, 5.0)
    where = x.non_slot_devices([v])
    m, p = mirrored_value([f32(1), f32(2)]), per_replica(s, [f32(1), f32(2)])
    for group in (True, False):
        g = "grouped" if group else "ungrouped"
        up = lambda fn, *a: x.update_non_slot(where, fn, args=a, group=group)
        r(f"{g}: tensor", lambda: up(lambda: f32(1) * 2), spec=[2, 2])
        r(f"{g}: nothing", lambda: up(lambda: None))
        r(f"{g}: same tensor", lambda: (lambda t: up(lambda: t))(f32(1)))
        r(f"{g}: mirrored argument", lambda: up(lambda y: y * 2, m), spec=[2, 4])
        r(f"{g}: per-replica argument", lambda: up(lambda y: y * 2, p), spec="!InvalidArgument")
        r(f"{g}: dict", lambda: up(lambda: {"a": f32(1) * 2}), spec=[2, 2])
    r("on a variable", lambda: x.update_non_slot(v, lambda: f32(1) * 2))
    r("on one device", lambda: x.update_non_slot("CPU:0", lambda: f32(1) * 2))
    r("on a tuple of one device", lambda: x.update_non_slot(("CPU:1",), lambda: f32(1) * 2))
    r("in R", lambda: s.run(lambda: x.update_non_slot(where, lambda: None)), spec="!ContextError")


# ---- more cases: colocation, containers

@case("colocate-table", "N=2 of four devices")
def _(r):
    """Variables made in `colocate_vars_with`: beside a mirrored variable, an on_read one, nested guards, non-slot devices; in
    run; with a variable of OneDevice, CentralStorage; outside the scope; of another strategy; of none."""
    s, other = mirrored(2, ["CPU:1", "CPU:3"]), mirrored(2)
    v = variable(s, 1.0)
    c = variable(s, 1.0, AGGREGATION.SUM, SYNC.ON_READ)
    outside, foreign = tf.Variable(1.0), variable(other, 1.0)
    devices = lambda u: [index(k.device) for k in (u.values if isinstance(u, DistributedVariable) else [u])]

    def make(*beside):
        with s.scope():
            if len(beside) == 2:
                with s.extended.colocate_vars_with(beside[0]):
                    with s.extended.colocate_vars_with(beside[1]):
                        return devices(tf.Variable(2.0))
            with s.extended.colocate_vars_with(beside[0]):
                return devices(tf.Variable(2.0))
    r("mirrored", lambda: make(v), spec=[1, 3])
    r("on_read", lambda: make(c), spec=[1, 3])
    r("nested", lambda: make(v, c), spec=[1, 3])
    r("made outside", lambda: make(outside), spec="!InvalidArgument")
    r("another strategy's", lambda: make(foreign), spec="!InvalidArgument")
    r("a tensor", lambda: make(f32(1)), spec="!InvalidArgument")
    r("a component", lambda: make(v.values[0]), spec="!InvalidArgument")
    r("non-slot devices", lambda: make(s.extended.non_slot_devices([v])), spec=[1, 3])

    def without_scope():
        with s.extended.colocate_vars_with(v):
            return devices(tf.Variable(2.0))
    r("outside the scope", without_scope, spec="!ContextError")

    def in_run():
        with s.extended.colocate_vars_with(v):
            return tf.constant(devices(tf.Variable(2.0)))
    r("in run", lambda: s.run(in_run))
    one = one_device()
    u = variable(one, 1.0)

    def in_one():
        with one.scope():
            with one.extended.colocate_vars_with(u):
                return devices(tf.Variable(2.0))
    r("OneDevice", in_one, spec=[0])
    r("OneDevice, made outside", lambda: one.extended._validate_colocate_with_variable(outside), spec="!InvalidArgument")


@case("value-container-table", "N=2")
def _(r):
    """`value_container` of a component after its variable is gone; of a per-replica value; of a mirrored value; of a component
    of an on_read variable; of OneDevice's and CentralStorage's variables; local_results of the container holds it."""
    s = mirrored(2)
    v = variable(s, 1.0)
    component = v.values[1]
    r("in local_results of its container", lambda: any(
        component is k for k in s.experimental_local_results(s.extended.value_container(component))), spec=True)
    del v
    gc.collect()
    r("container gone", lambda: s.extended.value_container(component) is component, spec=True)
    c = variable(s, 1.0, AGGREGATION.SUM, SYNC.ON_READ)
    r("on_read component", lambda: s.extended.value_container(c.values[0]) is c, spec=True)
    p = per_replica(s, [f32(1), f32(2)])
    r("per-replica", lambda: s.extended.value_container(p) is p, spec=True)
    one = one_device()
    u = variable(one, 1.0)
    r("OneDevice", lambda: one.extended.value_container(u) is u, spec=True)
    k = central(2)
    w = variable(k, 1.0)
    r("CentralStorage, its plain variable", lambda: k.extended.value_container(w.get()) is w, spec=True)


@case("read-var", "N=2")
def _(r):
    """`read_var` of mirrored, on_read and plain variables, in X and R, for every strategy."""
    s = mirrored(2)
    m, plain = variable(s, 3.0), tf.Variable(1.0)
    with s.scope():
        r("mirrored in X", lambda: s.extended.read_var(m), spec=3)
        r("a plain variable", lambda: s.extended.read_var(plain))
    for name, o in (("OneDevice", one_device()), ("CentralStorage", central(2)), ("default", default())):
        v = variable(o, 3.0)
        r(f"{name}", lambda: o.extended.read_var(v), spec=3)
