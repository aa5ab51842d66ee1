"""Distributed input: splitting, sharding, iteration, element_spec, numpy, options."""
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.python.data.experimental.ops import distribute as data_distribute
from tensorflow.python.distribute import distribute_lib, input_lib, input_ops, input_util

from .framework import *

Policy = tf.data.experimental.AutoShardPolicy
Options = tf.distribute.InputOptions
_folder = []


def with_policy(dataset, policy):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    return dataset.with_options(options)


def range_batches(n, batch, drop_remainder=False):
    return tf.data.Dataset.range(n).batch(batch, drop_remainder=drop_remainder)


def text_files(files, lines):
    """Files of lines "file.line"; a new folder."""
    folder = tempfile.mkdtemp()
    paths = []
    for i in range(files):
        paths.append(os.path.join(folder, f"{i:03}.txt"))
        with open(paths[-1], "w", encoding="ascii") as file:
            file.write("".join(f"{i * 100 + k}\n" for k in range(lines)))
    return paths


def file_numbers(files, lines):
    """The numbers file·100 + line, read from text files."""
    return tf.data.TextLineDataset(text_files(files, lines)).map(lambda x: tf.strings.to_number(x, tf.int64))


def workers(num_workers, num_replicas):
    """A strategy over all replicas and W workers of R replicas in this process."""
    n = num_workers * num_replicas
    s = mirrored(n)
    pairs = []
    for w in range(num_workers):
        devices = tuple(f"/device:CPU:{w * num_replicas + i}" for i in range(num_replicas))
        pairs.append((f"/device:CPU:{w * num_replicas}", devices))
    return s, input_lib.InputWorkers(pairs)


def distributed(num_workers, num_replicas, dataset, split=True):
    """What W workers of R replicas get: per step the components of worker 0's replicas, then worker 1's, …"""
    s, where = workers(num_workers, num_replicas)
    d = input_util.get_distributed_dataset(dataset, where, s,
                                           num_replicas_in_sync=num_workers * num_replicas if split else None)
    return rows(s, d)


def from_function(num_workers, num_replicas, fn, pick=lambda x: x):
    s, where = workers(num_workers, num_replicas)
    contexts = [tf.distribute.InputContext(num_workers, w, num_workers * num_replicas) for w in range(num_workers)]
    return rows(s, input_util.get_distributed_datasets_from_function(fn, where, contexts, s), pick=pick)


def shard(dataset, num_workers, index, policy=None):
    """One worker's share, without splitting."""
    if policy is not None:
        dataset = with_policy(dataset, policy)
    return Rows(x.numpy().tolist() for x in input_ops.auto_shard_dataset(dataset, num_workers, index, num_workers))


def split(n, dataset, pick=lambda x: x):
    s = mirrored(n)
    return rows(s, s.experimental_distribute_dataset(dataset), pick=pick)


def sizes(steps):
    return Rows([[len(c) for c in step] for step in steps])


# ---- first cases

@case("split-even", "N=2", known=True)
def _(r):
    r("steps", lambda: split(2, range_batches(8, 4)), spec=[[[0, 1], [2, 3]], [[4, 5], [6, 7]]])


@case("split-32-by-5", "N=5", known=True)
def _(r):
    r("sizes", lambda: sizes(split(5, range_batches(1024, 32))), spec=[[7, 7, 7, 7, 4]] * 32)


@case("split-4-by-3", "N=3", known=True)
def _(r):
    r("steps", lambda: split(3, range_batches(8, 4)), spec=[[[0, 1], [2, 3], []], [[4, 5], [6, 7], []]])


@case("split-tiny-tail", "N=4", known=True)
def _(r):
    r("sizes, first", lambda: Rows(sizes(split(4, range_batches(34, 32)))[:1]), spec=[[8, 8, 8, 8]])
    r("last", lambda: Rows(split(4, range_batches(34, 32))[-1:]), spec=[[[32], [33], [], []]])


@case("split-unbatched", "N=4", known=True)
def _(r):
    r("range", lambda: split(4, tf.data.Dataset.range(1024)), spec="!InvalidArgument")


@case("split-nested", "N=2", known=True)
def _(r):
    d = tf.data.Dataset.range(8).map(lambda x: {"a": x, "b": {"c": x + 1}}).batch(4)
    r("a", lambda: Rows(split(2, d, pick=lambda x: x["a"])[:1]), spec=[[[0, 1], [2, 3]]])
    r("c", lambda: Rows(split(2, d, pick=lambda x: x["b"]["c"])[:1]), spec=[[[1, 2], [3, 4]]])


@case("from-function-uneven", "N=2", known=True)
def _(r):
    s = mirrored(2)
    make = lambda drop: rows(s, s.distribute_datasets_from_function(lambda c: range_batches(9, 2, drop)))
    r("steps", lambda: make(False), spec=[[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8], []]])
    r("drop_remainder", lambda: make(True), spec=[[[0, 1], [2, 3]], [[4, 5], [6, 7]]])


@case("two-workers-partial", "W=2, R=1", known=True)
def _(r):
    r("second step", lambda: Rows(distributed(2, 1, range_batches(14, 8))[1:]), spec=[[[8, 9, 10], [11, 12, 13]]])


