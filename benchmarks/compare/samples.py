"""What the programs measured, by source, case, ranks and size: one value for each repetition."""

import json
from collections import namedtuple

# case: "sweep", "floor half", "run", …; what: "time" in µs, "floor_ratio", "p50" in µs.
Key = namedtuple("Key", "source case ranks size in_place what")

LOCKSTEP = "lockstep"
PLACEMENTS = (("out_of_place", False), ("in_place", True))


class ReportError(Exception):
    """A report that says that something went wrong, or that is none."""


class Samples:
    def __init__(self):
        self.values = {}

    def add(self, key, value):
        self.values.setdefault(key, []).append(value)

    def drop(self, source):
        self.values = {key: values for key, values in self.values.items() if key.source != source}

    def find(self, **fields):
        """The keys, in order of ranks and size, whose fields are these."""
        found = [key for key in self.values if all(getattr(key, name) == value for name, value in fields.items())]
        return sorted(found, key=lambda key: (key.ranks, key.size, key.in_place))

    def as_json(self):
        return [{**key._asdict(), "values": values} for key, values in self.values.items()]


def parse(text):
    try:
        report = json.loads(text)
        report["results"][0]
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise ReportError(f"no results: {text[:200]!r}") from error
    return report


def add_lockstep(samples, case, text):
    """A JSON file of lockstep_bench: both placements of a collective; of a strategy's operation, which has one form
    and is measured twice, the mean. The case of an operator but sum ends in its name."""
    report = parse(text)
    ranks = len(report["config"]["devices"])
    for result in report["results"]:
        halves = []
        for name, in_place in PLACEMENTS:
            half = result[name]
            if half["nwrong"]:
                raise ReportError(f"{case}: {half['nwrong']} wrong values at size {result['size']}")
            found = {"time": half["time"]}
            if "floor_ratio" in half:
                found["floor_ratio"] = half["floor_ratio"]
            if name + "_per_iter" in result:
                found["p50"] = result[name + "_per_iter"]["p50_us"]
            halves.append((in_place, found))
        if result["experiment_name"] != "all_reduce":
            first, second = (half for _, half in halves)
            halves = [(False, {what: (first[what] + second[what]) / 2 for what in first})]
        redop = result.get("redop", "sum")
        own_case = case if redop in ("sum", "none") else f"{case} {redop}"
        for in_place, found in halves:
            for what, value in found.items():
                samples.add(Key(LOCKSTEP, own_case, ranks, result["size"], in_place, what), value)


def add_readers(samples, text):
    """What lockstep_bench_readers prints as JSON, "FILE/FORM" for each measurement: of the fastest form of each file its
    time of the processor, and its speed over that of memchr's pass or a copy."""
    try:
        entries = {tuple(entry["name"].split("/")): entry for entry in json.loads(text)["benchmarks"]}
        speeds = {names: entry["bytes_per_second"] for names, entry in entries.items()}
        times = {names: entry["cpu_time"] * 1e3 for names, entry in entries.items()}
    except (ValueError, TypeError, KeyError) as error:
        raise ReportError(f"no results: {text[:200]!r}") from error
    for (what, form), floor in speeds.items():
        if form in ("memchr", "copy"):
            own = max((pair for pair in speeds if pair[0] == what and pair[1].startswith("lockstep")), key=speeds.get)
            samples.add(Key(LOCKSTEP, "read " + what, 1, 0, False, "floor_ratio"), speeds[own] / floor)
            samples.add(Key(LOCKSTEP, "read " + what, 1, 0, False, "time"), times[own])


def add_peer(samples, source, text):
    """What a peer prints; README.md describes it. @return its version."""
    report = parse(text)
    for result in report["results"]:
        if result["wrong"]:
            raise ReportError(f"{result['operation']}: {result['wrong']} wrong values at size {result['size']}")
        samples.add(Key(source, result["operation"], result["ranks"], result["size"], result["in_place"], "time"),
                    result["time"])
    return report["version"]
