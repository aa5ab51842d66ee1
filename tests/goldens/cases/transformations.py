"""Transformations of datasets: elements, cardinality, element_spec."""
import itertools

import tensorflow as tf

from .framework import *

D = tf.data.Dataset


def elements(dataset, limit=60):
    return Rows(x.numpy().tolist() for x in dataset.take(limit))


def windows(dataset, *arguments, **options):
    """Windows as batches."""
    return dataset.window(*arguments, **options).flat_map(lambda w: w.batch(1000))


def cardinality(dataset):
    return int(dataset.cardinality().numpy())


@case("transform-window", "size, shift, stride, drop_remainder", known=False)
def _(r):
    """Windows over range(n), stacked."""
    for n, size, shift, stride, drop in itertools.product((0, 7), (1, 3), (1, 2, 4), (1, 2), (False, True)):
        r(f"n={n} size={size} shift={shift} stride={stride} drop={drop}",
          lambda: elements(windows(D.range(n), size, shift, stride, drop)))
    r("the default shift", lambda: elements(windows(D.range(7), 3)))
    r("rows", lambda: elements(windows(D.range(12).batch(2), 2, 1, drop_remainder=True)))
    for name, arguments in {"size 0": (0,), "shift 0": (2, 0), "stride 0": (2, 1, 0)}.items():
        r(name, lambda: elements(windows(D.range(7), *arguments)))


@case("transform-window-cardinality", "size, shift, stride, drop_remainder")
def _(r):
    """The number of windows, without reading them."""
    for n, size, shift, stride, drop in itertools.product((0, 1, 6, 7), (1, 3), (1, 4), (1, 2), (False, True)):
        r(f"n={n} size={size} shift={shift} stride={stride} drop={drop}",
          lambda: cardinality(D.range(n).window(size, shift, stride, drop)))
    r("infinite", lambda: cardinality(D.range(3).repeat().window(2)))
    r("unknown", lambda: cardinality(D.range(3).filter(lambda x: True).window(2)))


@case("transform-unbatch", "")
def _(r):
    """Rows of batches, one by one."""
    for n, batch in itertools.product((0, 1, 5, 6), (1, 2, 3)):
        r(f"n={n} batch={batch}", lambda: elements(D.range(n).batch(batch).unbatch()))
        r(f"n={n} batch={batch} cardinality", lambda: cardinality(D.range(n).batch(batch).unbatch()))
        r(f"n={n} batch={batch} drop cardinality", lambda: cardinality(D.range(n).batch(batch, True).unbatch()))
    r("of rank 2", lambda: elements(D.from_tensor_slices([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]).unbatch()))
    r("twice", lambda: elements(D.from_tensor_slices([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]).unbatch().unbatch()))
    r("batched anew", lambda: elements(D.range(7).batch(3).unbatch().batch(2)))
    r("repeated", lambda: elements(D.range(5).batch(2).unbatch().repeat(2)))
    r("infinite", lambda: cardinality(D.range(5).batch(2).repeat().unbatch()))
    r("scalars", lambda: elements(D.range(5).unbatch()))


@case("transform-take-while", "")
def _(r):
    """The elements before the first that fails the predicate."""
    for n, stop in itertools.product((0, 1, 6), (0, 1, 3, 9)):
        r(f"n={n} stop={stop}", lambda: elements(D.range(n).take_while(lambda x: x < stop)))
    r("only the first stretch", lambda: elements(D.range(9).take_while(lambda x: x % 4 != 3)))
    r("repeated", lambda: elements(D.range(9).take_while(lambda x: x < 2).repeat(3)))
    r("cardinality", lambda: cardinality(D.range(9).take_while(lambda x: x < 2)))
    r("cardinality of an infinite one", lambda: cardinality(D.range(9).repeat().take_while(lambda x: x < 2)))


