"""Reads the files that lockstep_bench_readers has made, in READERS_FOLDER, on one thread: the time of the processor for each
file, the best of five passes.

    readers.py csv|pandas|pyarrow|tensorflow
"""
import csv
import os
import sys
import time

import peer

FOLDER = os.environ["READERS_FOLDER"]


def path_of(name):
    return os.path.join(FOLDER, "lockstep_readers_" + name)


NUMBERS = path_of("numbers.csv")
NAMES = ["a", "b", "c", "d"]


def best_us(read):
    times = []
    for _ in range(5):
        begin = time.process_time()
        read()
        times.append(time.process_time() - begin)
    return min(times) * 1e6


def python_csv():
    def read():
        with open(NUMBERS, newline="", encoding="ascii") as file:
            for row in csv.reader(file):
                int(row[0]), int(row[1]), float(row[2]), float(row[3])
    return "Python's csv", sys.version.split()[0], {"csv": read}


def pandas_csv():
    import numpy
    import pandas
    types = dict(zip(range(4), (numpy.int64, numpy.int32, numpy.float32, numpy.float32)))
    return "pandas", pandas.__version__, {
        "csv": lambda: pandas.read_csv(NUMBERS, header=None, dtype=types, engine="c")}


def pyarrow_csv():
    import pyarrow
    from pyarrow import csv as arrow_csv
    types = dict(zip(NAMES, (pyarrow.int64(), pyarrow.int32(), pyarrow.float32(), pyarrow.float32())))
    return "PyArrow", pyarrow.__version__, {"csv": lambda: arrow_csv.read_csv(
        NUMBERS, read_options=arrow_csv.ReadOptions(column_names=NAMES, use_threads=False),
        convert_options=arrow_csv.ConvertOptions(column_types=types))}


def tensorflow():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    def pass_over(dataset):
        options = tf.data.Options()
        options.threading.private_threadpool_size = 1
        dataset = dataset.with_options(options)
        return lambda: sum(1 for _ in dataset)

    types = [tf.int64, tf.int32, tf.float32, tf.float32]
    return "tf.data", tf.__version__, {
        "csv": pass_over(tf.data.experimental.CsvDataset(NUMBERS, types).batch(1024)),
        "lines of 80": pass_over(tf.data.TextLineDataset(path_of("lines_80.txt")).batch(1024)),
        "lines of 1000": pass_over(tf.data.TextLineDataset(path_of("lines_1000.txt")).batch(64)),
        "TFRecords of 4096": pass_over(tf.data.TFRecordDataset(path_of("tf_4096")).batch(64)),
        "TFRecords of 131072": pass_over(tf.data.TFRecordDataset(path_of("tf_131072")).batch(4))}


PACKAGES = {"csv": python_csv, "pandas": pandas_csv, "pyarrow": pyarrow_csv, "tensorflow": tensorflow}
if len(sys.argv) != 2 or sys.argv[1] not in PACKAGES:
    sys.exit(__doc__)
name, version, passes = peer.import_or_skip(PACKAGES[sys.argv[1]])
peer.report(name, version, [peer.result("read " + what, 1, 0, best_us(read), 0) for what, read in passes.items()])
