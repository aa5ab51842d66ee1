"""Reads the CSV file that lockstep_bench_readers has made, in READERS_FOLDER, with Python's csv, pandas and PyArrow, each on
one thread: MB for each second of the processor, the best of five passes. A package that is not there is left out."""
import csv
import os
import time

PATH = os.path.join(os.environ["READERS_FOLDER"], "lockstep_readers_numbers.csv")


def best(read):
    times = []
    for _ in range(5):
        begin = time.process_time()
        read()
        times.append(time.process_time() - begin)
    return os.path.getsize(PATH) / min(times) / 1e6


def python_csv():
    with open(PATH, newline="") as file:
        for row in csv.reader(file):
            int(row[0]), int(row[1]), float(row[2]), float(row[3])


print(f"Python's csv     {best(python_csv):8.1f} MB/s")
try:
    import numpy
    import pandas
    types = {0: numpy.int64, 1: numpy.int32, 2: numpy.float32, 3: numpy.float32}
    speed = best(lambda: pandas.read_csv(PATH, header=None, dtype=types, engine="c"))
    print(f"pandas {pandas.__version__:9} {speed:8.1f} MB/s")
except ImportError as error:
    print(error)
try:
    import pyarrow
    from pyarrow import csv as arrow_csv
    names = ["a", "b", "c", "d"]
    types = dict(zip(names, (pyarrow.int64(), pyarrow.int32(), pyarrow.float32(), pyarrow.float32())))
    speed = best(lambda: arrow_csv.read_csv(
        PATH, read_options=arrow_csv.ReadOptions(column_names=names, use_threads=False),
        convert_options=arrow_csv.ConvertOptions(column_types=types)))
    print(f"PyArrow {pyarrow.__version__:8} {speed:8.1f} MB/s")
except ImportError as error:
    print(error)