@case("transform-enumerate", "")
def _(r):
    """Numbers beside elements."""
    for n, start in itertools.product((0, 3), (0, 5, -2)):
        r(f"n={n} start={start} numbers", lambda: elements(D.range(n).enumerate(start).map(lambda i, x: i)))
        r(f"n={n} start={start} elements", lambda: elements(D.range(n).enumerate(start).map(lambda i, x: x)))
        r(f"n={n} start={start} cardinality", lambda: cardinality(D.range(n).enumerate(start)))
    r("repeated, then numbered", lambda: elements(D.range(2).repeat(2).enumerate().map(lambda i, x: i)))
    r("numbered, then repeated", lambda: elements(D.range(2).enumerate().repeat(2).map(lambda i, x: i)))
    r("batches", lambda: elements(D.range(5).batch(2).enumerate().map(lambda i, x: x)))


@case("transform-flat-map", "")
def _(r):
    """The datasets that a function makes, one after the other."""
    for n in (0, 1, 4):
        r(f"range of the element, n={n}", lambda: elements(D.range(n).flat_map(D.range)))
        r(f"two of each, n={n}", lambda: elements(D.range(n).flat_map(lambda x: D.from_tensors(x).repeat(2))))
        r(f"cardinality, n={n}", lambda: cardinality(D.range(n).flat_map(D.range)))
    r("nested", lambda: elements(D.range(4).flat_map(lambda x: D.range(x).flat_map(D.range))))
    r("batches", lambda: elements(D.range(4).flat_map(lambda x: D.range(x).batch(2))))
    r("repeated", lambda: elements(D.range(3).flat_map(D.range).repeat(2)))


@case("transform-scan", "")
def _(r):
    """Running sums, and states of another kind than the results."""
    running = lambda s, x: (s + x, s + x)
    for n, first in itertools.product((0, 1, 5), (0, 10)):
        r(f"n={n} first={first}", lambda: elements(D.range(n).scan(tf.constant(first, tf.int64), running)))
        r(f"n={n} first={first} cardinality",
          lambda: cardinality(D.range(n).scan(tf.constant(first, tf.int64), running)))
    r("differences", lambda: elements(D.range(9).map(lambda x: x * x).scan(tf.constant(0, tf.int64),
                                                                           lambda s, x: (x, x - s))))
    r("each pass anew", lambda: elements(D.range(3).scan(tf.constant(0, tf.int64), running).repeat(2)))
    r("over repetitions", lambda: elements(D.range(3).repeat(2).scan(tf.constant(0, tf.int64), running)))


@case("transform-choose", "")
def _(r):
    """Elements of the dataset that another dataset names."""
    of = lambda *lengths: [D.range(100 * i, 100 * i + n) for i, n in enumerate(lengths)]
    choose = lambda datasets, choices, stop: D.choose_from_datasets(datasets, choices, stop_on_empty_dataset=stop)
    for stop in (False, True):
        for lengths in ((3, 3), (1, 4), (0, 2), (4, 1, 2)):
            in_turn = D.range(len(lengths)).repeat(4)
            r(f"{lengths} in turn, stop={stop}", lambda: elements(choose(of(*lengths), in_turn, stop)))
            blocks = D.range(len(lengths)).flat_map(lambda x: D.from_tensors(x).repeat(2)).repeat(2)
            r(f"{lengths} in pairs, stop={stop}", lambda: elements(choose(of(*lengths), blocks, stop)))
        r(f"without end, stop={stop}", lambda: elements(choose(of(2, 2), D.range(2).repeat(), stop)))
        r(f"an index too large, stop={stop}", lambda: elements(choose(of(2, 2), D.range(3), stop)))
        r(f"cardinality, stop={stop}", lambda: cardinality(choose(of(2, 2), D.range(2), stop)))
    r("one dataset", lambda: elements(choose(of(3), D.range(1).repeat(), True)))
    r("no datasets", lambda: elements(choose([], D.range(1), True)))
    r("other dtypes", lambda: elements(choose([D.range(2), D.range(2, output_type=tf.int32)], D.range(2), True)))


