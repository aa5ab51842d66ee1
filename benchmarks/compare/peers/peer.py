"""What the Python peers share: their options, the JSON they print, and how they say that their library is not there."""

import argparse
import json
import socket
import sys
import time

NOT_INSTALLED = 77

# The input pipeline that is compared: one pass over a table in memory, shuffled whole, split over the replicas.
BATCH_ROWS, ROW_FLOATS = 256, 784
BATCH_BYTES = BATCH_ROWS * ROW_FLOATS * 4


def import_or_skip(load):
    """load()'s result; ends the program with NOT_INSTALLED and a line that says why where that fails."""
    try:
        return load()
    except (ImportError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(NOT_INSTALLED)


def arguments(description, operations):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("operation", choices=operations)
    parser.add_argument("--ranks", type=int, default=2, help="processes or replicas [2]")
    parser.add_argument("--sweep", action="append", default=[], type=sweep, metavar="FIRST:LAST:FACTOR",
                        help="sizes of all_reduce in bytes; several are possible")
    parser.add_argument("--seconds", type=float, default=0.1, help="that the iterations of one size shall take [0.1]")
    parser.add_argument("--rows", type=int, default=61_440, help="of input's table [61440]")
    return parser.parse_args()


def sweep(text):
    first, last, factor = (int(part) for part in text.split(":"))
    if first < 4 or last < first or factor < 2:
        raise ValueError(text)
    return first, last, factor


def sizes(swept):
    first, last, factor = swept
    while first <= last:
        yield first
        first *= factor


def result(operation, ranks, size, time_us, wrong, in_place=False):
    return {"operation": operation, "ranks": ranks, "size": size, "in_place": in_place, "time": time_us, "wrong": wrong}


def report(peer, version, results):
    print(json.dumps({"peer": peer, "version": version, "results": results}, indent=1))


def seconds_per_call(call, budget):
    """The mean of as many calls as fit into `budget` seconds, after some to warm up."""
    for _ in range(5):
        call()
    start = time.perf_counter()
    call()
    count = max(3, int(budget / max(time.perf_counter() - start, 1e-9)))
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def worker_environments(count):
    """The TF_CONFIG of each worker of a cluster of `count` on this machine."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return [{"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})}
            for index in range(count)]


def input_result(ranks, rows, make_pass, row_numbers):
    """The time of a batch over one pass, after one to warm up. make_pass() gives a pass over the batches, each
    a list of the replicas' parts; the table holds its rows' numbers in its first column, which row_numbers(part) reads."""
    seen = [number for parts in make_pass() for part in parts for number in row_numbers(part)]
    wrong = len(set(range(rows)) ^ set(seen)) + abs(len(seen) - rows) + (seen == sorted(seen))
    start = time.perf_counter()
    count = sum(part.shape[0] for parts in make_pass() for part in parts)
    seconds = time.perf_counter() - start
    wrong += abs(count - rows)
    return result("input", ranks, BATCH_BYTES, 1e6 * seconds / (rows / BATCH_ROWS), int(wrong))
