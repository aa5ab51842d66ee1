"""The bars that lockstep shall reach, and what was measured beside each."""

import statistics
from dataclasses import dataclass, field

from samples import LOCKSTEP

KIB, MIB = 1 << 10, 1 << 20

# Axis reductions of 64 MiB of f32, [outer, axis, inner]: one for each row of the kernels' table of shapes.
AXIS_SHAPES = {
    "all to one": (1, 1 << 24, 1),
    "rows of 512 B": (1 << 17, 1 << 7, 1),
    "rows of 64 KiB": (1 << 10, 1 << 14, 1),
    "a few long rows": (4, 1 << 22, 1),
    "columns of 2 KiB": (1 << 6, 1 << 9, 1 << 9),
    "columns of 16 B": (1 << 10, 1 << 12, 4),
    "a short axis": (1 << 6, 8, 1 << 15),
}
OPERATORS = ("avg", "min", "max", "prod")  # beside sum
LIBTORCH = "LibTorch"  # the program that has lockstep's DistributedDataParallel
READERS = "lockstep_bench_readers"  # the program that reads files; built where Google Benchmark is found
PEERS_OF_READERS = {"Python's csv": "csv", "pandas": "pandas", "PyArrow": "pyarrow", "tf.data": "tensorflow"}
WORKERS = 2  # processes of lockstep, in the cases that begin with "workers"


@dataclass
class Bar:
    """A figure to reach: `limit` is the least value allowed, or the most. The worst place counts, each place's value
    being the median over repetitions."""
    case: str
    limit: float
    unit: str
    at_least: bool = True
    places: list = field(default_factory=list)  # (where, one value for each repetition)
    skipped: str = ""

    def worst(self):
        choose = min if self.at_least else max
        return choose(((statistics.median(values), where) for where, values in self.places), default=None)

    def passes(self):
        measured = self.worst()
        if measured is None:
            return None
        return measured[0] >= self.limit if self.at_least else measured[0] < self.limit

    def verdict(self):
        return {None: f"skipped: {self.skipped or 'not measured'}", True: "pass", False: "miss"}[self.passes()]

    def row(self):
        measured = self.worst()
        bar = f"{'at least' if self.at_least else 'under'} {self.limit:g} {self.unit}"
        if measured is None:
            return [self.case, bar, "–", "", self.verdict()]
        return [self.case, bar, number(measured[0]), measured[1], self.verdict()]


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 10 else f"{value:.2f}"


def size_text(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} B"


def where(key, case=""):
    parts = [case] if case else []
    if key.size:
        parts.append(size_text(key.size))
    if key.case.startswith("read "):
        return "one thread"
    if key.case.startswith("workers"):
        return ", ".join(parts + [f"{WORKERS} processes x {key.ranks // WORKERS}"])
    return ", ".join(parts + [f"{key.ranks} replicas"])


def own(samples, case, what, *, in_place=None, least=0, label=""):
    """Values of lockstep alone."""
    return [(where(key, label) + (", in place" if in_place is None and key.in_place else ""), samples.values[key])
            for key in samples.find(source=LOCKSTEP, case=case, what=what)
            if key.size >= least and in_place in (None, key.in_place)]


def times_faster(samples, source, operation, case, *, own_source=LOCKSTEP, ranks=None, least=0, most=float("inf")):
    """The peer's time over lockstep's in the same repetition, wherever both were measured in the same form."""
    places = []
    for key in samples.find(source=source, case=operation, what="time"):
        own_key = key._replace(source=own_source, case=case)
        mine = samples.values.get(own_key)
        if mine is None or not least <= key.size <= most or ranks not in (None, key.ranks):
            continue
        places.append((where(own_key), [peer / lockstep for peer, lockstep in zip(samples.values[key], mine)]))
    return places


def against_sum(samples, case):
    """Each other operator's speed over sum's in the same repetition, in both placements.

    From 128 KiB up, where the memory's speed counts and may change between two operators' measurements, a speed is the
    ratio to the floor that was measured in alternation.
    """
    places = []
    for operator in OPERATORS:
        for key in samples.find(source=LOCKSTEP, case=f"{case} {operator}", what="time"):
            if key.size >= 128 * KIB:
                key = key._replace(what="floor_ratio")
            sums, others = samples.values[key._replace(case=case)], samples.values[key]
            places.append((where(key, operator) + (", in place" if key.in_place else ""),
                           [other / total if key.what == "floor_ratio" else total / other
                            for total, other in zip(sums, others)]))
    return places


def own_bar(case, limit, unit, places, at_least=True):
    return Bar(case, limit, unit, at_least, places)


def peer_bar(samples, skipped, case, limit, source, operation, own_case, **only):
    return Bar(case, limit, "x as fast", True, times_faster(samples, source, operation, own_case, **only),
               skipped.get(source, "") or skipped.get(only.get("own_source"), ""))