@case("transform-sample", "")
def _(r):
    """What does not depend on the draw."""
    of = lambda *lengths: [D.range(100 * i, 100 * i + n) for i, n in enumerate(lengths)]
    sample = D.sample_from_datasets
    for stop in (False, True):
        r(f"all weight on one, stop={stop}",
          lambda: elements(sample(of(3, 3), [0.0, 1.0], seed=1, stop_on_empty_dataset=stop)))
        r(f"one dataset, stop={stop}", lambda: elements(sample(of(4), seed=1, stop_on_empty_dataset=stop)))
        r(f"empty datasets, stop={stop}", lambda: elements(sample(of(0, 0), seed=1, stop_on_empty_dataset=stop)))
    r("all of all", lambda: Rows(sorted(elements(sample(of(3, 5, 2), seed=1, stop_on_empty_dataset=False)))))
    r("two weights for three", lambda: elements(sample(of(1, 1, 1), [0.5, 0.5])))


@case("transform-ignore-errors", "")
def _(r):
    """Elements that throw are left out."""
    bad = lambda x: tf.debugging.check_numerics(1.0 / tf.cast(x % 3, tf.float32), "bad")
    for n in (0, 1, 7):
        r(f"n={n}", lambda: elements(D.range(n).map(bad).ignore_errors()))
        r(f"n={n} cardinality", lambda: cardinality(D.range(n).map(bad).ignore_errors()))
    r("batched", lambda: elements(D.range(7).map(bad).ignore_errors().batch(2)))


def ragged(*lengths):
    """Rows 1, 2, … of given lengths."""
    return D.from_generator(lambda: ([10 * i + k for k in range(1, n + 1)] for i, n in enumerate(lengths)),
                            output_signature=tf.TensorSpec([None], tf.int64))


@case("transform-padded-batch", "")
def _(r):
    """Elements of different lengths, padded."""
    for lengths, batch, drop in itertools.product(((), (2,), (1, 3, 2), (0, 2, 0, 1), (3, 1, 4, 1, 5)), (1, 2, 3),
                                                  (False, True)):
        r(f"{lengths} batch={batch} drop={drop}",
          lambda: elements(ragged(*lengths).padded_batch(batch, drop_remainder=drop)))
    r("a value", lambda: elements(ragged(1, 2).padded_batch(2, padding_values=tf.constant(-1, tf.int64))))
    r("a shape", lambda: elements(ragged(1, 2).padded_batch(2, padded_shapes=[4])))
    r("too short a shape", lambda: elements(ragged(1, 2).padded_batch(2, padded_shapes=[1])))
    r("another rank", lambda: elements(ragged(1, 2).padded_batch(2, padded_shapes=[2, 2])))
    r("scalars", lambda: elements(D.range(5).padded_batch(2)))
    square = lambda x: tf.reshape(tf.range(x * (x + 1)), [x, x + 1])
    r("of rank 2", lambda: elements(D.range(4).map(square).padded_batch(2)))
    r("of rank 2 to a width", lambda: elements(D.range(4).map(square).padded_batch(4, padded_shapes=[None, 5])))
    r("cardinality", lambda: cardinality(D.range(5).padded_batch(2)))
    r("cardinality, drop", lambda: cardinality(D.range(5).padded_batch(2, drop_remainder=True)))
    r("size 0", lambda: elements(ragged(1).padded_batch(0)))


@case("transform-bucket", "boundaries, batch sizes")
def _(r):
    """Batches of elements of about the same length."""
    bucket = lambda lengths, boundaries, sizes, **options: ragged(*lengths).bucket_by_sequence_length(
        tf.size, boundaries, sizes, **options)
    for lengths in ((), (1,), (1, 2, 3, 4), (4, 3, 2, 1), (3, 1, 4, 1, 5, 2, 6, 5), (0, 0, 7)):
        for drop in (False, True):
            r(f"{lengths} in three, drop={drop}",
              lambda: elements(bucket(lengths, [2, 4], [2, 2, 2], drop_remainder=drop)))
        r(f"{lengths} in two", lambda: elements(bucket(lengths, [3], [3, 1])))
        r(f"{lengths} to the boundary", lambda: elements(bucket(lengths, [3, 9], [2, 2, 1], pad_to_bucket_boundary=True)))
    r("a value", lambda: elements(bucket((1, 2, 1), [5], [3, 1], padding_values=tf.constant(-1, tf.int64))))
    r("longer than the boundaries",
      lambda: elements(bucket((1, 5), [3], [1, 1], pad_to_bucket_boundary=True)))
    r("one batch size short", lambda: elements(bucket((1,), [2, 4], [2, 2])))