@case("two-workers-from-function-sum", "W=2, R=1", known=True)
def _(r):
    def fn(c):
        d = tf.data.Dataset.range(100).repeat().batch(c.get_per_replica_batch_size(10))
        return d.shard(c.num_input_pipelines, c.input_pipeline_id)
    first = lambda: from_function(2, 1, fn)[0]
    r("sums", lambda: Rows([sum(x) for x in first()]), spec=[10, 35])


@case("autoshard-auto-off", "W=2, R=1, no split", known=True)
def _(r):
    d = tf.data.Dataset.range(4)
    r("AUTO", lambda: distributed(2, 1, with_policy(d, Policy.AUTO), split=False), spec=[[0, 1], [2, 3]])
    r("OFF", lambda: distributed(2, 1, with_policy(d, Policy.OFF), split=False), spec=[[0, 0], [1, 1], [2, 2], [3, 3]])


@case("autoshard-uneven", "W=2, R=2, no split", known=True)
def _(r):
    r("steps", lambda: distributed(2, 2, range_batches(9, 2), split=False),
      spec=[[[0, 1], [4, 5], [2, 3], [6, 7]], [[8], [], [], []]])


@case("workers-of-different-length", "W=2, R=2", known=True)
def _(r):
    r("steps", lambda: from_function(2, 2, lambda c: range_batches(8 + c.input_pipeline_id, 2)),
      spec=[[[0, 1], [2, 3], [0, 1], [2, 3]], [[4, 5], [6, 7], [4, 5], [6, 7]], [[], [], [8], []]])


def cycle(batch, num_workers, num_replicas, worker):
    return Rows(data_distribute.batch_sizes_for_worker(batch, num_workers, num_replicas, worker).numpy().tolist())


@case("balanced-7-2-2", "G=7, W=2, R=2", known=True)
def _(r):
    r("worker 0", lambda: cycle(7, 2, 2, 0), spec=[2, 2, 2, 1])
    r("worker 1", lambda: cycle(7, 2, 2, 1), spec=[2, 1, 2, 2])


@case("balanced-4-3-1", "G=4, W=3, R=1", known=True)
def _(r):
    for w, expected in enumerate(([2, 1, 1], [1, 1, 2], [1, 2, 1])):
        r(f"worker {w}", lambda: cycle(4, 3, 1, w), spec=expected)


@case("balanced-empty-sizes", "G=4, N=5", known=True)
def _(r):
    expected = [[[0], [1], [2], [3], []], [[4], [5], [6], [7], []]]
    r("OFF", lambda: split(5, with_policy(range_batches(8, 4), Policy.OFF)), spec=expected)
    r("files", lambda: split(5, file_numbers(1, 8).batch(4)), spec=expected)


@case("balanced-partial", "G=4, N=2", known=True)
def _(r):
    r("steps", lambda: split(2, with_policy(range_batches(5, 4), Policy.OFF)), spec=[[[0, 1], [2, 3]], [[4], []]])


@case("shard-files", "W=5, w=0, no split", known=True)
def _(r):
    r("lines", lambda: shard(file_numbers(10, 10), 5, 0, Policy.FILE), spec=list(range(10)) + list(range(500, 510)))


@case("shard-data", "W=2, w=0, no split", known=True)
def _(r):
    r("numbers", lambda: shard(tf.data.Dataset.range(1024), 2, 0, Policy.AUTO), spec=list(range(0, 1024, 2)))


@case("shard-too-few", "W=10, w=0, no split", known=True)
def _(r):
    for w in (0, 4, 5, 9):
        r(f"range(5), worker {w}", lambda: shard(tf.data.Dataset.range(5), 10, w, Policy.AUTO),
          spec="!InvalidArgument" if w < 5 else [])
    r("range(0)", lambda: shard(tf.data.Dataset.range(0), 10, 0, Policy.AUTO), spec=[])


@case("shard-more-workers-than-files", "W=500, w=499, no split", known=True)
def _(r):
    r("worker 499", lambda: shard(file_numbers(10, 10), 500, 499, Policy.FILE), spec=[])
    r("worker 0", lambda: shard(file_numbers(10, 10), 500, 0, Policy.FILE))


@case("input-context", "(2, 1, 6)", known=True)
def _(r):
    c = tf.distribute.InputContext(2, 1, 6)
    r("properties", lambda: [c.num_input_pipelines, c.input_pipeline_id, c.num_replicas_in_sync], spec=[2, 1, 6])
    r("12", lambda: c.get_per_replica_batch_size(12), spec=2)
    r("13", lambda: c.get_per_replica_batch_size(13), spec="!InvalidArgument")


@case("value-context", "(id 2 of 4)", known=True)
def _(r):
    c = tf.distribute.experimental.ValueContext(2, 4)
    r("id / N", lambda: c.replica_id_in_sync_group / c.num_replicas_in_sync, spec=0.5)


@case("numpy-two-epochs", "N=2", known=True)
def _(r):
    s = mirrored(2)
    x = np.array([[1, 2], [6, 12], [2, 4], [5, 10], [3, 6], [4, 8]], np.float32)
    y = np.array([5, 4, 3, 2, 1, 0], np.float32)
    d = s.extended.experimental_make_numpy_dataset((x, y)).repeat(2).batch(6)
    steps = []

    def collect():
        for a, b in s.experimental_distribute_dataset(d):
            steps.append(([np.concatenate(s.experimental_local_results(a)).tolist(),
                           np.concatenate(s.experimental_local_results(b)).tolist()]))
        return Rows(steps)
    r("steps", collect, spec=[[x.tolist(), y.tolist()]] * 2)