def make_worker_bars(samples, skipped):
    """Those of several processes. @param skipped  as make_bars"""
    def against(case, limit, source, operation="all_reduce", own_case="workers sweep", **only):
        return peer_bar(samples, skipped, f"{WORKERS} processes: {case}", limit, source, operation, own_case, **only)

    return [
        own_bar(f"{WORKERS} processes: all_reduce f32, 1 and 2 replicas in each, 16 to 256 MiB, both placements", 0.85,
                "of the floor", own(samples, "workers floor", "floor_ratio", least=16 * MIB)),
        against("all_reduce, 1 MiB and more, against Open MPI", 4, "Open MPI", least=MIB),
        against("all_reduce, 8 B to 64 KiB, against Open MPI", 1, "Open MPI", most=64 * KIB),
        against("all_reduce, every size, against Gloo", 8, "Gloo"),
        against("all_reduce, every size, against PyTorch's gloo", 8, "PyTorch"),
        against("run with an all_reduce of a scalar, against TensorFlow's", 50, "TensorFlow", "run_all_reduce",
                "workers run"),
    ]


def make_input_bars(samples, skipped):
    """@param skipped  as make_bars"""
    def against(case, source, limit=5):
        return peer_bar(samples, skipped, f"input against {case}", limit, source, "input", "input")

    def read_bar(case, limit, unit, *files):
        places = [(what, samples.values[key]) for what in files
                  for key in samples.find(source=LOCKSTEP, case="read " + what, what="floor_ratio")]
        return Bar(f"reading {case}, one thread", limit, unit, True, places, skipped.get(READERS, ""))

    def csv_against(source):
        case = f"reading csv, one thread, against {source}"
        return peer_bar(samples, skipped, case, 1, source, "read csv", "read csv")

    return [
        read_bar("lines and csv", 0.5, "of memchr's pass", "lines of 80", "lines of 1000", "csv"),
        read_bar("records, TFRecords and rows of npy", 0.8, "of a copy", "records of 4096", "records of 131072",
                 "TFRecords of 4096", "TFRecords of 131072", "npy rows of 3136"),
        *(csv_against(source) for source in PEERS_OF_READERS),
        own_bar("input: batches of 256 x 784 f32, shuffled, split over 4", 0.85, "of a memory copy",
                own(samples, "input", "floor_ratio")),
        against("TensorFlow's distributed dataset", "TensorFlow"),
        against("PyTorch's DataLoader", "PyTorch"),
        against("Grain's MapDataset", "Grain"),
        against("DALI's pipeline on the CPU", "DALI", limit=2),
    ]


def make_bars(samples, skipped):
    """@param skipped  why a peer's values are not there, by its name."""
    def against(case, limit, source, operation, own_case, **only):
        return peer_bar(samples, skipped, case, limit, source, operation, own_case, **only)

    halves = [place for dtype in ("half", "bfloat16")
              for place in own(samples, f"floor {dtype}", "floor_ratio", label=dtype)]
    axes = [place for name in AXIS_SHAPES for place in own(samples, f"axis {name}", "floor_ratio", label=name)]
    return [
        own_bar("all_reduce f32, 2 and 4 replicas, 16 to 256 MiB, in place", 0.95, "of the floor",
                own(samples, "floor float", "floor_ratio", in_place=True, least=16 * MIB)),
        own_bar("the same, out of place", 0.90, "of the floor",
                own(samples, "floor float", "floor_ratio", in_place=False, least=16 * MIB)),
        own_bar("all_reduce f32 of avg, min, max and prod, 8 B to 256 MiB, both placements", 0.95, "of sum's speed",
                against_sum(samples, "operators")),
        own_bar("all_reduce f16 and bf16, 64 MiB", 0.85, "of the floor", halves),
        against("all_reduce, 1 MiB and more, against Open MPI", 4, "Open MPI", "all_reduce", "sweep", least=MIB),
        against("all_reduce, 8 B to 64 KiB, 2 replicas, against Open MPI", 1, "Open MPI", "all_reduce", "sweep", ranks=2,
                most=64 * KIB),
        against("all_reduce, every size, against Gloo", 8, "Gloo", "all_reduce", "sweep"),
        against("all_reduce, every size, against PyTorch's gloo", 8, "PyTorch", "all_reduce", "sweep"),
        own_bar("run of an empty function, 2 replicas, median", 2, "µs", own(samples, "each run", "p50"), at_least=False),
        against("run of an empty function against TensorFlow's", 100, "TensorFlow", "run", "run"),
        own_bar("batch_reduce_to of ResNet-50's 161 gradients, 4 replicas", 0.90, "of one flat all_reduce",
                own(samples, "batch_reduce", "floor_ratio")),
        own_bar("axis reductions f32, 64 MiB, every shape", 0.85, "of a read-only pass", axes),
        own_bar("step: run + batch_reduce_to + update of 20 variables of 4 KiB, 2 replicas, median", 60, "µs",
                own(samples, "step", "p50"), at_least=False),
        against("what averaging gradients adds to a LibTorch step, 2 replicas, against PyTorch's gloo", 5, "PyTorch",
                "data_parallel_step", "data_parallel_step", own_source=LIBTORCH),
    ] + make_input_bars(samples, skipped) + make_worker_bars(samples, skipped)


TITLES = ["case", "bar", "measured", "worst at", ""]


def text_table(rows):
    widths = [max(len(row[column]) for row in [TITLES] + rows) for column in range(len(TITLES))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [TITLES] + rows]
    return "\n".join(lines[:1] + ["-" * max(map(len, lines))] + lines[1:])


def markdown_table(rows):
    lines = ["| " + " | ".join(cells) + " |" for cells in [TITLES] + rows]
    return "\n".join(lines[:1] + ["|" + "---|" * len(TITLES)] + lines[1:])
