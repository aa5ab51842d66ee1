#!/usr/bin/env python3
"""Measures lockstep and what it is compared with, side by side in one run, and prints the table of figures to reach.

    compare.py --build build/compare [--python venv/bin/python] [--quick] [--output build/compare/compare]

Needs Python 3 and nothing else; the peers that are not installed are left out, and the table says so. run.sh builds the
programs and calls this one.
"""

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

import bars
import samples as reports

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "peers"))
import peer as peers  # noqa: E402

NOT_INSTALLED = peers.NOT_INSTALLED  # the exit status of a Python peer without its library
SECONDS_PER_COMMAND = 900

# name: for messages; case: of lockstep's reports; command: without lockstep_bench's path and output; workers: how many
# processes lockstep has there, or is compared with there.
Command = namedtuple("Command", "source name case command workers")
Sweep = namedtuple("Sweep", "first last factor iterations")  # of lockstep_bench, by number of replicas
KIB, MIB = bars.KIB, bars.MIB

FULL = {
    "repetitions": 5,
    "sweeps": [Sweep(8, 64 * KIB, 2, {2: 5000, 4: 1000}), Sweep(128 * KIB, 512 * KIB, 2, {2: 300, 4: 100}),
               Sweep(MIB, 256 * MIB, 2, {2: 40, 4: 40})],
    "seconds": 0.1,
    "floor": ["-b", "16M", "-e", "256M", "-f", "2", "-n", "10", "-w", "1"],
    "calls": 20000,
    "iterations": 20,
    "rounds": 20,
}
QUICK = {
    "repetitions": 1,
    "sweeps": [Sweep(8, 32 * KIB, 16, {2: 2000, 4: 300}), Sweep(256 * KIB, 256 * KIB, 2, {2: 50, 4: 50}),
               Sweep(MIB, 16 * MIB, 4, {2: 5, 4: 5})],
    "seconds": 0.02,
    "floor": ["-b", "16M", "-e", "64M", "-f", "4", "-n", "10", "-w", "1"],
    "calls": 2000,
    "iterations": 10,
    "rounds": 4,
}


class Skipped(Exception):
    """A peer that is not there."""