@case("numpy-list-is-stacked", "", known=True)
def _(r):
    s = mirrored(2)
    a = [np.array([1, 2, 3]), np.array([4, 5, 6])]
    make = lambda v: s.extended.experimental_make_numpy_dataset(v)
    r("list", lambda: Rows(x.numpy().tolist() for x in make(a)), spec=[[1, 2, 3], [4, 5, 6]])
    r("tuple", lambda: Rows([int(p), int(q)] for p, q in make(tuple(a))), spec=[[1, 4], [2, 5], [3, 6]])
    r("dict", lambda: Rows([int(e["a"]), int(e["b"])] for e in make({"a": a[0], "b": a[1]})), spec=[[1, 4], [2, 5], [3, 6]])


@case("next-in-replica", "N=2", known=True)
def _(r):
    s = mirrored(2)
    it = iter(s.experimental_distribute_dataset(range_batches(8, 4)))
    r("next in run", lambda: s.run(lambda: next(it)), spec="!ContextError")
    r("usable afterwards", lambda: s.experimental_local_results(next(it)), spec=[0, 1, 2, 3])


@case("iterate-twice", "N=2", known=True)
def _(r):
    s = mirrored(2)
    d = s.distribute_datasets_from_function(lambda c: tf.data.Dataset.range(10))
    expected = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    r("first pass", lambda: rows(s, d), spec=expected)
    r("second pass", lambda: rows(s, d), spec=expected)
    it = iter(d)
    for _unused in range(5):
        next(it)
    r("after the end", lambda: it.get_next(), spec="!OutOfRange")
    r("after the end, again", lambda: it.get_next(), spec="!OutOfRange")


@case("one-row-two-replicas", "N=2", known=True)
def _(r):
    s = mirrored(2)
    d = tf.data.Dataset.from_tensor_slices(tf.constant([5], tf.int64)).batch(2)
    r("x + x", lambda: s.run(lambda x: x + x, args=(next(iter(s.experimental_distribute_dataset(d))),)), spec=[10],
      dtype="int64")
    r("shapes", lambda: [list(x.shape) for x in s.experimental_local_results(
        s.run(lambda x: x + x, args=(next(iter(s.experimental_distribute_dataset(d))),)))], spec=[1, 0])


@case("static-step-dropped", "N=2", known=True)
def _(r):
    s = mirrored(2)
    make = lambda drop: rows(s, s.distribute_datasets_from_function(lambda c: range_batches(20, 4, drop)))
    two = [[[0, 1, 2, 3], [4, 5, 6, 7]], [[8, 9, 10, 11], [12, 13, 14, 15]]]
    r("with drop_remainder", lambda: make(True), spec=two)
    r("without", lambda: make(False), spec=two + [[[16, 17, 18, 19], []]])


# ---- more cases: splitting

