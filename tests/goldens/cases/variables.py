"""Variables: synchronization x aggregation x operation x context, creation, checkpoints."""
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import distribute_lib

from .framework import *

AGGREGATIONS = ("NONE", "SUM", "MEAN", "ONLY_FIRST_REPLICA")


def checkpoint_path():
    return os.path.join(tempfile.mkdtemp(), "c")


def save(**variables):
    return tf.train.Checkpoint(**variables).write(checkpoint_path())


def restore(path, **variables):
    return tf.train.Checkpoint(**variables).read(path)


# ---- first cases

@case("mirrored-none-in-replica", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = variable(s, 1.0)
    r("assign", lambda: s.run(lambda: v.assign(5.0)), spec="!InvalidArgument")
    r("components", lambda: components(v), spec=[1, 1])


@case("mirrored-mean-ids", "N=2", known=True)
def _(r):
    s = mirrored(2)
    for name, initial, expected in (("assign", 1.0, 0.5), ("assign_add", 1.0, 1.5), ("assign_sub", 5.0, 4.5)):
        v = variable(s, initial, AGGREGATION.MEAN)
        r(name, lambda: s.run(lambda: getattr(v, name)(id_tensor())), spec=[expected] * 2)
        r(f"{name}: components", lambda: components(v), spec=[expected] * 2)


@case("mirrored-mean-same-value", "N=2", known=True)
def _(r):
    s = mirrored(2)
    for name, initial, value, expected in (("assign", 1.0, 5.0, 5), ("assign_add", 1.0, 5.0, 6), ("assign_sub", 5.0, 1.0, 4)):
        v = variable(s, initial, AGGREGATION.MEAN)
        s.run(lambda: getattr(v, name)(value))
        r(name, lambda: components(v), spec=[expected] * 2)


@case("mirrored-sum-same-value", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = variable(s, 1.0, AGGREGATION.SUM)
    r("assign", lambda: s.run(lambda: v.assign(5.0)), spec="!InvalidArgument")
    r("components", lambda: components(v), spec=[1, 1])


@case("mirrored-cross-replica", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = variable(s, 1.0)
    with s.scope():
        r("assign_add 6", lambda: v.assign_add(6.0), spec=[7, 7])
        r("assign_add 2 without read-back", lambda: v.assign_add(2.0, read_value=False))
        r("components", lambda: components(v), spec=[9, 9])
    w = variable(s, 5.0)
    with s.scope():
        r("assign_sub 2", lambda: w.assign_sub(2.0), spec=[3, 3])
    r("read", lambda: w.read_value(), spec=3)


@case("only-first-assign-id", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = variable(s, 15.0, AGGREGATION.ONLY_FIRST_REPLICA)
    r("returned", lambda: s.run(lambda: v.assign(id_tensor())), spec=[0, 0])
    r("components", lambda: components(v), spec=[0, 0])


@case("on-read-sum-assign", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = variable(s, 1.0, AGGREGATION.SUM, SYNC.ON_READ)
    with s.scope():
        r("read", lambda: v.read_value(), spec=2)
        v.assign(6.0)
        r("components", lambda: components(v), spec=[3, 3])
        r("read after assign", lambda: v.read_value(), spec=6)


@case("on-read-mean-assign", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = variable(s, 1.0, AGGREGATION.MEAN, SYNC.ON_READ)
    with s.scope():
        r("read", lambda: v.read_value(), spec=1)
        v.assign(6.0)
        r("read after assign", lambda: v.read_value(), spec=6)


@case("on-read-replica-assign", "N=2", known=True)
def _(r):
    s = mirrored(2)
    for name, expected in (("SUM", 1), ("MEAN", 0.5), ("ONLY_FIRST_REPLICA", 0)):
        v = variable(s, 5.0, getattr(AGGREGATION, name), SYNC.ON_READ)
        s.run(lambda: v.assign(id_tensor()))
        r(name.lower(), lambda: v.read_value(), spec=expected)


@case("on-read-none", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = variable(s, 5.0, AGGREGATION.NONE, SYNC.ON_READ)
    r("in R", lambda: s.run(lambda: v.read_value()), spec=[5, 5])
    r("in X", lambda: v.read_value(), spec="!InvalidArgument")


@case("on-read-accumulate", "N=2", known=True)
def _(r):
    s = mirrored(2)
    total = variable(s, 1.0, AGGREGATION.SUM, SYNC.ON_READ, name="total")
    mean = variable(s, 4.0, AGGREGATION.MEAN, SYNC.ON_READ, name="mean")

    def replica():
        total.assign_add(2.0 + id_tensor())
        mean.assign(6.0 * id_tensor())
        return total, mean
    result = s.run(replica)
    r("run returned the variables", lambda: result[0] is total and result[1] is mean, spec=True)
    r("total: components", lambda: components(total), spec=[3, 4])
    r("total", lambda: total.read_value(), spec=7)
    r("mean: components", lambda: components(mean), spec=[0, 6])
    r("mean", lambda: mean.read_value(), spec=3)


@case("on-read-update-unsplit", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = variable(s, 1.0, AGGREGATION.SUM, SYNC.ON_READ)
    with s.scope():
        s.extended.update(v, lambda c: c.assign(5.0))
    r("components", lambda: components(v), spec=[5, 5])
    r("read", lambda: v.read_value(), spec=10)


@case("checkpoint-on-write", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = variable(s, 2.0)
    path = save(v=v)
    v.assign(9.0)
    restore(path, v=v)
    r("into mirrored", lambda: components(v), spec=[2, 2])
    plain = tf.Variable(0.0)
    restore(path, v=plain)
    r("into plain", lambda: components(plain), spec=[2])
    plain.assign(3.0)
    restore(save(v=plain), v=v)
    r("plain into mirrored", lambda: components(v), spec=[3, 3])


@case("checkpoint-round-trip", "N=2", known=True)
def _(r):
    s = mirrored(2)
    for sync in (SYNC.ON_READ, SYNC.ON_WRITE):
        for name in ("SUM", "MEAN", "ONLY_FIRST_REPLICA"):
            v = variable(s, [1.0, 2.0, 3.0, 4.0], getattr(AGGREGATION, name), sync)
            before = v.read_value().numpy()
            path = save(v=v)
            v.assign(f32([4, 3, 2, 1]))
            restore(path, v=v)
            after = v.read_value().numpy()
            key = f"{sync.name.lower()} {name.lower()}"
            factor = 2 if (sync, name) == (SYNC.ON_READ, "SUM") else 1
            r(f"{key}: before", lambda: tf.constant(before), spec=[factor * x for x in (1, 2, 3, 4)])
            r(f"{key}: after", lambda: tf.constant(after), spec=[factor * x for x in (1, 2, 3, 4)])


@case("variable-in-run", "N=2", known=True)
def _(r):
    s = mirrored(2)
    for sync in (SYNC.ON_WRITE, SYNC.ON_READ):
        made = []

        def replica():
            made.append(tf.Variable(tf.random.normal([3]), synchronization=sync, aggregation=AGGREGATION.MEAN))
        s.run(replica)
        r(f"{sync.name.lower()}: same object", lambda: made[0] is made[1], spec=True)
        parts = [c.numpy() for c in made[0].values]
        r(f"{sync.name.lower()}: components equal", lambda: bool(np.array_equal(*parts)), spec=True)


@case("variable-names-in-run", "N=2", known=True)
def _(r):
    s = mirrored(2)

    def by_number():
        return tf.Variable(1.0, name=f"foo_{replica_id()}")
    v = r("foo_0 and foo_1", lambda: s.run(by_number), spec=[1, 1])
    r("name", lambda: v.name.split(":")[0], spec=["foo_0"])
    r("foo and bar", lambda: s.run(lambda: tf.Variable(1.0, name=("foo", "bar")[replica_id()])), spec="!ContextError")


@case("variable-sync-none", "N=2", known=True)
def _(r):
    s = mirrored(2)
    r("creation", lambda: variable(s, 1.0, synchronization=SYNC.NONE, name="odd"), spec="!InvalidArgument")


@case("integer-mean", "N=2", known=True)
def _(r):
    s = mirrored(2)
    r("creation, on_write", lambda: variable(s, tf.constant(0, tf.int64), AGGREGATION.MEAN), spec=[0, 0])
    r("creation, on_read", lambda: variable(s, tf.constant(0, tf.int64), AGGREGATION.MEAN, SYNC.ON_READ), spec=[0, 0])
    r("creation, boolean", lambda: variable(s, False, AGGREGATION.MEAN), spec=[False, False])
    r("creation, N=1", lambda: variable(mirrored(1), tf.constant(0, tf.int64), AGGREGATION.MEAN), spec=[0])
    r("creation, OneDevice", lambda: variable(one_device(), tf.constant(0, tf.int64), AGGREGATION.MEAN), spec=[0])
    c = central(2)
    v = r("creation, CentralStorage", lambda: variable(c, tf.constant(0, tf.int64), AGGREGATION.MEAN), spec=[0])
    r("CentralStorage: assign_add of the id", lambda: (c.run(lambda: _nothing(v.assign_add(id_tensor(tf.int64)))), components(v))[1])
    r("CentralStorage: assign_add of host 2", lambda: (c.run(lambda: _nothing(v.assign_add(2))), components(v))[1])


# ---- more cases: the table of writes

def write_table(r, strategy, synchronization, dtype, expected):
    """All writes of one kind of variable: initial 10, by context and by value."""
    d = tf.dtypes.as_dtype(dtype)
    number = (lambda x: tf.constant(x, d))
    host = 4.0 if d.is_floating else 4
    same = number(4)
    for aggregation in AGGREGATIONS:
        if aggregation == "MEAN" and not d.is_floating and not isinstance(strategy, tf.distribute.experimental.CentralStorageStrategy):
            r("mean creation", lambda: variable(strategy, number(10), AGGREGATION.MEAN, synchronization), spec=[10, 10])
            continue
        for op in ("assign", "assign_add", "assign_sub"):
            make = lambda: variable(strategy, number(10), getattr(AGGREGATION, aggregation), synchronization)

            def record(name, act):
                v = make()
                key = f"{aggregation.lower()} {op} {name}"

                def do():
                    act(v, lambda c, x: getattr(c, op)(x))
                    return components(v)
                spec = expected(aggregation, op, name)
                r(key, do, after=lambda: components(v), **spec)
            record("X host 4", lambda v, f: _in_scope(strategy, lambda: f(v, host)))
            record("X tensor 4", lambda v, f: _in_scope(strategy, lambda: f(v, same)))
            record("X mirrored 4", lambda v, f: _in_scope(strategy, lambda: f(v, Mirrored([number(4), number(4)]))))
            record("X per-replica 2 6", lambda v, f: _in_scope(strategy, lambda: f(v, PerReplica([number(2), number(6)]))))
            record("D host 4", lambda v, f: f(v, host))
            record("R tensors 2 6", lambda v, f: strategy.run(lambda: f(v, number(2 + 4 * replica_id()))))
            record("R equal tensors 4", lambda v, f: strategy.run(lambda: f(v, tf.identity(same))))
            record("R captured tensor 4", lambda v, f: strategy.run(lambda: f(v, same)))
            record("R host 4", lambda v, f: strategy.run(lambda: f(v, host)))
            record("R host 0", lambda v, f: strategy.run(lambda: f(v, 0.0 if d.is_floating else 0)))
            record("R hosts 2 6", lambda v, f: strategy.run(lambda: f(v, type(host)(2 + 4 * replica_id()))))
            record("U host 4", lambda v, f: strategy.extended.update(v, lambda c: f(c, host)))
            record("U of the variable itself, host 4", lambda v, f: strategy.extended.update(v, lambda c: f(v, host)))
            record("merge function host 4", lambda v, f: strategy.run(lambda: context().merge_call(
                lambda st: _nothing(f(v, host)))))


def _nothing(*unused):
    return None


def _in_scope(strategy, f):
    with strategy.scope():
        return f()


def apply(op, before, value):
    return {"assign": value, "assign_add": before + value, "assign_sub": before - value}[op]


def on_write_expected(floating):
    def expected(aggregation, op, name):
        value = lambda x: dict(spec=[apply(op, 10, x)] * 2)
        error = dict(spec="!InvalidArgument")
        if name in ("X host 4", "X tensor 4", "X mirrored 4", "D host 4", "U host 4", "U of the variable itself, host 4",
                    "merge function host 4"):
            return value(4)
        if name == "X per-replica 2 6":
            return error
        if aggregation == "NONE":
            return error
        if name in ("R captured tensor 4", "R host 4"):
            return error if aggregation == "SUM" else value(4)
        if name == "R host 0":
            return value(0)
        if aggregation == "ONLY_FIRST_REPLICA":
            return value(4 if name == "R equal tensors 4" else 2)
        if aggregation == "SUM":
            return error if name == "R hosts 2 6" else value(8)
        if not floating:
            return error
        return error if name == "R hosts 2 6" else value(4)
    return expected


def on_read_expected(floating):
    def expected(aggregation, op, name):
        two = lambda a, b: dict(spec=[apply(op, 10, a), apply(op, 10, b)])
        error = dict(spec="!InvalidArgument")
        if name in ("X host 4", "X tensor 4", "X mirrored 4", "D host 4", "merge function host 4"):
            if aggregation == "SUM":
                return two(2, 2) if op == "assign" else error
            return two(4, 4)
        if name == "X per-replica 2 6":
            return error
        if name in ("R tensors 2 6", "R hosts 2 6"):
            return two(2, 6)
        if name == "R host 0":
            return two(0, 0)
        return two(4, 4)
    return expected


@case("writes-on-write-f32", "N=2")
def _(r):
    """on_write f32 variable, 10: assign, assign_add, assign_sub for every aggregation, context and kind of value; the
    components afterwards."""
    write_table(r, mirrored(2), SYNC.ON_WRITE, "float32", on_write_expected(True))


@case("writes-on-write-i64", "N=2")
def _(r):
    """The same for an i64 variable."""
    write_table(r, mirrored(2), SYNC.ON_WRITE, "int64", on_write_expected(False))


@case("writes-on-read-f32", "N=2")
def _(r):
    """on_read f32 variable, 10: the same."""
    write_table(r, mirrored(2), SYNC.ON_READ, "float32", on_read_expected(True))


@case("writes-on-read-i64", "N=2")
def _(r):
    """on_read i64 variable, 10: the same."""
    write_table(r, mirrored(2), SYNC.ON_READ, "int64", on_read_expected(False))


@case("writes-central-storage", "N=2, CentralStorage on CPU:0")
def _(r):
    """CentralStorage f32 variable, 10: the same; one component."""
    write_table(r, central(2), SYNC.AUTO, "float32", central_expected)


def central_expected(aggregation, op, name):
    base = on_write_expected(True)(aggregation, op, name)
    if isinstance(base.get("spec"), list):
        return dict(spec=base["spec"][:1])
    return base


@case("writes-central-storage-on-read", "N=2, CentralStorage on CPU:0")
def _(r):
    """CentralStorage f32 on_read variable, 10: the same; one component, writes are aggregated."""
    write_table(r, central(2), SYNC.ON_READ, "float32", central_expected)


@case("write-returns", "N=2")
def _(r):
    """What the writes return: assign in X, with and without read-back; in R; for on_write and on_read."""
    s = mirrored(2)
    for sync in (SYNC.ON_WRITE, SYNC.ON_READ):
        key = sync.name.lower()
        v = variable(s, 1.0, AGGREGATION.MEAN, sync, name="v")
        with s.scope():
            r(f"{key}: X assign", lambda: v.assign(2.0))
            r(f"{key}: X assign_add", lambda: v.assign_add(1.0))
            r(f"{key}: X without read-back", lambda: v.assign(2.0, read_value=False))
        r(f"{key}: R assign", lambda: s.run(lambda: v.assign(id_tensor())))
        r(f"{key}: R assign + 1", lambda: s.run(lambda: v.assign(id_tensor()) + 1.0))
        r(f"{key}: R without read-back", lambda: s.run(lambda: _nothing(v.assign(id_tensor(), read_value=False))))


@case("write-errors", "N=2")
def _(r):
    """Values of another shape or dtype; a variable of s in a scope and a run of s2; a text; nothing is changed."""
    s, s2 = mirrored(2), mirrored(2)
    v = variable(s, [1.0, 2.0], AGGREGATION.MEAN)
    with s.scope():
        r("X other shape", lambda: v.assign([1.0, 2.0, 3.0]), spec="!InvalidArgument")
        r("X other dtype", lambda: v.assign(i32([3, 4])), spec="!InvalidArgument")
        r("X scalar to a vector", lambda: v.assign(1.0), spec="!InvalidArgument")
        r("X add scalar to a vector", lambda: v.assign_add(1.0))
        r("X text", lambda: v.assign("x"), spec="!InvalidArgument")
    r("R other shape", lambda: s.run(lambda: v.assign(tf.ones([3]) * id_tensor())), spec="!InvalidArgument")
    r("R other dtype", lambda: s.run(lambda: v.assign(tf.ones([2], tf.int32) * context().replica_id_in_sync_group)),
      spec="!InvalidArgument")
    r("R shapes differ", lambda: s.run(lambda: v.assign(tf.ones([replica_id() + 1]))), spec="!InvalidArgument")
    r("components", lambda: components(v), spec=[1, 2, 1, 2])
    with s2.scope():
        r("read in scope of s2", lambda: v.read_value(), spec="!ContextError")
        r("+ 1 in scope of s2", lambda: v + 1.0, spec="!ContextError")
        r("assign in scope of s2", lambda: v.assign([5.0, 6.0]), spec="!ContextError")
    r("read in run of s2", lambda: s2.run(lambda: v.read_value()), spec="!ContextError")
    r("assign in run of s2", lambda: s2.run(lambda: v.assign([5.0, 6.0])), spec="!ContextError")
    c = variable(s, 1.0, AGGREGATION.SUM, SYNC.ON_READ)
    with s2.scope():
        r("on_read: read in scope of s2", lambda: c.read_value(), spec="!ContextError")
        r("on_read: assign in scope of s2", lambda: c.assign(1.0), spec="!ContextError")
    plain = tf.Variable(1.0)
    with s.scope():
        r("plain variable assigned in scope", lambda: plain.assign(2.0))
    r("plain variable assigned in run", lambda: s.run(lambda: plain.assign_add(id_tensor() + 1)))
    r("plain variable", lambda: components(plain), spec=[5])


# ---- more cases: reads

@case("reads", "N=2")
def _(r):
    """Components {3, 4} of on_read variables for every aggregation, f32 and i64 and boolean, and a mirrored 5: read_value,
    value, + 0 in X, D, R, U and in a merge function; on another device."""
    s = mirrored(2)
    for aggregation, x in (("NONE", "!InvalidArgument"), ("SUM", 7), ("MEAN", 3.5), ("ONLY_FIRST_REPLICA", 3)):
        for dtype in ("float32", "int64"):
            if dtype == "int64" and aggregation == "MEAN":
                continue
            d = tf.dtypes.as_dtype(dtype)
            v = variable(s, tf.constant(0, d), getattr(AGGREGATION, aggregation), SYNC.ON_READ)
            s.run(lambda: v.assign(id_tensor(d) + tf.constant(3, d)))
            key = f"{aggregation.lower()} {dtype}"
            mean = "float64" if aggregation == "MEAN" and dtype == "int64" else dtype
            extra = {} if x == "!InvalidArgument" else {"dtype": mean}
            with s.scope():
                r(f"{key}: X read_value", lambda: v.read_value(), spec=x, **extra)
                r(f"{key}: X value", lambda: v.value(), spec=x, **extra)
                r(f"{key}: X + 0", lambda: v + tf.constant(0, d))
            r(f"{key}: D read_value", lambda: v.read_value(), spec=x, **extra)
            r(f"{key}: R read_value", lambda: s.run(lambda: v.read_value()), spec=[3, 4], dtype=dtype)
            r(f"{key}: R + 0", lambda: s.run(lambda: v + tf.constant(0, d)), spec=[3, 4], dtype=dtype)
            r(f"{key}: U read of the component", lambda: s.extended.update(v, lambda c: c.read_value()), spec=[3, 4])
            r(f"{key}: U read of the variable", lambda: s.extended.update(v, lambda c: v.read_value()), spec=[3, 4])
            r(f"{key}: merge function", lambda: s.run(lambda: context().merge_call(lambda st: v.read_value())), spec=x, **extra)
            r(f"{key}: read_var", lambda: s.extended.read_var(v), spec=x, **extra)
    b = variable(s, False, AGGREGATION.ONLY_FIRST_REPLICA, SYNC.ON_READ)
    s.run(lambda: b.assign(tf.equal(context().replica_id_in_sync_group, 0)))
    r("only_first_replica boolean: D", lambda: b.read_value(), spec=True)
    b = variable(s, False, AGGREGATION.SUM, SYNC.ON_READ)
    r("sum boolean: D", lambda: b.read_value(), spec="!InvalidArgument")
    m = variable(s, 5.0)
    with s.scope():
        r("mirrored: X", lambda: m.read_value(), spec=5)
        r("mirrored: read_var", lambda: s.extended.read_var(m), spec=5)
    r("mirrored: R", lambda: s.run(lambda: m.read_value()), spec=[5, 5])
    m.values[1].assign(6.0)  # components made to differ, to see which is read
    with s.scope():
        r("mirrored {5, 6}: X on CPU:0", lambda: m.read_value(), spec=5)
        with tf.device("CPU:1"):
            r("mirrored {5, 6}: X on CPU:1", lambda: m.read_value(), spec=6)
            r("mirrored {5, 6}: + 0 on CPU:1", lambda: m + 0.0)
        with tf.device("CPU:3"):
            r("mirrored {5, 6}: X on CPU:3", lambda: m.read_value(), spec=5)


@case("reads-sync-on-read-guard", "N=2")
def _(r):
    """Inside `sync_on_read` in a replica function: an on_read variable with components {1, 3} plus 0, for every
    aggregation; read_value; in cross-replica context."""
    from tensorflow.python.distribute.distribute_lib import variable_sync_on_read_context
    s = mirrored(2)
    for aggregation, x in (("NONE", "!InvalidArgument"), ("SUM", [4, 4]), ("MEAN", [2, 2]), ("ONLY_FIRST_REPLICA", [1, 1])):
        v = variable(s, 0.0, getattr(AGGREGATION, aggregation), SYNC.ON_READ)
        s.run(lambda: v.assign(1 + 2 * id_tensor()))

        def guarded(f):
            with variable_sync_on_read_context():
                return f()
        r(f"{aggregation.lower()}: + 0", lambda: s.run(lambda: guarded(lambda: v + 0.0)), spec=x)
        r(f"{aggregation.lower()}: as a tensor", lambda: s.run(lambda: guarded(lambda: tf.convert_to_tensor(v))), spec=x)
        r(f"{aggregation.lower()}: as a tensor, in a function", lambda: s.run(tf.function(
            lambda: guarded(lambda: tf.convert_to_tensor(v)))), spec=x)
        r(f"{aggregation.lower()}: read_value", lambda: s.run(lambda: guarded(lambda: v.read_value())))
    m = variable(s, 5.0)
    r("mirrored: + 0", lambda: s.run(lambda: guarded(lambda: m + 0.0)), spec=[5, 5])


@case("on-read-integers", "N=2")
def _(r):
    """on_read i64: assign(7) in X for sum, mean, none, only_first_replica; components and reads; 3 replicas; negative."""
    s = mirrored(2)
    for aggregation in ("NONE", "SUM", "ONLY_FIRST_REPLICA"):
        v = variable(s, tf.constant(0, tf.int64), getattr(AGGREGATION, aggregation), SYNC.ON_READ)
        v.assign(7, read_value=False)
        r(f"{aggregation.lower()}: components", lambda: components(v), spec=[4, 3] if aggregation == "SUM" else [7, 7])
        if aggregation != "NONE":
            r(f"{aggregation.lower()}: read", lambda: v.read_value(), spec=7)
    t = mirrored(3)
    v = variable(t, tf.constant(0, tf.int32), AGGREGATION.SUM, SYNC.ON_READ)
    v.assign(8)
    r("three replicas, 8: components", lambda: components(v), spec=[3, 3, 2])
    v.assign(-7)
    r("three replicas, -7: components", lambda: components(v))
    r("three replicas, -7: read", lambda: v.read_value(), spec=-7)


# ---- more cases: sparse rows

@case("scatter", "N=2")
def _(r):
    """scatter_add, sub, mul, div, min, max, update of row 1 := [1 2] (X), of [1 2]·(id + 1) (R) to a 3 x 2 variable of
    fours, for every aggregation; row 1 of every component; on_read; an index out of range."""
    s = mirrored(2)
    rows = lambda factor: tf.IndexedSlices(f32([[1, 2]]) * factor, tf.constant([1]))
    for aggregation in AGGREGATIONS:
        for op in ("add", "sub", "mul", "div", "min", "max", "update"):
            for where in ("X", "R", "R captured"):
                v = variable(s, tf.fill([3, 2], 4.0), getattr(AGGREGATION, aggregation))
                captured = rows(1.0)

                def do():
                    if where == "X":
                        with s.scope():
                            getattr(v, "scatter_" + op)(rows(1.0))
                    elif where == "R":
                        s.run(lambda: _nothing(getattr(v, "scatter_" + op)(rows(id_tensor() + 1))))
                    else:
                        s.run(lambda: _nothing(getattr(v, "scatter_" + op)(captured)))
                    return [c[1] for c in components(v)]
                refused = aggregation == "NONE" and where != "X"
                r(f"{aggregation.lower()} {op} {where}", do, **(dict(spec="!InvalidArgument") if refused else {}))
    v = variable(s, tf.fill([3, 2], 4.0), AGGREGATION.SUM, SYNC.ON_READ)
    for where in ("X", "R"):
        r(f"on_read add {where}", lambda: v.scatter_add(rows(1.0)) if where == "X" else
          s.run(lambda: v.scatter_add(rows(1.0))), spec="!Unimplemented")
    v = variable(s, tf.fill([3, 2], 4.0), AGGREGATION.SUM)
    bad = tf.IndexedSlices(f32([[1, 2]]), tf.constant([3]))
    r("index out of range", lambda: v.scatter_add(bad), spec="!InvalidArgument")
    twice = tf.IndexedSlices(f32([[1, 2], [10, 20]]), tf.constant([1, 1]))
    r("one row twice, add", lambda: (v.scatter_add(twice), components(v)[0][1])[1], spec=[15, 26])
    u = variable(s, tf.fill([3, 2], 4.0), AGGREGATION.NONE)
    r("one row twice, update", lambda: (u.scatter_update(twice), components(u)[0][1])[1], spec=[10, 20])


# ---- more cases: creation

@case("variable-properties", "N=2")
def _(r):
    """Names, trainable, synchronization, aggregation, device of variables made in scope, for every strategy."""
    s = mirrored(2)
    v = variable(s, 1.0, name="v")
    r("names", lambda: [c.name.split(":")[0] for c in v.values], spec=["v", "v/replica_1"])
    r("name", lambda: v.name.split(":")[0], spec=["v"])
    r("devices", lambda: [tf.DeviceSpec.from_string(c.device).device_index for c in v.values], spec=[0, 1])
    unnamed = variable(s, 1.0)
    r("no name", lambda: unnamed.name.split(":")[0], spec=["Variable"])
    r("dtype and shape", lambda: [v.dtype.name, str(v.shape)])
    for sync in (SYNC.AUTO, SYNC.ON_WRITE, SYNC.ON_READ):
        for trainable in (None, True, False):
            w = variable(s, 1.0, AGGREGATION.SUM, sync, **({} if trainable is None else {"trainable": trainable}))
            r(f"{sync.name.lower()} trainable {trainable}", lambda: [w.trainable, w.synchronization.name],
              spec=[sync is not SYNC.ON_READ if trainable is None else trainable,
                    "ON_READ" if sync is SYNC.ON_READ else "ON_WRITE"])
    r("aggregation of default", lambda: v.aggregation.name, spec=["NONE"])
    r("unknown aggregation", lambda: variable(s, 1.0, "sum"), spec="!InvalidArgument")
    r("callable initial value", lambda: components(variable(s, lambda: f32(3))), spec=[3, 3])
    calls = []
    variable(s, lambda: (calls.append(1), f32(3))[1])
    r("calls of the initial value", lambda: len(calls), spec=1)
    one = one_device()
    w = variable(one, 1.0, AGGREGATION.SUM, SYNC.ON_READ)
    r("OneDevice on_read", lambda: [w.trainable, w.synchronization.name])
    r("OneDevice on_read read", lambda: w.read_value(), spec=1)
    r("OneDevice on_read assign_add in X", lambda: w.assign_add(2.0), spec=3)
    n = variable(one, 1.0, synchronization=SYNC.ON_WRITE)
    r("OneDevice none assign in R", lambda: one.run(lambda: n.assign(5.0)))
    r("OneDevice synchronization none", lambda: variable(one, 1.0, synchronization=SYNC.NONE))
    r("default synchronization none", lambda: tf.Variable(1.0, synchronization=SYNC.NONE))
    p = tf.Variable(1.0, aggregation=AGGREGATION.SUM, synchronization=SYNC.ON_READ)
    r("default on_read", lambda: [p.trainable, p.synchronization.name, p.aggregation.name])
    c = central(2)
    w = variable(c, 1.0, AGGREGATION.SUM, name="w")
    r("CentralStorage component", lambda: components(w), spec=[1])
    r("CentralStorage synchronization none", lambda: variable(c, 1.0, synchronization=SYNC.NONE))


@case("one-replica-writes", "N=1, Mirrored")
def _(r):
    """MirroredStrategy of one replica: assign(5.0) in `run`, for every aggregation, of a tensor and of a host number."""
    s = mirrored(1)
    for aggregation in AGGREGATIONS:
        v = variable(s, 1.0, getattr(AGGREGATION, aggregation))
        r(f"{aggregation.lower()} tensor", lambda: (s.run(lambda: v.assign(f32(5))), components(v))[1],
          spec="!InvalidArgument" if aggregation == "NONE" else [5])
        r(f"{aggregation.lower()} host", lambda: (s.run(lambda: v.assign(6.0)), components(v))[1],
          spec="!InvalidArgument" if aggregation == "NONE" else [6])
    v = variable(s, 1.0, AGGREGATION.SUM, SYNC.ON_READ)
    r("on_read sum assign_add in X", lambda: v.assign_add(1.0), spec="!InvalidArgument")


@case("single-device-writes", "OneDevice; default strategy; variable 1.0")
def _(r):
    """assign of a tensor 5, a host number 6 and assign_add of a host number 0 in `run`, for every aggregation and
    synchronization."""
    for name, s in (("OneDevice", one_device()), ("default", default())):
        for sync in (SYNC.ON_WRITE, SYNC.ON_READ):
            for aggregation in AGGREGATIONS:
                v = variable(s, 1.0, getattr(AGGREGATION, aggregation), sync)
                key = f"{name} {sync.name.lower()} {aggregation.lower()}"
                r(f"{key} tensor 5", lambda: (s.run(lambda: _nothing(v.assign(f32(5)))), components(v))[1])
                r(f"{key} host 6", lambda: (s.run(lambda: _nothing(v.assign(6.0))), components(v))[1])
                r(f"{key} add host 0", lambda: (s.run(lambda: _nothing(v.assign_add(0.0))), components(v))[1])
        v = variable(s, tf.constant(1, tf.int64), AGGREGATION.MEAN)
        r(f"{name} integer mean", lambda: (s.run(lambda: _nothing(v.assign(tf.constant(5, tf.int64)))), components(v))[1])


@case("variable-creation-in-run", "N=2")
def _(r):
    """Variables made by replicas: two of one name; foo1 and foo2; names with a path; another shape and dtype on
    replica 1; replica 1 makes one more, and one less; made in a merge function; other options on replica 1."""
    s = mirrored(2)

    def two():
        return tf.Variable(1.0, name="a"), tf.Variable(2.0, name="a")
    pair = r("two of one name", lambda: s.run(two), spec=[1, 1, 2, 2])
    r("they differ", lambda: pair[0] is not pair[1], spec=True)
    pick = lambda *makes: s.run(lambda: makes[replica_id()]())
    r("foo1 and foo2", lambda: pick(lambda: tf.Variable(1.0, name="foo1"), lambda: tf.Variable(1.0, name="foo2")),
      spec="!ContextError")
    r("foo_a and foo_b", lambda: pick(lambda: tf.Variable(1.0, name="foo_a"), lambda: tf.Variable(1.0, name="foo_b")),
      spec="!ContextError")
    r("a_0/b and a_1/b", lambda: pick(lambda: tf.Variable(1.0, name="a_0/b"), lambda: tf.Variable(1.0, name="a_1/b")).name.split(":")[0],
      spec=["a_0/b"])
    r("x and x_3", lambda: pick(lambda: tf.Variable(1.0, name="x"), lambda: tf.Variable(1.0, name="x_3")).name.split(":")[0],
      spec=["x"])
    r("another shape", lambda: pick(lambda: tf.Variable([1.0]), lambda: tf.Variable([1.0, 2.0])), spec="!InvalidArgument")
    r("another dtype", lambda: pick(lambda: tf.Variable(1.0), lambda: tf.Variable(1)), spec="!InvalidArgument")
    r("another initial value", lambda: pick(lambda: tf.Variable(1.0), lambda: tf.Variable(9.0)), spec=[1, 1])
    r("replica 1 makes one more", lambda: pick(lambda: 0, lambda: tf.Variable(1.0)), spec="!ContextError")
    r("replica 0 makes one more", lambda: pick(lambda: (tf.Variable(1.0), 0)[1], lambda: 0))
    r("another aggregation", lambda: pick(lambda: tf.Variable(1.0, aggregation=AGGREGATION.SUM),
                                          lambda: tf.Variable(1.0, aggregation=AGGREGATION.MEAN)).aggregation.name,
      spec=["SUM"])
    r("in a merge function", lambda: s.run(lambda: context().merge_call(lambda st: tf.Variable(3.0))), spec=[3, 3])
    r("initial value by replica", lambda: s.run(lambda: tf.Variable(id_tensor() + 5)), spec=[5, 5])

    def scopes():
        with s.scope():
            return s.run(lambda: tf.Variable(1.0, name="in_scope")).name.split(":")[0]
    r("run in scope", scopes, spec=["in_scope"])


@case("plain-variable-in-scope", "N=2; a variable 1.0 made outside every scope")
def _(r):
    """Read and written in the strategy's scope, in run, in a merge function, in update: value and what it is afterwards."""
    s = mirrored(2)
    w = variable(s, 1.0)

    def row(name, act):
        v = tf.Variable(1.0)
        r(name, lambda: act(v))
        r(f"{name}: afterwards", lambda: components(v))
    row("read in scope", lambda v: _in_scope(s, lambda: v.read_value()))
    row("+ 1 in scope", lambda v: _in_scope(s, lambda: v + 1.0))
    row("read in run", lambda v: s.run(lambda: v.read_value()))
    row("+ id in run", lambda v: s.run(lambda: v + id_tensor()))
    row("assign 5 in scope", lambda v: _in_scope(s, lambda: v.assign(5.0)))
    row("assign_add 1 in run", lambda v: s.run(lambda: _nothing(v.assign_add(1.0))))
    row("assign 5 in a merge function", lambda v: s.run(lambda: context().merge_call(lambda st: _nothing(v.assign(5.0)))))
    row("read in update", lambda v: s.extended.update(w, lambda c: c + v))
    row("argument of run", lambda v: s.run(lambda a: a + id_tensor(), args=(v,)))
    row("argument of update", lambda v: s.extended.update(w, lambda c, a: c + a, args=(v,)))
    row("saved in scope", lambda v: _in_scope(s, lambda: _nothing(save(v=v))))


@case("reads-as-values", "N=2; Mirrored, CentralStorage, a plain variable; all 3.0")
def _(r):
    """What `run` returns when replicas return the read of one variable: the same object or one for each replica? Its reduction;
    assigned with aggregation sum to another variable."""
    m, c = mirrored(2), central(2)
    for name, s, v in (("mirrored", m, variable(m, 3.0)), ("plain variable", m, tf.Variable(3.0)), ("CentralStorage", c, variable(c, 3.0)),
                       ("on_read", m, variable(m, 3.0, AGGREGATION.SUM, SYNC.ON_READ))):
        read = lambda: v.read_value()
        r(f"{name}: sum of run's result", lambda: s.reduce(SUM, s.run(read), axis=None))
        r(f"{name}: mean of run's result", lambda: s.reduce(MEAN, s.run(read), axis=None), spec=3)
        total = variable(s, 0.0, AGGREGATION.SUM)
        r(f"{name}: assigned with sum", lambda: (s.run(lambda: _nothing(total.assign(read()))), components(total)[0])[1])
        r(f"{name}: all_reduce of the read", lambda: s.run(lambda: context().all_reduce(SUM, read())), spec=[6, 6])
        r(f"{name}: read + 0 assigned with sum", lambda: (s.run(lambda: _nothing(total.assign(read() + 0.0))), components(total)[0])[1], spec=6)


@case("variable-in-other-scopes", "two strategies")
def _(r):
    """A variable made in update, in a run of OneDevice, in the default strategy's run and scope."""
    s = mirrored(2)
    w = variable(s, 1.0)
    r("in update", lambda: type(s.extended.update(w, lambda c: tf.Variable(2.0), group=False)[0]).__name__)
    one = one_device()
    r("in run of OneDevice", lambda: one.run(lambda: tf.Variable(2.0)), spec=[2])
    r("in run of the default strategy", lambda: default().run(lambda: tf.Variable(2.0)), spec=[2])
    with default().scope():
        r("in the default strategy's scope", lambda: tf.Variable(2.0), spec=[2])
    r("created in scope: default", lambda: default().extended.variable_created_in_scope(tf.Variable(1.0)), spec=True)
    r("created in scope: default, mirrored variable", lambda: default().extended.variable_created_in_scope(w), spec=False)
    r("created in scope: OneDevice", lambda: one.extended.variable_created_in_scope(variable(one, 1.0)), spec=True)
    r("created in scope: component", lambda: s.extended.variable_created_in_scope(w.values[0]))
    r("created in scope: a tensor", lambda: s.extended.variable_created_in_scope(f32(1)), spec="!InvalidArgument")


# ---- more cases: checkpoints

@case("checkpoint-replica-counts", "N=2, then 1, 2, 3, 4, plain")
def _(r):
    """on_write 3.0; on_read f32 sum {4, 3}, mean {4, 3}, only_first {4, 3}; on_read i64 sum {4, 3}: saved with two replicas,
    restored onto 1, 2, 3 and 4 replicas and into a plain variable: components and read."""
    s = mirrored(2)
    kinds = [("on_write", SYNC.ON_WRITE, "NONE", tf.float32), ("sum", SYNC.ON_READ, "SUM", tf.float32),
             ("mean", SYNC.ON_READ, "MEAN", tf.float32), ("only_first_replica", SYNC.ON_READ, "ONLY_FIRST_REPLICA", tf.float32),
             ("i64 sum", SYNC.ON_READ, "SUM", tf.int64)]
    for key, sync, aggregation, d in kinds:
        v = variable(s, tf.constant(3, d), getattr(AGGREGATION, aggregation), sync)
        if sync is SYNC.ON_READ:
            s.run(lambda: v.assign(tf.constant(4, d) - id_tensor(d)))
        path = None
        r(f"{key}: save", lambda: _nothing(save(v=v)))
        try:
            path = save(v=v)
        except Exception:
            continue
        for n in (1, 2, 3, 4):
            t = mirrored(n)
            w = variable(t, tf.constant(0, d), getattr(AGGREGATION, aggregation), sync)
            value = {"on_write": 3, "sum": 7, "mean": 3.5, "only_first_replica": 4, "i64 sum": 7}.get(key)
            spec = {}
            if key == "sum":
                spec = dict(spec=[7 / n] * n)
            elif key == "i64 sum":
                spec = dict(spec=[7 // n + (i < 7 % n) for i in range(n)])
            elif value is not None:
                spec = dict(spec=[value] * n)
            r(f"{key}: N={n}: components", lambda: (restore(path, v=w), components(w))[1], **spec)
            r(f"{key}: N={n}: read", lambda: w.read_value(), **({} if value is None else dict(spec=value)))
        plain = tf.Variable(tf.constant(0, d))
        r(f"{key}: plain", lambda: (restore(path, v=plain), components(plain))[1],
          **({} if value is None else dict(spec=[value])))
    v = variable(s, 1.0, AGGREGATION.NONE, SYNC.ON_READ)
    r("on_read none: save", lambda: _nothing(save(v=v)), spec="!InvalidArgument")
    r("on_write: save in run", lambda: s.run(lambda: _nothing(save(v=variable(s, 1.0)))), spec="!ContextError")


@case("checkpoint-other-strategies", "CentralStorage, OneDevice, default")
def _(r):
    """2.0 saved by Mirrored of two (on_write; on_read sum {1.5, 0.5}), restored into OneDevice, CentralStorage, plain; and back.
    A missing key; another shape."""
    s = mirrored(2)
    v = variable(s, 2.0)
    c = variable(s, 0.0, AGGREGATION.SUM, SYNC.ON_READ)
    s.run(lambda: c.assign(1.5 - id_tensor()))
    path = save(v=v, c=c)
    for name, t in (("OneDevice", one_device()), ("CentralStorage", central(2))):
        w, d = variable(t, 0.0), variable(t, 0.0, AGGREGATION.SUM, SYNC.ON_READ)
        restore(path, v=w, c=d)
        r(f"into {name}", lambda: components(w) + components(d), spec=[2, 2])
        back = save(v=w, c=d)
        u, e = variable(s, 0.0), variable(s, 0.0, AGGREGATION.SUM, SYNC.ON_READ)
        restore(back, v=u, c=e)
        r(f"{name} into Mirrored", lambda: components(u) + components(e), spec=[2, 2, 1, 1])
    wrong = variable(s, [0.0, 0.0])
    r("another shape", lambda: _nothing(restore(path, v=wrong)), spec="!InvalidArgument")
    other = variable(s, 7.0)
    r("a missing key", lambda: restore(path, missing=other).assert_consumed() and None)
    r("a missing key: value kept", lambda: components(other), spec=[7, 7])
    whole = variable(s, tf.constant(0, tf.int64))
    r("another dtype", lambda: (restore(path, v=whole), components(whole))[1])