def plan(effort, build, python):
    """The commands of one repetition, in order: what is compared is close together in time."""
    commands = []

    def own(name, case, *arguments, workers=1):
        name += f" in {workers} processes" if workers > 1 else ""
        commands.append(Command(reports.LOCKSTEP, name, case, list(map(str, arguments)), workers))

    def peer(source, name, *command, workers=1):
        commands.append(Command(source, name, "", list(map(str, command)), workers))

    folder = os.path.join(HERE, "peers")
    sweeps = [part for s in effort["sweeps"] for part in ("--sweep", f"{s.first}:{s.last}:{s.factor}")]
    budget = ["--seconds", effort["seconds"]]
    for ranks in (2, 4):
        for sweep in effort["sweeps"]:
            own(f"all_reduce from {bars.size_text(sweep.first)} on {ranks} replicas", "sweep", "all_reduce", "-b",
                sweep.first, "-e", sweep.last, "-f", sweep.factor, "-n", sweep.iterations[ranks], "--replicas", ranks)
        for sweep in effort["sweeps"]:
            own(f"all_reduce from {bars.size_text(sweep.first)} on {ranks} replicas", "workers sweep", "all_reduce", "-b",
                sweep.first, "-e", sweep.last, "-f", sweep.factor, "-n", sweep.iterations[ranks], "--replicas",
                ranks // bars.WORKERS, workers=bars.WORKERS)
        peer("Open MPI", f"all_reduce of {ranks} processes", "mpirun", "--oversubscribe", "-n", ranks,
             os.path.join(build, "benchmarks", "compare", "compare_open_mpi"), *sweeps, *budget,
             workers=bars.WORKERS)
        peer("Gloo", f"all_reduce of {ranks} processes", os.path.join(build, "benchmarks", "compare", "compare_gloo"),
             "--ranks", ranks, *sweeps, *budget, workers=bars.WORKERS)
        peer("PyTorch", f"all_reduce of {ranks} processes", python, os.path.join(folder, "pytorch.py"), "all_reduce",
             "--ranks", ranks, *sweeps, *budget, workers=bars.WORKERS)
        own(f"all_reduce and its floor, {ranks} replicas", "floor float", "all_reduce", *effort["floor"], "--floor",
            "--replicas", ranks)
        own(f"all_reduce and its floor, {ranks} replicas", "workers floor", "all_reduce", *effort["floor"], "--floor",
            "--replicas", ranks // bars.WORKERS, workers=bars.WORKERS)
        for sweep in effort["sweeps"]:
            for operator in ("sum",) + bars.OPERATORS:
                own(f"all_reduce {operator} from {bars.size_text(sweep.first)} on {ranks} replicas", "operators", "all_reduce",
                    "-o", operator, "-b", sweep.first, "-e", sweep.last, "-f", 2 * sweep.factor, "-n",
                    sweep.iterations[ranks], "--floor", "--replicas", ranks)
        for dtype in ("half", "bfloat16"):
            own(f"all_reduce {dtype} and its floor, {ranks} replicas", f"floor {dtype}", "all_reduce", "-b", "64M", "-e",
                "64M", "-n", effort["iterations"], "-d", dtype, "--floor", "--replicas", ranks)
    own("run", "run", "run", "--replicas", 2, "-n", effort["calls"], "-w", 100)
    own("run, each call timed", "each run", "run", "--replicas", 2, "-n", effort["calls"], "-w", 100, "-I", 1)
    peer("TensorFlow", "run", python, os.path.join(folder, "tensorflow_cpu.py"), "run", "--ranks", 2, *budget)
    own("run and all_reduce", "workers run", "run_all_reduce", "--replicas", 1, "-n", effort["calls"], "-w", 100,
        workers=bars.WORKERS)
    peer("TensorFlow", "run and all_reduce", python, os.path.join(folder, "tensorflow_cpu.py"), "run_all_reduce", "--ranks",
         bars.WORKERS, *budget, workers=bars.WORKERS)
    own("step", "step", "step", "--replicas", 2, "-n", effort["calls"] // 4, "-w", 100, "-I", 1)
    own("batch_reduce", "batch_reduce", "batch_reduce", "--sizes_file", os.path.join(HERE, "resnet50_gradients.txt"),
        "--replicas", 4, "-n", effort["iterations"], "-w", 2, "--floor")
    for name, shape in bars.AXIS_SHAPES.items():
        own(f"axis_reduce, {name}", f"axis {name}", "axis_reduce", "--shape", ",".join(map(str, shape)), "--replicas", 2,
            "-n", effort["iterations"], "--floor")
    peer(bars.LIBTORCH, "data parallel step", os.path.join(build, "benchmarks", "compare", "compare_libtorch_ddp"),
         "--rounds", effort["rounds"])
    peer("PyTorch", "data parallel step", python, os.path.join(folder, "pytorch_ddp.py"), "--rounds", effort["rounds"])
    # 240 batches are one pass over the table.
    own("input", "input", "input", "--replicas", 4, "-n", 240, "-w", 10, "--floor")
    peer("TensorFlow", "input", python, os.path.join(folder, "tensorflow_cpu.py"), "input", "--ranks", 4)
    for source, program in (("PyTorch", "pytorch.py"), ("Grain", "grain_input.py"), ("DALI", "dali_input.py")):
        peer(source, "input", python, os.path.join(folder, program), "input", "--ranks", 4)
    peer(bars.READERS, "input: files", os.path.join(build, "benchmarks", bars.READERS), "--benchmark_format=json")
    for source, package in bars.PEERS_OF_READERS.items():  # which read what that has written
        peer(source, "input: files", python, os.path.join(folder, "readers.py"), package)
    return commands


def run(command, environment=None):
    """@param environment  beside this process's. @return its standard output. @throws Skipped, ReportError"""
    return finish([start(command, environment or {})])


def start(command, environment):
    environment = {**os.environ, **environment}
    if command[0] == "mpirun" and os.geteuid() == 0:
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                                start_new_session=True)
    except OSError as error:
        raise Skipped(f"{command[0]} cannot be started: {error.strerror}") from error


def finish(processes):
    """Waits for the processes, which end together. @return the first one's standard output."""
    deadline = time.monotonic() + SECONDS_PER_COMMAND
    ended = []
    try:
        for process in processes:
            ended.append(process.communicate(timeout=max(0, deadline - time.monotonic())))
    except BaseException as error:
        for process in processes[len(ended):]:
            os.killpg(process.pid, signal.SIGKILL)  # and what it has started
            process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise reports.ReportError(f"no end after {SECONDS_PER_COMMAND} s") from error
        raise
    for process, (_, errors) in zip(processes, ended):
        last_line = (errors.strip().splitlines() or [""])[-1]
        if process.returncode == NOT_INSTALLED:
            raise Skipped(last_line)
        if process.returncode != 0:
            raise reports.ReportError(f"exit status {process.returncode}: {last_line}")
    return ended[0][0]


def run_lockstep(build, command, check, workers):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        command = [os.path.join(build, "benchmarks", "lockstep_bench"), *command, "-c", "1" if check else "0", "-J", path]
        if workers == 1:
            run(command)
        else:
            finish([start(command, environment) for environment in peers.worker_environments(workers)])
        with open(path, encoding="utf-8") as file:
            return file.read()


def missing(source, build):
    """Why a peer cannot be run, without running it; else nothing."""
    program = {"Open MPI": "compare_open_mpi", "Gloo": "compare_gloo",
               bars.LIBTORCH: "compare_libtorch_ddp"}.get(source)
    readers = os.path.join(build, "benchmarks", bars.READERS)
    if source in (bars.READERS, *bars.PEERS_OF_READERS) and not os.path.exists(readers):
        return "Google Benchmark was not found when the build was configured"
    if program and not os.path.exists(os.path.join(build, "benchmarks", "compare", program)):
        return f"{source} was not found when the build was configured"
    return ""


class Run:
    """All repetitions."""

    def __init__(self, build, python, effort, part):
        self.build, self.effort = build, effort
        self.commands = [command for command in plan(effort, build, python)
                         if command.workers > 1 or part != "workers"]
        if part == "input":
            self.commands = [command for command in self.commands if command.name.startswith("input")]
        self.samples = reports.Samples()
        self.environment = {}
        self.versions, self.skipped = {}, {}
        for source in dict.fromkeys(command.source for command in self.commands):
            reason = missing(source, build)
            if reason:
                self.skip(source, reason)

    def skip(self, source, reason):
        self.skipped[source] = reason
        self.samples.drop(source)
        print(f"{source} is left out: {reason}", file=sys.stderr)

    def measure(self):
        with tempfile.TemporaryDirectory() as folder:
            self.environment = {"READERS_FOLDER": folder}
            self.measure_all()

    def measure_all(self):
        for repetition in range(self.effort["repetitions"]):
            for number, command in enumerate(self.commands, 1):
                if command.source in self.skipped:
                    continue
                show(f"repetition {repetition + 1} of {self.effort['repetitions']}, {number} of {len(self.commands)}: "
                     f"{command.source} {command.name}")
                self.measure_one(command, check=repetition == 0)
        show("")

    def measure_one(self, command, check):
        if command.source == reports.LOCKSTEP:
            reports.add_lockstep(self.samples, command.case, run_lockstep(self.build, command.command, check,
                                                                              command.workers))
            return
        if command.source == bars.READERS:
            reports.add_readers(self.samples, run(command.command, self.environment))
            return
        try:
            self.versions[command.source] = reports.add_peer(self.samples, command.source,
                                                              run(command.command, self.environment))
        except (Skipped, reports.ReportError) as error:
            show("")
            self.skip(command.source, str(error))


def show(text):
    """On a terminal a line that the next one replaces."""
    if sys.stderr.isatty():
        print("\r\033[K" + text, end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def machine():
    model = "unknown processor"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{len(os.sched_getaffinity(0))} cores, {model}"


def positive(text):
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, help="the build's folder, with lockstep_bench and the peers")
    parser.add_argument("--python", default=sys.executable, help="runs the Python peers [the one that runs this]")
    parser.add_argument("--quick", action="store_true", help="one repetition of fewer and smaller sizes: about a minute")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--workers", dest="part", action="store_const", const="workers",
                      help="only the rows of several processes")
    part.add_argument("--input", dest="part", action="store_const", const="input", help="only the rows of input")
    parser.add_argument("--repetitions", type=positive, help="of everything; the median counts [5; with --quick 1]")
    parser.add_argument("--output", help="writes OUTPUT.json and OUTPUT.md [compare in the build's folder]")
    options = parser.parse_args()

    effort = dict(QUICK if options.quick else FULL)
    if options.repetitions:
        effort["repetitions"] = options.repetitions
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"The machine is not idle: load {load:.1f}. Times of small messages will be those of the scheduler.",
              file=sys.stderr)
    comparison = Run(options.build, options.python, effort, options.part)
    try:
        comparison.measure()
    except (Skipped, reports.ReportError) as error:
        show("")
        print(f"compare.py: lockstep_bench failed: {error}", file=sys.stderr)
        return 1

    make_bars = {"workers": bars.make_worker_bars, "input": bars.make_input_bars}.get(options.part, bars.make_bars)
    table = make_bars(comparison.samples, comparison.skipped)
    rows = [bar.row() for bar in table]
    against = ", ".join(f"{name} {version}" for name, version in comparison.versions.items()
                        if name not in comparison.skipped) or "nothing else"
    repetitions = effort["repetitions"]
    heading = (f"{datetime.date.today()}, {machine()}, load {load:.1f} before; {'quick, ' if options.quick else ''}"
               f"median of {repetitions}; beside {against}")
    print(heading + "\n\n" + bars.text_table(rows))
    output = options.output or os.path.join(options.build, "compare")
    with open(output + ".md", "w", encoding="utf-8") as file:
        file.write(heading + "\n\n" + bars.markdown_table(rows) + "\n")
    with open(output + ".json", "w", encoding="utf-8") as file:
        json.dump({"heading": heading, "versions": comparison.versions, "skipped": comparison.skipped,
                   "bars": [{"case": bar.case, "limit": bar.limit, "unit": bar.unit, "at_least": bar.at_least,
                             "worst": bar.worst(), "verdict": bar.verdict(), "places": bar.places} for bar in table],
                   "samples": comparison.samples.as_json()}, file, indent=1)
    print(f"\nWritten to {output}.md and {output}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