def rule_a(rows_, n):
    c = -(-rows_ // n)
    return [min((i + 1) * c, rows_) - min(i * c, rows_) for i in range(n)]


def rule_b(g, n):
    return [g // n + (i < g % n) for i in range(n)]


@case("split-table-memory", "N=1…5")
def _(r):
    """One batch of B rows (B = 1…10) of a range, policy AUTO: sizes of the parts."""
    for n in range(1, 6):
        for b in range(1, 11):
            spec = [rule_a(b, n)]
            r(f"N={n} B={b}", lambda: sizes(split(n, range_batches(b, b))), spec=spec)


@case("split-table-off", "N=2…5")
def _(r):
    """The same, policy OFF."""
    for n in range(2, 6):
        for b in range(1, 11):
            r(f"N={n} B={b}", lambda: sizes(split(n, with_policy(range_batches(b, b), Policy.OFF))), spec=[rule_b(b, n)])


@case("split-policies", "N=3")
def _(r):
    """Ten rows in batches of 7 (7 and 3), from a range and from a file, for every policy, with and without
    drop_remainder."""
    for source in ("range", "file"):
        make = (lambda: tf.data.Dataset.range(10)) if source == "range" else (lambda: file_numbers(1, 10))
        for policy in (Policy.AUTO, Policy.FILE, Policy.DATA, Policy.OFF, Policy.HINT):
            for drop in (False, True):
                b = policy in (Policy.OFF, Policy.FILE) or (policy is Policy.AUTO and source == "file")
                spec = {}
                if policy is not Policy.HINT:
                    first = [[0, 1, 2], [3, 4], [5, 6]] if b else [[0, 1, 2], [3, 4, 5], [6]]
                    last = [[7, 8, 9], [], []] if b else [[7], [8], [9]]
                    spec = dict(spec=[first] if drop else [first, last])
                r(f"{source} {policy.name}{' drop_remainder' if drop else ''}",
                  lambda: split(3, with_policy(make().batch(7, drop_remainder=drop), policy)), **spec)


@case("split-after-batch", "N=2")
def _(r):
    """What may follow `batch`: map, prefetch, repeat, take, shuffle, unbatch; batch size from a batch of a batch."""
    d = lambda: tf.data.Dataset.range(7).batch(4)
    r("map", lambda: split(2, d().map(lambda x: x * 10)), spec=[[[0, 10], [20, 30]], [[40, 50], [60]]])
    r("prefetch", lambda: split(2, d().prefetch(2)), spec=[[[0, 1], [2, 3]], [[4, 5], [6]]])
    r("repeat(2)", lambda: split(2, d().repeat(2)), spec=[[[0, 1], [2, 3]], [[4, 5], [6]]] * 2)
    r("take(1)", lambda: split(2, d().take(1)), spec=[[[0, 1], [2, 3]]])
    r("filter", lambda: split(2, d().filter(lambda x: x[0] > 0)), spec=[[[4, 5], [6]]])
    r("concatenate", lambda: split(2, d().concatenate(d())), spec=[[[0, 1], [2, 3]], [[4, 5], [6]]] * 2)
    r("repeat before batch", lambda: split(2, tf.data.Dataset.range(3).repeat(2).batch(4)), spec=[[[0, 1], [2, 0]], [[1], [2]]])
    r("batch of a batch", lambda: split(2, tf.data.Dataset.range(8).batch(2).batch(2)),
      spec=[[[[0, 1]], [[2, 3]]], [[[4, 5]], [[6, 7]]]])
    r("unbatch", lambda: split(2, d().unbatch()), spec="!InvalidArgument")
    r("padded_batch", lambda: split(2, tf.data.Dataset.range(1, 4).map(lambda x: tf.fill([x], x)).padded_batch(3)))
    r("from_tensors", lambda: split(2, tf.data.Dataset.from_tensors(tf.range(5))), spec=[[[0, 1, 2], [3, 4]]])
    r("generator", lambda: split(2, tf.data.Dataset.from_generator(
        lambda: iter(range(5)), output_signature=tf.TensorSpec([], tf.int64)).batch(4)), spec=[[[0, 1], [2, 3]], [[4], []]])
    r("generator of batches", lambda: split(2, tf.data.Dataset.from_generator(
        lambda: iter([[1, 2, 3], [4]]), output_signature=tf.TensorSpec([None], tf.int64))), spec=[[[1, 2], [3]], [[4], []]])
    r("shuffle, sorted", lambda: Rows(sorted(x for step in split(2, tf.data.Dataset.range(8).shuffle(8, seed=1).batch(4))
                                             for c in step for x in c)), spec=list(range(8)))
    r("empty dataset", lambda: split(2, tf.data.Dataset.range(0).batch(4)), spec=[])


@case("split-components", "N=3")
def _(r):
    """Elements of several components: pictures of [4 rows, 2, 3] and labels [4]; empty replicas keep other sizes; dtypes;
    components of 4 and 2 rows; a scalar component."""
    s = mirrored(3)
    d = tf.data.Dataset.from_tensor_slices((tf.zeros([4, 2, 3], tf.float16), tf.range(4), tf.constant(["a", "b", "c", "d"]))).batch(4)

    def shapes(dataset):
        out = []
        for step in s.experimental_distribute_dataset(dataset):
            out.append([[list(c.shape) for c in s.experimental_local_results(leaf)] for leaf in tf.nest.flatten(step, expand_composites=False)])
        return Rows(out)
    r("shapes", lambda: shapes(d), spec=[[[[2, 2, 3], [2, 2, 3], [0, 2, 3]], [[2], [2], [0]], [[2], [2], [0]]]])
    r("dtypes", lambda: [c.dtype.name for c in s.experimental_local_results(
        next(iter(s.experimental_distribute_dataset(d))))[2]], spec=["float16", "int32", "string"])
    r("4 and 2 rows", lambda: shapes(tf.data.Dataset.from_tensors((tf.zeros([4]), tf.zeros([2])))),
      spec=[[[[2], [2], [0]], [[1], [1], [0]]]])
    r("4 and 2 rows, OFF", lambda: shapes(with_policy(tf.data.Dataset.from_tensors((tf.zeros([4]), tf.zeros([2]))), Policy.OFF)))
    r("a scalar component", lambda: shapes(tf.data.Dataset.from_tensors((tf.zeros([4]), tf.constant(1)))), spec="!InvalidArgument")
    r("a component of no rows", lambda: shapes(tf.data.Dataset.from_tensors((tf.zeros([4]), tf.zeros([0, 5])))),
      spec=[[[[2], [2], [0]], [[0, 5], [0, 5], [0, 5]]]])


@case("partial-steps", "N=3")
def _(r):
    """Shapes of what replicas without data get: per-replica batches from a function, known and unknown sizes; scalars."""
    s = mirrored(3)

    def shapes(make):
        return Rows([[list(c.shape) for c in s.experimental_local_results(step)]
                     for step in s.distribute_datasets_from_function(lambda c: make())])
    r("batches of [2, 5]", lambda: shapes(lambda: tf.data.Dataset.from_tensor_slices(tf.zeros([7, 5])).batch(2)),
      spec=[[[2, 5], [2, 5], [2, 5]], [[1, 5], [0, 5], [0, 5]]])
    r("unknown second size", lambda: shapes(lambda: tf.data.Dataset.from_generator(
        lambda: iter([np.zeros([2, 4], np.float32)]), output_signature=tf.TensorSpec([None, None], tf.float32))),
      spec=[[[2, 4], [0, 0], [0, 0]]])
    r("scalars", lambda: shapes(lambda: tf.data.Dataset.range(4)), spec=[[[], [], []]])
    r("static batches", lambda: shapes(lambda: tf.data.Dataset.from_tensors(tf.zeros([2, 3])).repeat(4)),
      spec=[[[2, 3], [2, 3], [2, 3]]])


@case("get-next-as-optional", "N=2")
def _(r):
    """`next_optional` of range(5).batch(2) from a function; of batches with drop_remainder; of an infinite and of an empty dataset."""
    s = mirrored(2)

    def pull(dataset, n):
        it = iter(s.distribute_datasets_from_function(lambda c: dataset))
        out = []
        for _unused in range(n):
            o = it.get_next_as_optional()
            out.append([c.numpy().tolist() for c in s.experimental_local_results(o.get_value())] if o.has_value() else None)
        return Rows(out)
    r("5 rows", lambda: pull(range_batches(5, 2), 3), spec=[[[0, 1], [2, 3]], [[4], []], None])
    r("after the end", lambda: pull(range_batches(2, 2), 3), spec=[[[0, 1], []], None, None])
    r("drop_remainder, a step that cannot fill", lambda: pull(range_batches(6, 2, True), 3))
    r("infinite", lambda: pull(tf.data.Dataset.range(3).repeat().batch(2), 2), spec=[[[0, 1], [2, 0]], [[1, 2], [0, 1]]])
    r("empty", lambda: pull(range_batches(0, 2), 1), spec=[None])
    it = iter(s.distribute_datasets_from_function(lambda c: range_batches(2, 2)))
    it.get_next_as_optional()
    r("value of nothing", lambda: it.get_next_as_optional().get_value(), spec="!InvalidArgument")
    r("in run", lambda: s.run(lambda: it.get_next_as_optional().has_value()))


@case("element-spec", "N=2; OneDevice; default")
def _(r):
    """element_spec of distributed datasets: batches of 4 and 5 with and without drop_remainder, dicts, from a function, of one
    replica; the same for the iterator."""
    s = mirrored(2)

    def text(x):
        out = []
        for leaf in tf.nest.flatten(x, expand_composites=False):
            specs = leaf._value_specs if type(leaf).__name__ == "PerReplicaSpec" else [leaf]
            out.append([f"{q.dtype.name}{q.shape}" for q in specs])
        return Rows(out)
    distribute = s.experimental_distribute_dataset
    r("batch(4)", lambda: text(distribute(range_batches(8, 4)).element_spec), spec=[["int64(None,)"] * 2])
    r("batch(4, drop_remainder)", lambda: text(distribute(range_batches(8, 4, True)).element_spec), spec=[["int64(2,)"] * 2])
    r("batch(5, drop_remainder)", lambda: text(distribute(range_batches(10, 5, True)).element_spec), spec=[["int64(None,)"] * 2])
    r("batch(4, drop_remainder), OFF", lambda: text(distribute(with_policy(range_batches(8, 4, True), Policy.OFF)).element_spec))
    r("dict of [4, 3]", lambda: text(distribute(tf.data.Dataset.from_tensor_slices(
        {"a": tf.zeros([4, 3]), "b": tf.range(4)}).batch(2)).element_spec), spec=[["float32(None, 3)"] * 2, ["int32(None,)"] * 2])
    r("iterator", lambda: text(iter(distribute(range_batches(8, 4))).element_spec), spec=[["int64(None,)"] * 2])
    fn = lambda drop: s.distribute_datasets_from_function(lambda c: range_batches(8, 4, drop)).element_spec
    r("from function", lambda: text(fn(False)), spec=[["int64(None,)"] * 2])
    r("from function, drop_remainder", lambda: text(fn(True)), spec=[["int64(4,)"] * 2])
    r("one replica", lambda: text(mirrored(1).experimental_distribute_dataset(range_batches(8, 4)).element_spec), spec=[["int64(None,)"]])
    r("one replica, drop_remainder", lambda: text(mirrored(1).experimental_distribute_dataset(range_batches(8, 4, True)).element_spec),
      spec=[["int64(4,)"]])
    r("OneDevice", lambda: text(one_device().experimental_distribute_dataset(range_batches(8, 4)).element_spec), spec=[["int64(None,)"]])


@case("one-replica-input", "N=1")
def _(r):
    """Distributed datasets of one replica: Mirrored, OneDevice, default, CentralStorage: unbatched elements, batches, type of a
    step."""
    for name, s in (("Mirrored", mirrored(1)), ("OneDevice", one_device()), ("default", default()), ("CentralStorage", central(1))):
        r(f"{name}: unbatched", lambda: rows(s, s.experimental_distribute_dataset(tf.data.Dataset.range(3))))
        r(f"{name}: batches", lambda: rows(s, s.experimental_distribute_dataset(range_batches(5, 2))), spec=[[[0, 1]], [[2, 3]], [[4]]])
        r(f"{name}: first step", lambda: next(iter(s.experimental_distribute_dataset(range_batches(5, 2)))))
        r(f"{name}: from function", lambda: rows(s, s.distribute_datasets_from_function(lambda c: range_batches(3, 2))), spec=[[[0, 1]], [[2]]])


@case("central-storage-input", "N=2, CentralStorage")
def _(r):
    """CentralStorage of two: splitting and from a function; an incomplete last step."""
    s = central(2)
    r("split", lambda: rows(s, s.experimental_distribute_dataset(range_batches(7, 4))), spec=[[[0, 1], [2, 3]], [[4, 5], [6]]])
    r("from function", lambda: rows(s, s.distribute_datasets_from_function(lambda c: range_batches(5, 2))),
      spec=[[[0, 1], [2, 3]], [[4], []]])
    box = []
    s.distribute_datasets_from_function(lambda c: (box.append([c.num_input_pipelines, c.input_pipeline_id, c.num_replicas_in_sync]),
                                                   range_batches(4, 2))[1])
    r("context", lambda: Rows(box), spec=[[1, 0, 2]])


# ---- more cases: several workers

@case("workers-table", "W x R, range, policies")
def _(r):
    """Steps of W workers of R replicas for ranges of rows in batches of G, policies AUTO (by data), OFF and FILE (4 files of 3
    lines: file·100 + line)."""
    auto = {
        (8, 8, 2, 2): [[[0, 1], [4, 5], [2, 3], [6, 7]]],
        (14, 8, 2, 1): [[[0, 1, 2, 3], [4, 5, 6, 7]], [[8, 9, 10], [11, 12, 13]]],
        (6, 8, 2, 2): [[[0, 1], [4, 5], [2, 3], []]],
        (5, 4, 2, 2): [[[0], [2], [1], [3]], [[4], [], [], []]],
        (9, 4, 3, 1): [[[0, 1], [2, 3], []], [[4, 5], [6, 7], []], [[8], [], []]],
        (7, 3, 2, 1): None, (13, 6, 2, 2): None, (10, 4, 2, 2): None,
    }
    for (n, g, w, k), expected in auto.items():
        extra = {} if expected is None else dict(spec=expected)
        r(f"AUTO rows {n}, G={g}, {w}x{k}", lambda: distributed(w, k, range_batches(n, g)), **extra)
        r(f"DATA rows {n}, G={g}, {w}x{k}", lambda: distributed(w, k, with_policy(range_batches(n, g), Policy.DATA)), **extra)
        r(f"OFF rows {n}, G={g}, {w}x{k}", lambda: distributed(w, k, with_policy(range_batches(n, g), Policy.OFF)))
    for g in (4, 6, 5):
        for w, k in ((2, 1), (2, 2), (4, 1)):
            r(f"FILE 4x3, G={g}, {w}x{k}", lambda: distributed(w, k, with_policy(file_numbers(4, 3).batch(g), Policy.FILE)))
            r(f"AUTO files 4x3, G={g}, {w}x{k}", lambda: distributed(w, k, with_policy(file_numbers(4, 3).batch(g), Policy.AUTO)))
    r("AUTO rows 8, G=4, 2x1, drop_remainder", lambda: distributed(2, 1, range_batches(8, 4, True)))
    r("AUTO rows 9, G=4, 2x1, drop_remainder", lambda: distributed(2, 1, range_batches(9, 4, True)))
    r("N=3 over W=2", lambda: input_util.get_distributed_dataset(range_batches(6, 3), workers(2, 1)[1], mirrored(2), num_replicas_in_sync=3),
      spec="!InvalidArgument")


@case("shard-table", "W=2 or more, no split")
def _(r):
    """One worker's share: policies by source; zips, concatenations and shuffles of files; several files of a worker; hints; a
    worker that is not there."""
    paths = text_files(4, 2)
    lines = lambda p: tf.data.TextLineDataset(p).map(lambda x: tf.strings.to_number(x, tf.int64))
    both = lambda d, policy=None: Rows([list(shard(d, 2, w, policy)) for w in range(2)])
    r("files AUTO", lambda: both(lines(paths), Policy.AUTO), spec=[[0, 1, 200, 201], [100, 101, 300, 301]])
    r("files DATA", lambda: both(lines(paths), Policy.DATA), spec=[[0, 100, 200, 300], [1, 101, 201, 301]])
    r("files OFF", lambda: both(lines(paths), Policy.OFF), spec=[[0, 1, 100, 101, 200, 201, 300, 301]] * 2)
    r("files HINT without a hint", lambda: both(lines(paths), Policy.HINT))
    r("range AUTO", lambda: both(tf.data.Dataset.range(5), Policy.AUTO), spec=[[0, 2, 4], [1, 3]])
    r("range FILE", lambda: both(tf.data.Dataset.range(5), Policy.FILE), spec="!NotFound")
    hinted = tf.data.Dataset.range(6).shard(tf.data.experimental.SHARD_HINT, tf.data.experimental.SHARD_HINT).map(lambda x: x * 10)
    r("range HINT", lambda: both(hinted, Policy.HINT), spec=[[0, 20, 40], [10, 30, 50]])
    r("hint with AUTO", lambda: both(hinted, Policy.AUTO))
    r("hint with OFF", lambda: both(hinted, Policy.OFF))
    r("hint, not sharded", lambda: Rows(x.numpy().tolist() for x in hinted))
    r("files, batched and mapped", lambda: both(lines(paths).batch(2).map(lambda x: x + 1), Policy.AUTO),
      spec=[[[1, 2], [201, 202]], [[101, 102], [301, 302]]])
    r("concatenation", lambda: both(lines(paths[:2]).concatenate(lines(paths[2:])), Policy.FILE), spec=[[0, 1, 200, 201], [100, 101, 300, 301]])
    r("zip", lambda: Rows([[[int(a), int(b)] for a, b in input_ops.auto_shard_dataset(
        with_policy(tf.data.Dataset.zip((lines(paths), lines(paths))), Policy.FILE), 2, w, 2)] for w in range(2)]),
      spec=[[[0, 0], [1, 1], [200, 200], [201, 201]], [[100, 100], [101, 101], [300, 300], [301, 301]]])
    r("interleaved files", lambda: both(tf.data.Dataset.from_tensor_slices(paths).interleave(lines, cycle_length=4), Policy.AUTO))
    r("flat_map over files", lambda: both(tf.data.Dataset.from_tensor_slices(paths).flat_map(lines), Policy.AUTO),
      spec=[[0, 1, 200, 201], [100, 101, 300, 301]])
    r("list_files, shuffled: union", lambda: Rows(sorted(x for w in both(tf.data.Dataset.list_files(
        os.path.join(os.path.dirname(paths[0]), "*.txt"), seed=1).flat_map(lines), Policy.AUTO) for x in w)),
      spec=[0, 1, 100, 101, 200, 201, 300, 301])
    r("files, repeat(2)", lambda: both(lines(paths).repeat(2), Policy.AUTO), spec=[[0, 1, 200, 201] * 2, [100, 101, 300, 301] * 2])
    r("3 files, 2 workers", lambda: both(lines(paths[:3]), Policy.FILE), spec=[[0, 1, 200, 201], [100, 101]])
    r("1 file, 2 workers, FILE", lambda: shard(lines(paths[:1]), 2, 0, Policy.FILE))
    r("1 file, 2 workers, FILE, worker 1", lambda: shard(lines(paths[:1]), 2, 1, Policy.FILE))
    r("1 file, 2 workers, AUTO", lambda: shard(lines(paths[:1]), 2, 0, Policy.AUTO))
    r("1 file, 2 workers, AUTO, worker 1", lambda: shard(lines(paths[:1]), 2, 1, Policy.AUTO))
    r("range(1), worker 0 of 2", lambda: shard(tf.data.Dataset.range(1), 2, 0, Policy.DATA), spec="!InvalidArgument")
    r("range(1), worker 1 of 2", lambda: shard(tf.data.Dataset.range(1), 2, 1, Policy.DATA), spec=[])
    r("range(2), both", lambda: both(tf.data.Dataset.range(2), Policy.DATA), spec=[[0], [1]])
    r("worker 2 of 2", lambda: shard(tf.data.Dataset.range(4), 2, 2, Policy.AUTO), spec="!InvalidArgument")
    r("worker -1 of 2", lambda: shard(tf.data.Dataset.range(4), 2, -1, Policy.AUTO), spec="!InvalidArgument")
    r("worker 0 of 0", lambda: shard(tf.data.Dataset.range(4), 0, 0, Policy.AUTO), spec="!InvalidArgument")
    r("one worker, FILE, range", lambda: shard(tf.data.Dataset.range(4), 1, 0, Policy.FILE))
    r("Dataset.shard(3, 1) of range(8)", lambda: Rows(x.numpy().tolist() for x in tf.data.Dataset.range(8).shard(3, 1)), spec=[1, 4, 7])
    r("Dataset.shard(0, 0)", lambda: list(tf.data.Dataset.range(8).shard(0, 0)), spec="!InvalidArgument")
    r("Dataset.shard(2, 2)", lambda: list(tf.data.Dataset.range(8).shard(2, 2)), spec="!InvalidArgument")


@case("workers-from-function", "W=2, R=2")
def _(r):
    """The contexts that fn gets and the order of calls; workers of 3 and 5 batches; one without any; scalars."""
    seen = []

    def fn(c):
        seen.append([c.num_input_pipelines, c.input_pipeline_id, c.num_replicas_in_sync])
        return range_batches(4, 2)
    r("steps", lambda: from_function(2, 2, fn), spec=[[[0, 1], [2, 3], [0, 1], [2, 3]]])
    r("contexts", lambda: Rows(seen), spec=[[2, 0, 4], [2, 1, 4]])
    r("6 and 10 rows in twos", lambda: from_function(2, 2, lambda c: range_batches(6 + 4 * c.input_pipeline_id, 2)),
      spec=[[[0, 1], [2, 3], [0, 1], [2, 3]], [[4, 5], [], [4, 5], [6, 7]], [[], [], [8, 9], []]])
    r("worker 1 has none", lambda: from_function(2, 2, lambda c: range_batches(4 * (1 - c.input_pipeline_id), 2)),
      spec=[[[0, 1], [2, 3], [], []]])
    r("neither has any", lambda: from_function(2, 2, lambda c: range_batches(0, 2)), spec=[])
    r("not a dataset", lambda: from_function(2, 2, lambda c: 7), spec="!InvalidArgument")


@case("balanced-cycles", "G, W, R")
def _(r):
    """Size cycles of every worker (Rule B)."""
    for g, w, k in ((6, 2, 2), (8, 3, 1), (5, 1, 3), (1, 2, 2), (0, 1, 2), (10, 2, 2), (16, 2, 4)):
        for i in range(w):
            n = w * k
            base = [g // n + 1] * (g % n) + [g // n] * (n - g % n)
            r(f"G={g} W={w} R={k} worker {i}", lambda: cycle(g, w, k, i), spec=base[i * k:] + base[:i * k])


# ---- more cases: options, numpy, contexts

@case("input-options", "N=2")
def _(r):
    """InputOptions: defaults; per-replica mode for `distribute_dataset` and from a function (how often fn is called, with
    which context); options that contradict; buffer sizes; where components are."""
    s = mirrored(2)
    o = Options()
    r("defaults", lambda: [o.experimental_fetch_to_device, o.experimental_replication_mode.name, o.experimental_place_dataset_on_device,
                           o.experimental_per_replica_buffer_size], spec=[True, "PER_WORKER", False, 1])
    mode = tf.distribute.InputReplicationMode
    per = Options(experimental_replication_mode=mode.PER_REPLICA)
    r("per-replica, distribute_dataset", lambda: s.experimental_distribute_dataset(range_batches(4, 2), per), spec="!Unimplemented")
    seen = []

    def fn(c):
        seen.append([c.num_input_pipelines, c.input_pipeline_id, c.num_replicas_in_sync])
        return range_batches(4, 2).map(lambda x: x + 10 * c.input_pipeline_id)
    t = mirrored(2)
    r("per-replica, from function", lambda: rows(t, t.distribute_datasets_from_function(fn, per)), spec=[[[0, 1], [10, 11]], [[2, 3], [12, 13]]])
    r("per-replica: contexts", lambda: Rows(seen), spec=[[2, 0, 2], [2, 1, 2]])
    r("per-replica, OneDevice", lambda: one_device().distribute_datasets_from_function(fn, per), spec="!Unimplemented")
    on_device = Options(experimental_place_dataset_on_device=True)
    r("on device without per-replica", lambda: s.distribute_datasets_from_function(fn, on_device), spec="!InvalidArgument")
    both = Options(experimental_place_dataset_on_device=True, experimental_replication_mode=mode.PER_REPLICA)
    r("on device with fetch_to_device", lambda: s.distribute_datasets_from_function(fn, both), spec="!InvalidArgument")
    s = mirrored(2)  # TensorFlow keeps the per-replica mode of the calls above in the strategy
    where = lambda options: [tf.DeviceSpec.from_string(c.device).device_index for c in s.experimental_local_results(
        next(iter(s.experimental_distribute_dataset(range_batches(4, 2), options))))]
    r("components' devices", lambda: where(None), spec=[0, 1])
    r("components' devices, not fetched", lambda: where(Options(experimental_fetch_to_device=False)), spec=[0, 0])
    for n in (0, 1, 3, -1):
        r(f"buffer size {n}", lambda: rows(s, s.experimental_distribute_dataset(
            range_batches(4, 2), Options(experimental_per_replica_buffer_size=n))),
          spec="!InvalidArgument" if n < 0 else [[[0], [1]], [[2], [3]]])


@case("input-contexts", "")
def _(r):
    """InputContext and ValueContext: defaults; per-replica sizes of 0 and of a size below N."""
    c = tf.distribute.InputContext()
    r("defaults", lambda: [c.num_input_pipelines, c.input_pipeline_id, c.num_replicas_in_sync], spec=[1, 0, 1])
    c = tf.distribute.InputContext(1, 0, 4)
    r("0 of 4", lambda: c.get_per_replica_batch_size(0), spec=0)
    r("2 of 4", lambda: c.get_per_replica_batch_size(2), spec="!InvalidArgument")
    v = tf.distribute.experimental.ValueContext()
    r("value context defaults", lambda: [v.replica_id_in_sync_group, v.num_replicas_in_sync], spec=[0, 1])


@case("numpy-table", "N=2")
def _(r):
    """`make_numpy_dataset` of rank 2, of a nest, of no rows, of a list of unequal shapes; in run; that the arrays are copied."""
    s = mirrored(2)
    make = lambda v: s.extended.experimental_make_numpy_dataset(v)
    r("rank 2", lambda: Rows(x.numpy().tolist() for x in make(np.array([[1, 2], [3, 4]]))), spec=[[1, 2], [3, 4]])
    r("no rows", lambda: Rows(x.numpy().tolist() for x in make(np.zeros([0, 3]))), spec=[])
    r("nest", lambda: Rows([int(e["a"]), int(e["b"][0])] for e in make({"a": np.array([1, 2]), "b": (np.array([3, 4]),)})),
      spec=[[1, 3], [2, 4]])
    r("list of unequal shapes", lambda: list(make([np.array([1, 2]), np.array([3])])), spec="!InvalidArgument")
    r("a number", lambda: list(make(np.float32(3))), spec="!InvalidArgument")
    r("in run", lambda: s.run(lambda: make(np.array([1])) and 1), spec="!ContextError")
    a = np.array([1, 2])
    d = make(a)
    a[0] = 9
    r("changed afterwards", lambda: Rows(int(x) for x in d), spec=[1, 2])
    r("default strategy", lambda: Rows(int(x) for x in default().extended.experimental_make_numpy_dataset(np.array([1, 2]))), spec=[1, 2])


@case("run-over-dataset", "N=2")
def _(r):
    """A training loop's reductions over range(10).batch(4): per-replica sums reduced, means along axis 0, row counts; and a
    loop over the distributed dataset inside a traced function."""
    s = mirrored(2)
    d = s.experimental_distribute_dataset(tf.data.Dataset.range(10).map(lambda x: tf.cast(x, tf.float32)).batch(4))
    r("sums", lambda: Rows(float(s.reduce(SUM, s.run(tf.reduce_sum, args=(x,)), axis=None)) for x in d), spec=[6, 22, 17])
    r("means, axis 0", lambda: Rows(float(s.reduce(MEAN, x, axis=0)) for x in d), spec=[1.5, 5.5, 8.5])
    r("rows", lambda: Rows(int(s.reduce(SUM, s.run(tf.size, args=(x,)), axis=None)) for x in d), spec=[4, 4, 2])

    @tf.function
    def total(dataset):
        t = 0.0
        for x in dataset:
            t += s.reduce(SUM, s.run(tf.reduce_sum, args=(x,)), axis=None)
        return t
    r("in a function", lambda: total(d), spec=45)
