"""Values and reductions: reduce, gather, run's merging, local_results, collectives, packing."""
import collections

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import cross_device_ops, cross_device_utils

from .framework import *


# ---- first cases

@case("reduce-sum-scalars", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = s.experimental_distribute_values_from_function(lambda c: tf.constant(1.0))
    r("out of scope", lambda: s.reduce(SUM, v, axis=None), spec=2.0)
    with s.scope():
        r("in scope", lambda: s.reduce(SUM, v, axis=None), spec=2.0)


@case("reduce-sum-replica-ids", "N=4", known=True)
def _(r):
    s = mirrored(4)
    r("sum", lambda: s.reduce(SUM, s.run(lambda: context().replica_id_in_sync_group), axis=None), spec=6)


@case("reduce-axis0-even", "N=3", known=True)
def _(r):
    s = mirrored(3)
    v = s.run(lambda: tf.constant([1.0, 2.0]))
    r("mean axis 0", lambda: s.reduce(MEAN, v, axis=0), spec=1.5)
    r("sum axis 0", lambda: s.reduce(SUM, v, axis=0), spec=9.0)


@case("reduce-vector-across", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = per_replica(s, [f32([0, 1, 2, 3]), f32([4, 5, 6, 7])])
    r("sum", lambda: s.reduce(SUM, v, axis=None), spec=[4, 6, 8, 10])
    r("sum axis 0", lambda: s.reduce(SUM, v, axis=0), spec=28)


@case("reduce-mean-of-means", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = per_replica(s, [f32([0, 1, 2, 3]), f32([4, 5])])
    means = s.run(tf.reduce_mean, args=(v,))
    r("mean of the means", lambda: s.reduce(MEAN, means, axis=None), spec=3.0)
    r("mean axis 0", lambda: s.reduce(MEAN, v, axis=0), spec=2.5)


@case("reduce-negative-axis", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = per_replica(s, [f32([[1, 2], [3, 4]]), f32([[1, 2], [3, 4]])])
    r("sum axis -1", lambda: s.reduce(SUM, v, axis=-1), spec=[6, 14])


@case("reduce-axis-out-of-range", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = per_replica(s, [f32([1, 2]), f32([3, 4])])
    r("mean axis 1", lambda: s.reduce(MEAN, v, axis=1), spec="!InvalidArgument")
    r("mean axis -2", lambda: s.reduce(MEAN, v, axis=-2), spec="!InvalidArgument")


@case("reduce-scalar-with-axis", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = per_replica(s, [f32(1), f32(2)])
    r("sum axis 0", lambda: s.reduce(SUM, v, axis=0), spec="!InvalidArgument")
    r("mean axis 0", lambda: s.reduce(MEAN, v, axis=0), spec="!InvalidArgument")


@case("reduce-int-sum-dtype", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = per_replica(s, [i32([1]), i32([2])])
    r("sum axis 0", lambda: s.reduce(SUM, v, axis=0), spec=3, dtype="int32")


@case("reduce-plain-mean", "N=2", known=True)
def _(r):
    s = mirrored(2)
    r("mean", lambda: s.reduce(MEAN, f32(5), axis=None), spec=5.0)


@case("reduce-mirrored-mean", "N=2", known=True)
def _(r):
    s = mirrored(2)
    r("mean", lambda: s.reduce(MEAN, mirrored_value([f32(3), f32(3)]), axis=None), spec=3.0)


@case("reduce-mirrored-sum", "N=2", known=True)
def _(r):
    s = mirrored(2)
    r("sum", lambda: s.reduce(SUM, mirrored_value([f32(3), f32(3)]), axis=None), spec="!InvalidArgument")


@case("reduce-all-empty", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = per_replica(s, [f32([]), f32([])])
    r("sum axis 0", lambda: s.reduce(SUM, v, axis=0), spec=0.0)
    r("mean axis 0", lambda: s.reduce(MEAN, v, axis=0), spec=float("nan"))


@case("reduce-op-names", "N=1", known=True)
def _(r):
    s = mirrored(1)
    for name in ("mean", "MEAN", "sum", "SUM"):
        r(name, lambda: s.reduce(name, f32(1), axis=None), spec=1.0)
    r("unknown name", lambda: s.reduce("product", f32(1), axis=None), spec="!InvalidArgument")


@case("local-results-order", "N=3", known=True)
def _(r):
    s = mirrored(3)
    r("results", lambda: s.experimental_local_results(s.run(lambda: id_tensor() + 1)), spec=[1, 2, 3])


@case("local-results-plain", "N=2", known=True)
def _(r):
    s = mirrored(2)
    r("7", lambda: s.experimental_local_results(7), spec=[7])
    r("tensor 7", lambda: s.experimental_local_results(f32(7)), spec=[7])


@case("run-chain", "N=2", known=True)
def _(r):
    s = mirrored(2)
    out1 = r("out1", lambda: s.run(lambda: id_tensor() + 1), spec=[1, 2])
    out2 = r("out2", lambda: s.run(lambda x: {"a": x * 2, "b": x * x}, args=(out1,)), spec={"a": [2, 4], "b": [1, 4]})
    r("out3", lambda: s.run(lambda a, b: a + 2 * b + 2, kwargs=out2), spec=[6, 14])


@case("run-merge-same-object", "N=2", known=True)
def _(r):
    s = mirrored(2)
    t = f32(9)
    result = r("merged", lambda: s.run(lambda: (id_tensor(), t)), spec=[[0, 1], 9])
    r("second leaf is the tensor itself", lambda: result[1] is t, spec=True)


@case("run-merge-length-mismatch", "N=2", known=True)
def _(r):
    s = mirrored(2)
    r("run", lambda: s.run(lambda: [f32(i) for i in range(replica_id())]), spec="!InvalidArgument")


@case("run-one-replica", "N=1", known=True)
def _(r):
    for name, s in (("Mirrored", mirrored(1)), ("OneDevice", one_device()), ("default", default())):
        out1 = r(f"{name}: out1", lambda: s.run(lambda: f32(4)), spec=4)
        out2 = r(f"{name}: out2", lambda: s.run(lambda x: {"a": x * 2, "b": x * x}, args=(out1,)), spec=[8, 16])
        r(f"{name}: out3", lambda: s.run(lambda a, b: a + 2 * b + 2, kwargs=out2), spec=42)
        r(f"{name}: local_results(out1)", lambda: s.experimental_local_results(out1), spec=[4])


@case("all-reduce-two-values", "N=2", known=True)
def _(r):
    s = mirrored(2)
    r("sum", lambda: s.run(lambda: context().all_reduce(SUM, [f32(1), f32(2)])), spec=[[2, 2], [4, 4]])


@case("all-reduce-variable", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = variable(s, 2.0, AGGREGATION.MEAN)
    r("sum + id", lambda: s.run(lambda: context().all_reduce(SUM, v) + id_tensor()), spec=[4, 5])


@case("all-gather-1d", "N=2", known=True)
def _(r):
    s = mirrored(2)
    r("axis 0", lambda: s.run(lambda: context().all_gather(f32([1, 2, 3]), axis=0)), spec=[[1, 2, 3, 1, 2, 3]] * 2)


@case("gather-2d", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = s.run(lambda: f32([[1, 2, 3]]))
    r("axis 0", lambda: s.gather(v, axis=0), spec=[[1, 2, 3], [1, 2, 3]])
    r("axis 1", lambda: s.gather(v, axis=1), spec=[[1, 2, 3, 1, 2, 3]])


@case("reduce-to-destinations", "N=2", known=True)
def _(r):
    s = mirrored(2)
    w = variable(s, 0.0, name="w")
    v = per_replica(s, [f32(0), f32(1)])
    with s.scope():
        for op, name, value in ((MEAN, "mean", 0.5), (SUM, "sum", 1.0)):
            r(f"{name} to variable", lambda: s.extended.reduce_to(op, v, w), spec=[value] * 2)
            r(f"{name} to CPU:0", lambda: s.extended.reduce_to(op, v, "CPU:0"), spec=value)
            r(f"{name} to itself", lambda: s.extended.reduce_to(op, v, v), spec=[value] * 2)
        r("the variable", lambda: w, spec=[0.0, 0.0])


@case("batch-reduce-mixed-destinations", "N=2", known=True)
def _(r):
    s = mirrored(2)
    w = variable(s, 0.0, name="w")
    a, b = per_replica(s, [f32(0), f32(1)]), per_replica(s, [f32(1), f32(2)])
    with s.scope():
        r("mean", lambda: s.extended.batch_reduce_to(MEAN, [(a, w), (b, "CPU:0")]), spec=[[0.5, 0.5], 1.5])
        r("sum", lambda: s.extended.batch_reduce_to(SUM, [(a, w), (b, "CPU:0")]), spec=[[1, 1], 3])


def slices_to_dense(value):
    return tf.math.unsorted_segment_sum(value.values, value.indices, value.dense_shape[0])


def table_rows(s):
    rows = [tf.IndexedSlices(f32([[1, 2]]), tf.constant([1]), tf.constant([5, 2])),
            tf.IndexedSlices(f32([[3, 4], [5, 6]]), tf.constant([1, 3]), tf.constant([5, 2]))]
    return PerReplica(rows)


@case("sparse-reduce", "N=2", known=True)
def _(r):
    s = mirrored(2)
    v = table_rows(s)
    with s.scope():
        for op, name, rows in ((SUM, "sum", [4, 6]), (MEAN, "mean", [2, 3])):
            expected = [[0, 0], rows, [0, 0], [5, 6] if op is SUM else [2.5, 3], [0, 0]]
            value = r(f"{name}, sparse", lambda: s.extended.reduce_to(op, v, "CPU:0"))
            r(f"{name}, dense", lambda: slices_to_dense(value), spec=expected)


@case("pack-by-size", "", known=True)
def _(r):
    def sizes(bytes_per_pack, lengths):
        tensors = [tf.zeros([n], tf.int8) for n in lengths]
        return [[int(t.shape[0]) for t in pack] for pack in cross_device_utils.group_by_size(tensors, bytes_per_pack)]
    r("200", lambda: sizes(200, [128, 32, 800, 4]), spec=[[128, 32, 800], [4]])
    r("200, number of packs", lambda: len(sizes(200, [128, 32, 800, 4])), spec=2)


@case("pack-zero-bytes", "", known=True)
def _(r):
    tensors = [tf.zeros([n], tf.int8) for n in (10, 20)]
    r("0", lambda: [len(p) for p in cross_device_utils.group_by_size(tensors, 0)], spec=[2])
    r("-1", lambda: tf.distribute.experimental.CommunicationOptions(bytes_per_pack=-1).bytes_per_pack,
      spec="!InvalidArgument")


@case("pack-by-count", "", known=True)
def _(r):
    def sizes(packs):
        packer = cross_device_ops._ConcatAndSplitPacker(packs)
        return [int(piece.shape[0]) for piece, _ in list(packer.pack([[(tf.zeros([10]), None)]])[0])]
    r("3", lambda: sizes(3), spec=[3, 3, 4])
    r("0", lambda: tf.distribute.NcclAllReduce(num_packs=0)._num_packs, spec=0)
    r("-1", lambda: tf.distribute.NcclAllReduce(num_packs=-1)._num_packs, spec="!InvalidArgument")


@case("values-from-array", "N=3", known=True)
def _(r):
    s = mirrored(3)
    array = np.array([3.0, 2.0, 1.0])
    v = r("value", lambda: s.experimental_distribute_values_from_function(
        lambda c: array[c.replica_id_in_sync_group]), spec=[3, 2, 1])
    r("local_results", lambda: s.experimental_local_results(v), spec=[3, 2, 1])


@case("values-nested", "N=2", known=True)
def _(r):
    s = mirrored(2)
    r("value", lambda: s.experimental_distribute_values_from_function(
        lambda c: tuple(f32(k * c.replica_id_in_sync_group) for k in (1, 2, 3))), spec=[[0, 1], [0, 2], [0, 3]])


# ---- more cases: run

@case("run-arguments", "N=2")
def _(r):
    """`run` hands fn: a dict with a per-replica leaf, a plain tensor, a host number, a text and None; a mirrored value;
    a list; keyword arguments. fn returns what it got."""
    s = mirrored(2)
    v, plain = per_replica(s, [f32(1), f32(2)]), f32(5)
    r("dict", lambda: s.run(lambda d: d, args=({"p": v, "t": plain, "n": 3, "s": "x", "none": None},)),
      spec=[[1, 2], 5, 3, "x", None])
    r("mirrored", lambda: s.run(lambda x: x + id_tensor(), args=(mirrored_value([f32(7), f32(7)]),)), spec=[7, 8])
    r("list", lambda: s.run(lambda xs: xs[0] + xs[1], args=([v, plain],)), spec=[6, 7])
    r("keyword", lambda: s.run(lambda x=None, y=1.0: x * y, kwargs={"x": v, "y": 10.0}), spec=[10, 20])
    r("optional left out", lambda: s.run(lambda x, y=None: x if y is None else x + y, args=(v,)), spec=[1, 2])
    r("args no tuple", lambda: s.run(lambda x: x, args=v))
    r("nested per-replica", lambda: s.run(lambda x: x["a"][0], args=({"a": [v]},)), spec=[1, 2])


@case("run-argument-variable", "N=2")
def _(r):
    """Mirrored variable w = 1 + on_read variable with components {0, 5} (sum) as arguments of `run`; fn gets the
    variable; reads give the replica's component."""
    s = mirrored(2)
    w = variable(s, 1.0, AGGREGATION.SUM, name="w")
    c = variable(s, 0.0, AGGREGATION.SUM, SYNC.ON_READ, name="c")
    s.run(lambda: c.assign(id_tensor() * 5))
    r("sum of reads", lambda: s.run(lambda a, b: a + b, args=(w, c)), spec=[1, 6])
    r("fn got the variable", lambda: s.run(lambda a: a is w, args=(w,)), spec=True)
    r("returned variable", lambda: s.run(lambda a: a, args=(w,)) is w, spec=True)
    r("component i from each replica", lambda: s.run(lambda: w.values[replica_id()]) is w)


@case("run-argument-wrong-size", "N=2")
def _(r):
    """Per-replica values of 1 and of 3 components passed to `run` of two replicas."""
    s = mirrored(2)
    r("one component", lambda: s.run(lambda x: x, args=(PerReplica([f32(1)]),)), spec="!InvalidArgument")
    r("three components", lambda: s.run(lambda x: x, args=(PerReplica([f32(1), f32(2), f32(3)]),)),
      spec="!InvalidArgument")


@case("run-results-merge", "N=2")
def _(r):
    """What `run` makes of results: nothing from all; nothing from some; equal and different host numbers, texts,
    booleans; lists, tuples, dicts, a named tuple; equal but distinct tensors."""
    s = mirrored(2)
    Pair = collections.namedtuple("Pair", "a b")
    t = f32(1)
    r("None from all", lambda: s.run(lambda: None), spec=[None])
    r("None from replica 1", lambda: s.run(lambda: id_tensor() if replica_id() == 0 else None), spec=[0, None])
    r("equal host number", lambda: s.run(lambda: 7), spec=[7])
    r("different host numbers", lambda: s.run(lambda: replica_id()), spec=[0, 1])
    r("equal text", lambda: s.run(lambda: "x"), spec=["x"])
    r("different texts", lambda: s.run(lambda: "ab"[replica_id()]), spec=["a", "b"])
    r("equal boolean", lambda: s.run(lambda: True), spec=[True])
    r("different booleans", lambda: s.run(lambda: replica_id() == 0), spec=[True, False])
    r("same tensor", lambda: s.run(lambda: t), spec=[1])
    r("equal tensors", lambda: s.run(lambda: f32(1)), spec=[1, 1])
    r("list", lambda: s.run(lambda: [t, id_tensor()]), spec=[1, 0, 1])
    r("named tuple", lambda: s.run(lambda: Pair(id_tensor(), t)), spec=[0, 1, 1])
    r("named tuple type kept", lambda: type(s.run(lambda: Pair(id_tensor(), t))).__name__, spec="Pair")
    r("empty tuple", lambda: s.run(lambda: ()), spec=[])
    r("empty dict", lambda: s.run(lambda: {}), spec=[])
    r("large equal host number", lambda: s.run(lambda: int("1" * 12)))
    r("numpy", lambda: s.run(lambda: np.float32(replica_id())), spec=[0, 1])


@case("run-results-mismatch", "N=2")
def _(r):
    """Results that cannot be merged: a list here, a tuple there; dicts of other keys; tuples of other lengths; a dict
    here, a tensor there; tensors of other shapes and dtypes (those can)."""
    s = mirrored(2)
    pick = lambda a, b: s.run(lambda: (a, b)[replica_id()]())
    r("list and tuple", lambda: pick(lambda: [f32(0)], lambda: (f32(1),)), spec="!InvalidArgument")
    r("keys differ", lambda: pick(lambda: {"a": f32(0)}, lambda: {"b": f32(1)}), spec="!InvalidArgument")
    r("tuple lengths", lambda: pick(lambda: (f32(0),), lambda: (f32(1), f32(2))), spec="!InvalidArgument")
    r("dict and tensor", lambda: pick(lambda: {"a": f32(0)}, lambda: f32(1)), spec="!InvalidArgument")
    r("tensor and dict", lambda: pick(lambda: f32(1), lambda: {"a": f32(0)}))
    r("shapes differ", lambda: pick(lambda: f32([0]), lambda: f32([1, 2])), spec=[0, 1, 2])
    r("dtypes differ", lambda: pick(lambda: f32(0), lambda: i32(1)), spec=[0, 1])


# ---- more cases: reduce

@case("reduce-axis-table", "N=2")
def _(r):
    """Rank-2 values {[[1 2 3] [4 5 6]], [[7 8 9]]} reduced along every axis, and along two."""
    s = mirrored(2)
    v = per_replica(s, [f32([[1, 2, 3], [4, 5, 6]]), f32([[7, 8, 9]])])
    r("sum", lambda: s.reduce(SUM, v, axis=None), spec="!InvalidArgument")
    r("mean", lambda: s.reduce(MEAN, v, axis=None), spec="!InvalidArgument")
    r("sum axis 0", lambda: s.reduce(SUM, v, axis=0), spec=[12, 15, 18])
    r("mean axis 0", lambda: s.reduce(MEAN, v, axis=0), spec=[4, 5, 6])
    r("sum axis -2", lambda: s.reduce(SUM, v, axis=-2), spec=[12, 15, 18])
    r("mean axis -2", lambda: s.reduce(MEAN, v, axis=-2), spec=[4, 5, 6])
    r("sum axis 1", lambda: s.reduce(SUM, v, axis=1), spec="!InvalidArgument")
    r("sum axes (0, 1)", lambda: s.reduce(SUM, v, axis=(0, 1)), spec=45)
    r("mean axes (0, 1)", lambda: s.reduce(MEAN, v, axis=(0, 1)), spec=5)
    r("mean axes (0, -1)", lambda: s.reduce(MEAN, v, axis=(0, -1)), spec=5)
    r("sum axes [0, 1], a list", lambda: s.reduce(SUM, v, axis=[0, 1]), spec=45)
    r("mean axes [0, 1], a list", lambda: s.reduce(MEAN, v, axis=[0, 1]), spec=5)
    r("sum axes ()", lambda: s.reduce(SUM, per_replica(s, [f32([1, 2]), f32([3, 4])]), axis=()), spec=[4, 6])
    r("mean axes ()", lambda: s.reduce(MEAN, per_replica(s, [f32([1, 2]), f32([3, 4])]), axis=()))
    r("sum axes (0, 0)", lambda: s.reduce(SUM, v, axis=(0, 0)), spec="!InvalidArgument")
    r("sum axes (0, -2)", lambda: s.reduce(SUM, v, axis=(0, -2)), spec="!InvalidArgument")
    r("mean axis 0.5", lambda: s.reduce(MEAN, v, axis=0.5))


@case("reduce-axis1-uneven-rows", "N=2")
def _(r):
    """{[[1 2] [3 4]], [[5 6 7] [8 9 10]]}: the second axis differs; reduced along it and along the first."""
    s = mirrored(2)
    v = per_replica(s, [f32([[1, 2], [3, 4]]), f32([[5, 6, 7], [8, 9, 10]])])
    r("sum axis 1", lambda: s.reduce(SUM, v, axis=1), spec=[21, 34])
    r("mean axis 1", lambda: s.reduce(MEAN, v, axis=1), spec=[21 / 5, 34 / 5])
    r("sum axis 0", lambda: s.reduce(SUM, v, axis=0), spec="!InvalidArgument")
    r("mean axis 0", lambda: s.reduce(MEAN, v, axis=0), spec="!InvalidArgument")


@case("reduce-no-broadcast", "N=2")
def _(r):
    """Components of different shapes without an axis: a scalar and a vector, [1] and [2], [1 2] and [[1 2]]."""
    s = mirrored(2)
    for name, a, b in (("() and [2]", f32(1), f32([1, 2])), ("[1] and [2]", f32([1]), f32([1, 2])),
                       ("[2] and [1 2]", f32([1, 2]), f32([[1, 2]]))):
        for op in ("SUM", "MEAN"):
            r(f"{op.lower()} {name}", lambda: s.reduce(op, per_replica(s, [a, b]), axis=None), spec="!InvalidArgument")


@case("reduce-dtypes", "N=2")
def _(r):
    """{[1 2], [4 5]} in every dtype: sum and mean, without axis and along axis 0: values and result dtype."""
    s = mirrored(2)
    table = {"int8": "float32", "int16": "float32", "uint8": "float32", "uint16": "float32", "int32": "float64",
             "int64": "float64", "uint32": "float64", "uint64": "float64"}
    for dtype in ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
                  "uint32", "uint64"):
        d = tf.dtypes.as_dtype(dtype)
        v = per_replica(s, [tf.cast([1, 2], d), tf.cast([4, 5], d)])
        mean = table.get(dtype, dtype)
        r(f"{dtype} sum", lambda: s.reduce(SUM, v, axis=None), spec=[5, 7], dtype=dtype)
        r(f"{dtype} mean", lambda: s.reduce(MEAN, v, axis=None), spec=[2.5, 3.5], dtype=mean)
        r(f"{dtype} sum axis 0", lambda: s.reduce(SUM, v, axis=0), spec=12, dtype=dtype)
        r(f"{dtype} mean axis 0", lambda: s.reduce(MEAN, v, axis=0), spec=3, dtype=mean)


@case("reduce-odd-dtypes", "N=2")
def _(r):
    """Booleans {[true false], [true true]}, texts {"a", "b"} and complex numbers {1+2i, 3}."""
    s = mirrored(2)
    b = per_replica(s, [tf.constant([True, False]), tf.constant([True, True])])
    t = per_replica(s, [tf.constant("a"), tf.constant("b")])
    z = per_replica(s, [tf.constant(1 + 2j), tf.constant(3 + 0j)])
    for op in ("SUM", "MEAN"):
        low = op.lower()
        r(f"boolean {low}", lambda: s.reduce(op, b, axis=None), spec="!InvalidArgument")
        r(f"boolean {low} axis 0", lambda: s.reduce(op, b, axis=0), spec="!InvalidArgument")
        r(f"text {low}", lambda: s.reduce(op, t, axis=None), spec="!InvalidArgument")
        r(f"complex {low}", lambda: s.reduce(op, z, axis=None))


@case("reduce-overflow", "N=4")
def _(r):
    """f16 40000 on each of 4 replicas; i8 100 on each; i32 2^30 on each: sum and mean. bf16 256 and 1 on 3 more."""
    s = mirrored(4)
    half = per_replica(s, [tf.constant(40000, tf.float16)] * 4)
    r("float16 sum", lambda: s.reduce(SUM, half, axis=None))
    r("float16 mean", lambda: s.reduce(MEAN, half, axis=None), spec=40000, dtype="float16")
    r("float16 mean axis 0", lambda: s.reduce(MEAN, per_replica(s, [tf.constant([40000], tf.float16)] * 4), axis=0),
      spec=40000, dtype="float16")
    brain = per_replica(s, [tf.constant(x, tf.bfloat16) for x in (256, 1, 1, 1)])
    r("bfloat16 sum of 256 1 1 1", lambda: s.reduce(SUM, brain, axis=None))
    r("bfloat16 mean of 256 1 1 1", lambda: s.reduce(MEAN, brain, axis=None))
    i8 = per_replica(s, [tf.constant(100, tf.int8)] * 4)
    r("int8 sum", lambda: s.reduce(SUM, i8, axis=None), spec=-112, dtype="int8")
    r("int8 mean", lambda: s.reduce(MEAN, i8, axis=None), spec=100, dtype="float32")
    big = per_replica(s, [tf.constant(2**30, tf.int32)] * 4)
    r("int32 sum", lambda: s.reduce(SUM, big, axis=None), spec=0, dtype="int32")
    r("int32 mean", lambda: s.reduce(MEAN, big, axis=None), spec=float(2**30), dtype="float64")


@case("reduce-nest", "N=2")
def _(r):
    """A dict {a: {1, 2}, b: ({[1 2], [3]}, M{5})} reduced as a whole, without axis and along axis 0."""
    s = mirrored(2)
    a, b = per_replica(s, [f32(1), f32(2)]), per_replica(s, [f32([1, 2]), f32([3])])
    r("sum", lambda: s.reduce(SUM, {"a": a, "b": (a, a)}, axis=None), spec=[3, 3, 3])
    r("mean", lambda: s.reduce(MEAN, {"a": a, "b": [a, a]}, axis=None), spec=[1.5, 1.5, 1.5])
    r("mean with a mirrored leaf", lambda: s.reduce(MEAN, {"a": a, "m": mirrored_value([f32(5), f32(5)])}, axis=None),
      spec=[1.5, 5])
    r("sum axis 0", lambda: s.reduce(SUM, {"b": b, "c": b}, axis=0), spec=[6, 6])
    r("mean axis 0", lambda: s.reduce(MEAN, {"b": b, "c": b}, axis=0), spec=[2, 2])
    r("sum axis 0 of a list", lambda: s.reduce(SUM, [b, b], axis=0), spec=[6, 6])
    r("empty tuple", lambda: s.reduce(SUM, (), axis=None), spec=[])


@case("reduce-plain-values", "N=2")
def _(r):
    """Values that are not distributed: host numbers, numpy arrays, tensors; sum, mean, axis 0."""
    s = mirrored(2)
    r("sum of host 5.0", lambda: s.reduce(SUM, 5.0, axis=None), spec="!InvalidArgument")
    r("mean of host 5.0", lambda: s.reduce(MEAN, 5.0, axis=None), spec=5)
    r("sum of host 0", lambda: s.reduce(SUM, 0, axis=None), spec=0)
    r("mean of host 0", lambda: s.reduce(MEAN, 0, axis=None), spec=0)
    r("sum of numpy 0", lambda: s.reduce(SUM, np.float32(0), axis=None), spec=0)
    r("sum of numpy [0 0]", lambda: s.reduce(SUM, np.zeros(2, np.float32), axis=None))
    r("sum of numpy 3", lambda: s.reduce(SUM, np.float32(3), axis=None), spec="!InvalidArgument")
    r("sum of tensor 0", lambda: s.reduce(SUM, f32(0), axis=None), spec="!InvalidArgument")
    r("sum of tensor [1 2]", lambda: s.reduce(SUM, f32([1, 2]), axis=None), spec="!InvalidArgument")
    r("mean of tensor [1 2]", lambda: s.reduce(MEAN, f32([1, 2]), axis=None), spec=[1, 2])
    r("mean of int tensor 5", lambda: s.reduce(MEAN, i32(5), axis=None), spec=5, dtype="int32")
    r("sum of None", lambda: s.reduce(SUM, None, axis=None), spec="!InvalidArgument")
    r("sum of a text", lambda: s.reduce(SUM, "x", axis=None), spec="!InvalidArgument")


@case("reduce-variables", "N=2")
def _(r):
    """A mirrored variable 3.0; on_read variables with components {1, 4} for every aggregation; a component."""
    s = mirrored(2)
    m = variable(s, 3.0, AGGREGATION.SUM)
    r("mirrored sum", lambda: s.reduce(SUM, m, axis=None), spec="!InvalidArgument")
    r("mirrored mean", lambda: s.reduce(MEAN, m, axis=None), spec=3)
    vector = variable(s, [1.0, 2.0])
    r("mirrored vector, sum axis 0", lambda: s.reduce(SUM, vector, axis=0), spec=6)
    r("mirrored vector, mean axis 0", lambda: s.reduce(MEAN, vector, axis=0), spec=1.5)
    for name in ("NONE", "SUM", "MEAN", "ONLY_FIRST_REPLICA"):
        v = variable(s, 0.0, getattr(AGGREGATION, name), SYNC.ON_READ)
        s.run(lambda: v.assign(1 + 3 * id_tensor()))
        r(f"on_read {name.lower()}: sum", lambda: s.reduce(SUM, v, axis=None), spec=5)
        r(f"on_read {name.lower()}: mean", lambda: s.reduce(MEAN, v, axis=None), spec=2.5)
    outside = tf.Variable(5.0)
    r("variable of no strategy: sum", lambda: s.reduce(SUM, outside, axis=None), spec="!InvalidArgument")
    r("variable of no strategy: mean", lambda: s.reduce(MEAN, outside, axis=None), spec=5)


@case("reduce-contexts", "N=2")
def _(r):
    """`reduce` inside a replica function, inside a merge function (also along an axis, which is a run), in update."""
    s = mirrored(2)
    v = per_replica(s, [f32([1, 2]), f32([3, 4])])
    r("in run", lambda: s.run(lambda: s.reduce(SUM, v, axis=None)), spec="!ContextError")
    r("in merge function", lambda: s.run(lambda: context().merge_call(
        lambda st, x: st.reduce(SUM, x, axis=None), args=(id_tensor() + 1,))), spec=3)
    r("in merge function, axis 0", lambda: s.run(lambda: context().merge_call(
        lambda st, x: st.reduce(MEAN, x, axis=0), args=(tf.fill([replica_id() + 1], 3.0),))), spec=3)
    r("run in merge function", lambda: s.run(lambda: context().merge_call(
        lambda st, x: st.run(lambda y: y * 10, args=(x,)), args=(id_tensor(),))), spec=[0, 10])
    r("scope in run", lambda: s.run(lambda: s.scope().__enter__()), spec="!ContextError")
    w = variable(s, 1.0)
    r("in update", lambda: s.extended.update(w, lambda c: s.reduce(SUM, v, axis=None)))


@case("reduce-one-device-and-default", "N=1")
def _(r):
    """OneDevice and the default strategy: [1 2] with every operator and axis; a dict; a text; a boolean."""
    for name, s in (("OneDevice", one_device()), ("default", default())):
        t = f32([1, 2])
        r(f"{name}: sum", lambda: s.reduce(SUM, t, axis=None), spec=[1, 2])
        r(f"{name}: mean", lambda: s.reduce(MEAN, t, axis=None), spec=[1, 2])
        r(f"{name}: sum axis 0", lambda: s.reduce(SUM, t, axis=0), spec=3)
        r(f"{name}: mean axis 0", lambda: s.reduce(MEAN, t, axis=0), spec=1.5)
        r(f"{name}: int mean", lambda: s.reduce(MEAN, i32(5), axis=None), spec=5, dtype="int32")
        r(f"{name}: int mean axis 0", lambda: s.reduce(MEAN, i32([1, 2]), axis=0), spec=1.5, dtype="float64")
        r(f"{name}: dict", lambda: s.reduce(SUM, {"a": t}, axis=None), spec=[1, 2])
        r(f"{name}: boolean", lambda: s.reduce(SUM, tf.constant(True), axis=None))
        r(f"{name}: text", lambda: s.reduce(SUM, "x", axis=None))
        r(f"{name}: gather", lambda: s.gather(t, axis=0), spec=[1, 2])


@case("reduce-mirrored-one-replica", "N=1")
def _(r):
    """MirroredStrategy of one replica: a tensor, a mirrored value, a mirrored variable, an on_read variable, integers."""
    s = mirrored(1)
    r("tensor sum", lambda: s.reduce(SUM, f32(3), axis=None), spec=3)
    r("mirrored value sum", lambda: s.reduce(SUM, mirrored_value([f32(3)]), axis=None))
    r("mirrored value mean", lambda: s.reduce(MEAN, mirrored_value([f32(3)]), axis=None), spec=3)
    w = variable(s, 3.0)
    r("variable sum", lambda: s.reduce(SUM, w, axis=None))
    r("variable mean", lambda: s.reduce(MEAN, w, axis=None), spec=3)
    v = variable(s, 3.0, AGGREGATION.SUM, SYNC.ON_READ)
    r("on_read sum", lambda: s.reduce(SUM, v, axis=None), spec=3)
    r("int mean", lambda: s.reduce(MEAN, i32(3), axis=None), spec=3)
    r("int mean of run's result", lambda: s.reduce(MEAN, s.run(lambda: i32(3)), axis=None), spec=3)
    r("int per-replica mean", lambda: s.reduce(MEAN, per_replica(s, [i32(3)]), axis=None), spec=3)
    r("mean axis 0", lambda: s.reduce(MEAN, f32([1, 2, 6]), axis=0), spec=3)


@case("reduce-in-function", "N=2")
def _(r):
    """The same reductions in a traced function (tf.function; a captured graph)."""
    s = mirrored(2)
    v, u = per_replica(s, [f32([1, 2]), f32([4])]), per_replica(s, [i32(1), i32(2)])

    @tf.function
    def reduce_all():
        return (s.reduce(SUM, v, axis=0), s.reduce(MEAN, v, axis=0), s.reduce(SUM, u, axis=None),
                s.reduce(MEAN, u, axis=None))
    r("sum axis 0, mean axis 0, int sum, int mean", reduce_all, spec=[7, 7 / 3, 3, 1.5])


# ---- more cases: local_results, gather

@case("local-results-table", "N=2")
def _(r):
    """`local_results` of: a mirrored value, a mirrored variable, an on_read variable, None, a plain list, a nest that
    mixes, an empty tuple; for OneDevice and the default strategy a dict and a variable."""
    s = mirrored(2)
    v = per_replica(s, [f32(1), f32(2)])
    r("mirrored", lambda: s.experimental_local_results(mirrored_value([f32(3), f32(3)])), spec=[3, 3])
    w = variable(s, 4.0)
    r("variable", lambda: s.experimental_local_results(w), spec=[4, 4])
    c = variable(s, 0.0, AGGREGATION.SUM, SYNC.ON_READ)
    s.run(lambda: c.assign(id_tensor()))
    r("on_read variable", lambda: s.experimental_local_results(c), spec=[0, 1])
    r("None", lambda: s.experimental_local_results(None), spec=[None])
    r("plain list", lambda: s.experimental_local_results([1, 2]))
    r("mixed nest", lambda: s.experimental_local_results({"a": v, "b": [5, v], "c": w}))
    r("empty tuple", lambda: s.experimental_local_results(()))
    r("in run", lambda: s.run(lambda: s.experimental_local_results(v)[0]), spec=[1])
    for name, o in (("OneDevice", one_device()), ("default", default())):
        r(f"{name}: dict", lambda: o.experimental_local_results({"a": f32(1)}), spec=[1])
        r(f"{name}: list", lambda: o.experimental_local_results([f32(1), f32(2)]), spec=[1, 2])


@case("gather-table", "N=2")
def _(r):
    """`gather` of uneven rows, of no rows, of a plain tensor, a mirrored value, variables, integers, texts, booleans; a
    negative and a too large axis; a nest."""
    s = mirrored(2)
    v = per_replica(s, [f32([[1, 2]]), f32([[3, 4], [5, 6]])])
    r("uneven, axis 0", lambda: s.gather(v, axis=0), spec=[[1, 2], [3, 4], [5, 6]])
    o = copying(2)
    r("uneven, axis -2", lambda: o.gather(v, axis=-2), spec=[[1, 2], [3, 4], [5, 6]])
    r("axis 2", lambda: o.gather(v, axis=2), spec="!InvalidArgument")
    r("axis -3", lambda: o.gather(v, axis=-3), spec="!InvalidArgument")
    r("no rows on replica 0", lambda: o.gather(per_replica(o, [tf.zeros([0, 2]), f32([[3, 4]])]), axis=0), spec=[[3, 4]])
    r("no rows anywhere", lambda: o.gather(per_replica(o, [tf.zeros([0, 2]), tf.zeros([0, 2])]), axis=0), spec=[])
    r("plain tensor", lambda: s.gather(f32([1, 2]), axis=0), spec=[1, 2])
    r("host number", lambda: s.gather(7, axis=0), spec=[7])
    r("mirrored", lambda: s.gather(mirrored_value([f32([1]), f32([1])]), axis=0), spec=[1, 1])
    w = variable(s, [1.0, 2.0])
    r("mirrored variable", lambda: s.gather(w, axis=0), spec=[1, 2, 1, 2])
    c = variable(s, [0.0], AGGREGATION.SUM, SYNC.ON_READ)
    s.run(lambda: c.assign(tf.reshape(id_tensor(), [1])))
    r("on_read variable", lambda: s.gather(c, axis=0), spec=[0, 1])
    r("int32", lambda: s.gather(per_replica(s, [i32([1]), i32([2, 3])]), axis=0), spec=[1, 2, 3], dtype="int32")
    r("texts", lambda: o.gather(per_replica(o, [tf.constant(["a"]), tf.constant(["b", "c"])]), axis=0),
      spec=["a", "b", "c"])
    r("booleans", lambda: o.gather(per_replica(o, [tf.constant([True]), tf.constant([False])]), axis=0),
      spec=[True, False])
    r("dtypes differ", lambda: s.gather(per_replica(s, [f32([1]), i32([2])]), axis=0), spec="!InvalidArgument")
    r("dict", lambda: s.gather({"a": v}, axis=0))
    r("scalars", lambda: s.gather(per_replica(s, [f32(1), f32(2)]), axis=0), spec="!InvalidArgument")
    r("sparse rows", lambda: s.gather(table_rows(s), axis=0), spec="!Unimplemented")


# ---- more cases: collectives in replica context

@case("all-reduce-table", "N=2")
def _(r):
    """`all_reduce` in replica context: a dict with a list, host numbers, no leaves, integers (sum and mean), booleans,
    f16, a mirrored value, on_read and mirrored variables, by name, min."""
    s = mirrored(2)
    go = lambda f: s.run(f)
    r("dict, sum", lambda: go(lambda: context().all_reduce(SUM, {"a": id_tensor(), "b": [id_tensor() + 1, f32([1, 2])]})),
      spec=[1, 1, 3, 3, 2, 4, 2, 4])
    r("dict, mean", lambda: go(lambda: context().all_reduce(MEAN, {"a": id_tensor(), "b": [id_tensor() + 1]})),
      spec=[0.5, 0.5, 1.5, 1.5])
    r("host 1.0, sum", lambda: go(lambda: context().all_reduce(SUM, 1.0)), spec=[2, 2])
    r("host 1, sum", lambda: go(lambda: context().all_reduce(SUM, 1)), spec=[2, 2])
    r("host 1, mean", lambda: go(lambda: context().all_reduce(MEAN, 1)), spec=[1, 1])
    r("no leaves", lambda: go(lambda: context().all_reduce(SUM, ())), spec=[])
    r("name 'SUM'", lambda: go(lambda: context().all_reduce("SUM", id_tensor() + 1)), spec=[3, 3])
    r("name 'sum'", lambda: go(lambda: context().all_reduce("sum", id_tensor() + 1)), spec=[3, 3])
    r("name 'MIN'", lambda: go(lambda: context().all_reduce("MIN", id_tensor() + 1)))
    for dtype, mean in (("int32", "float64"), ("int64", "float64"), ("int8", "float32"), ("float16", "float16"),
                        ("bfloat16", "bfloat16"), ("float64", "float64"), ("uint8", "float32")):
        d = tf.dtypes.as_dtype(dtype)
        go = (lambda f: copying(2).run(f)) if d.size == 1 else (lambda f: s.run(f))
        r(f"{dtype} sum", lambda: go(lambda: context().all_reduce(SUM, id_tensor(d) + tf.cast(1, d))), spec=[3, 3], dtype=dtype)
        r(f"{dtype} mean", lambda: go(lambda: context().all_reduce(MEAN, id_tensor(d) + tf.cast(1, d))), spec=[1.5, 1.5],
          dtype=mean)
    go = lambda f: s.run(f)
    r("mirrored variable 2, sum", lambda: (lambda w: go(lambda: context().all_reduce(SUM, w)))(variable(s, 2.0)), spec=[4, 4])
    c = variable(s, 0.0, AGGREGATION.SUM, SYNC.ON_READ)
    s.run(lambda: c.assign(id_tensor() + 1))
    r("on_read variable {1, 2}, sum", lambda: go(lambda: context().all_reduce(SUM, c)), spec=[3, 3])
    r("on_read variable {1, 2}, mean", lambda: go(lambda: context().all_reduce(MEAN, c)), spec=[1.5, 1.5])
    t = f32(3)
    r("captured tensor 3, sum", lambda: go(lambda: context().all_reduce(SUM, t)), spec=[6, 6])
    r("captured tensor 3, mean", lambda: go(lambda: context().all_reduce(MEAN, t)), spec=[3, 3])
    r("in a function: captured tensor 3, sum", lambda: s.run(tf.function(lambda: context().all_reduce(SUM, t))),
      spec=[6, 6])
    r("in a function: host 1.0, sum", lambda: s.run(tf.function(lambda: context().all_reduce(SUM, 1.0))), spec=[2, 2])
    r("in a function: int32 mean", lambda: s.run(tf.function(lambda: context().all_reduce(MEAN, id_tensor(tf.int32) + 1))),
      spec=[1.5, 1.5], dtype="float64")
    r("captured tensor, one replica", lambda: mirrored(1).run(lambda: context().all_reduce(SUM, t)), spec=3)
    r("None", lambda: go(lambda: context().all_reduce(SUM, None)), spec="!InvalidArgument")
    r("default context, tensor", lambda: context().all_reduce(SUM, f32(3)), spec=3)
    r("default context, host 3", lambda: context().all_reduce(SUM, 3), spec=3)
    r("default context, int mean", lambda: context().all_reduce(MEAN, i32(3)), spec=3)


@case("all-reduce-odd-dtypes", "N=2")
def _(r):
    """`all_reduce` of booleans and texts."""
    s = copying(2)
    r("boolean sum", lambda: s.run(lambda: context().all_reduce(SUM, tf.constant(True))), spec="!InvalidArgument")
    r("boolean mean", lambda: s.run(lambda: context().all_reduce(MEAN, tf.constant(True))), spec="!InvalidArgument")
    r("text sum", lambda: s.run(lambda: context().all_reduce(SUM, tf.constant("a"))), spec="!InvalidArgument")


@case("all-reduce-shapes-differ", "N=2, ReductionToOneDevice")
def _(r):
    """`all_reduce` of [1] on replica 0 and [1 2] on replica 1."""
    s = copying(2)
    r("sum", lambda: s.run(lambda: context().all_reduce(SUM, tf.ones([replica_id() + 1]))), spec="!InvalidArgument")
    r("structures differ", lambda: s.run(lambda: context().all_reduce(SUM, [f32(1)] * (replica_id() + 1))),
      spec="!InvalidArgument")
    r("replica 1 makes no call", lambda: s.run(lambda: context().all_reduce(SUM, f32(1)) if replica_id() == 0 else f32(0)),
      spec="!ContextError")


@case("all-reduce-sparse", "N=2")
def _(r):
    """`all_reduce` of IndexedSlices: replica 0 row 1 = [1 2]; replica 1 row 1 = [3 4], row 3 = [5 6]."""
    s = mirrored(2)
    rows = table_rows(s)

    def reduce(op):
        result = s.run(lambda x: context().all_reduce(op, x), args=(rows,))
        return s.experimental_local_results(result)
    both = r("sum, sparse", lambda: reduce(SUM))
    r("sum, dense", lambda: [slices_to_dense(x) for x in both], spec=[[0, 0, 4, 6, 0, 0, 5, 6, 0, 0]] * 2)
    both = r("mean, sparse", lambda: reduce(MEAN))
    r("mean, dense", lambda: [slices_to_dense(x) for x in both], spec=[[0, 0, 2, 3, 0, 0, 2.5, 3, 0, 0]] * 2)


@case("all-reduce-gradient", "N=2")
def _(r):
    """y = all_reduce(op, x) with x = id + 1; gradient of (id + 1)·y with respect to x, on each replica."""
    s = mirrored(2)

    def gradient(op):
        def replica():
            x = id_tensor() + 1
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = context().all_reduce(op, x) * (id_tensor() + 1)
            return tape.gradient(y, x)
        return s.run(replica)
    r("sum", lambda: gradient(SUM), spec=[3, 3])
    r("mean", lambda: gradient(MEAN), spec=[1.5, 1.5])


@case("all-gather-table", "N=2")
def _(r):
    """`all_gather` in replica context: nests, uneven rows, none, a negative axis, scalars, variables, integers."""
    s = mirrored(2)
    go = lambda f: s.run(f)
    uneven = lambda: tf.fill([replica_id() + 1, 1], id_tensor())
    r("uneven, axis 0", lambda: go(lambda: context().all_gather(uneven(), axis=0)), spec=[0, 1, 1] * 2)
    r("dict", lambda: go(lambda: context().all_gather({"a": uneven(), "b": [f32([[5]])]}, axis=0)),
      spec=[0, 1, 1, 0, 1, 1, 5, 5, 5, 5])
    r("replica 0 has no rows", lambda: copying(2).run(lambda: context().all_gather(tf.ones([replica_id(), 2]), axis=0)),
      spec=[1, 1] * 2)
    r("axis -1", lambda: copying(2).run(lambda: context().all_gather(f32([[1, 2]]) + id_tensor(), axis=-1)), spec=[1, 2, 2, 3] * 2)
    r("int32", lambda: go(lambda: context().all_gather(i32([replica_id()]), axis=0)), spec=[0, 1] * 2, dtype="int32")
    w = variable(s, [1.0, 2.0])
    r("mirrored variable", lambda: go(lambda: context().all_gather(w, axis=0)), spec=[1, 2, 1, 2] * 2)
    r("default context", lambda: context().all_gather(f32([1, 2]), axis=0), spec=[1, 2])
    r("sparse rows", lambda: s.run(lambda x: context().all_gather(x, axis=0), args=(table_rows(s),)), spec="!Unimplemented")


@case("all-gather-errors", "N=2, ReductionToOneDevice")
def _(r):
    """`all_gather` of scalars, of ranks and of other sizes that differ, of an axis out of range."""
    s = copying(2)
    go = lambda f: s.run(f)
    r("scalars", lambda: go(lambda: context().all_gather(f32(1), axis=0)), spec="!InvalidArgument")
    r("ranks", lambda: go(lambda: context().all_gather(tf.ones([1] * (replica_id() + 1)), axis=0)), spec="!InvalidArgument")
    r("sizes", lambda: go(lambda: context().all_gather(tf.ones([1, replica_id() + 1]), axis=0)), spec="!InvalidArgument")
    r("axis 1", lambda: go(lambda: context().all_gather(f32([1]), axis=1)), spec="!InvalidArgument")


@case("all-gather-gradient", "N=2")
def _(r):
    """y = all_gather(x, 0) with x = [id] on replica 0 and [id id] on replica 1; gradient of sum(y·[1 2 3])·(id + 1)."""
    s = mirrored(2)

    def replica():
        x = tf.fill([replica_id() + 1], id_tensor())
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(context().all_gather(x, axis=0) * f32([1, 2, 3])) * (id_tensor() + 1)
        return tape.gradient(y, x)
    r("gradient", lambda: s.run(replica), spec=[3, 6, 9])


# ---- more cases: values, merge_call

@case("values-from-function-table", "N=2")
def _(r):
    """`distribute_values_from_function`: host numbers, a text, None, a dict, a list, structures that differ, the
    context's properties, the same tensor; one replica; OneDevice; default."""
    s = mirrored(2)
    make = lambda f: s.experimental_distribute_values_from_function(f)
    t = f32(3)
    r("host number", lambda: make(lambda c: c.replica_id_in_sync_group), spec=[0, 1])
    r("num_replicas_in_sync", lambda: make(lambda c: c.num_replicas_in_sync), spec=[2, 2])
    r("text", lambda: make(lambda c: "x"), spec=["x", "x"])
    r("None", lambda: make(lambda c: None), spec=[None, None])
    r("same tensor", lambda: make(lambda c: t), spec=[3, 3])
    r("dict", lambda: make(lambda c: {"a": f32(c.replica_id_in_sync_group), "b": [t]}), spec=[0, 1, 3, 3])
    r("lengths differ", lambda: make(lambda c: [t] * (c.replica_id_in_sync_group + 1)), spec="!InvalidArgument")
    r("in run", lambda: s.run(lambda: make(lambda c: t)), spec="!ContextError")
    placed = []
    for device in s.extended.worker_devices:
        with tf.device(device):
            placed.append(tf.constant(1.0))
    r("placed on the devices: devices", lambda: [index(c.device) for c in make(lambda c: placed[c.replica_id_in_sync_group]).values],
      spec=[0, 1])
    r("placed on CPU:0: devices", lambda: [index(c.device) for c in make(lambda c: t).values], spec=[0, 0])
    r("one replica", lambda: mirrored(1).experimental_distribute_values_from_function(lambda c: t), spec=[3])
    r("OneDevice", lambda: one_device().experimental_distribute_values_from_function(
        lambda c: (c.replica_id_in_sync_group, c.num_replicas_in_sync)), spec=[0, 1])
    r("default", lambda: default().experimental_distribute_values_from_function(
        lambda c: (c.replica_id_in_sync_group, c.num_replicas_in_sync)), spec=[0, 1])


@case("merge-call-arguments", "N=2")
def _(r):
    """What a merge function receives: a tensor of each replica; the same tensor; equal and different host numbers;
    None; a nest; a variable; keyword arguments."""
    s = mirrored(2)
    w = variable(s, 1.0, name="w")
    t = f32(5)
    seen = lambda make, **k: s.run(lambda: context().merge_call(lambda st, x: _remember(x), args=(make(),)))
    box = []

    def _remember(x):
        box.append(x)

    def got(make):
        box.clear()
        seen(make)
        return box[0]
    r("tensor", lambda: got(id_tensor), spec=[0, 1])
    r("same tensor", lambda: got(lambda: t), spec=[5])
    r("equal host number", lambda: got(lambda: 7), spec=[7])
    r("different host numbers", lambda: got(replica_id), spec=[0, 1])
    r("None", lambda: got(lambda: None), spec=[None])
    r("nest", lambda: got(lambda: {"a": id_tensor(), "b": (t, 7)}), spec=[0, 1, 5, 7])
    r("variable", lambda: got(lambda: w) is w, spec=True)
    r("structures differ", lambda: got(lambda: [t] * (replica_id() + 1)), spec="!InvalidArgument")
    r("number of arguments differs", lambda: s.run(lambda: context().merge_call(
        lambda st, *x: None, args=(t,) * (replica_id() + 1))), spec="!InvalidArgument")

    def by_keyword():
        box.clear()
        s.run(lambda: context().merge_call(lambda st, x, k=None: _remember(k), args=(t,), kwargs={"k": id_tensor()}))
        return box[0]
    r("keyword", by_keyword, spec=[0, 1])


@case("merge-call-results", "N=2")
def _(r):
    """What replicas get back from a merge call that returns: a per-replica value, a mirrored value, a tensor, a host
    number, None, a nest of these, a variable; and that replica 0's merge function is the one called, once."""
    s = mirrored(2)
    w = variable(s, 1.0, name="w")
    t = f32(5)
    v, m = per_replica(s, [f32(1), f32(2)]), mirrored_value([f32(3), f32(3)])
    back = lambda result: s.run(lambda: context().merge_call(lambda st: result))
    r("per-replica", lambda: back(v), spec=[1, 2])
    r("mirrored", lambda: back(m), spec=[3, 3])
    r("tensor", lambda: back(t), spec=[5])
    r("host number", lambda: back(7), spec=[7])
    r("None", lambda: back(None), spec=[None])
    r("nest", lambda: back({"a": v, "b": (m, t), "n": None}), spec=[1, 2, 3, 3, 5, None])
    r("variable", lambda: back(w) is w, spec=True)
    calls = []

    def replica():
        mine = replica_id()
        return context().merge_call(lambda st: calls.append(mine))
    s.run(replica)
    r("called by replica", lambda: list(calls), spec=[0])

    def two():
        a = context().merge_call(lambda st, x: st.reduce(SUM, x, axis=None), args=(id_tensor() + 1,))
        return context().merge_call(lambda st, x: st.reduce(SUM, x, axis=None), args=(a + id_tensor(),))
    r("two merge calls", lambda: s.run(two), spec=7)
    r("in cross-replica context", lambda: [c.merge_call(lambda st: 1) for c in [s.run(context)._values[0]]],
      spec="!ContextError")


@case("merge-call-nested-function", "N=2")
def _(r):
    """A merge call in a function traced for one replica (a nested tf.function); the same without a merge call."""
    s = mirrored(2)

    @tf.function
    def with_sync():
        return context().all_reduce(SUM, f32(1))

    @tf.function
    def without(x):
        return x * 2
    r("with a merge call", lambda: s.run(lambda: with_sync()), spec="!ContextError")
    r("without", lambda: s.run(lambda: without(id_tensor())), spec=[0, 2])
    r("run of the traced function", lambda: s.run(with_sync), spec=[2, 2])
