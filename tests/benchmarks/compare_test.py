"""benchmarks/compare: reports, ratios and the driver, on canned reports: compare_test.py FOLDER BENCH."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest

FOLDER, BENCH = sys.argv[1:3]
sys.path.insert(0, FOLDER)
sys.dont_write_bytecode = True

import bars  # noqa: E402
import compare  # noqa: E402
from samples import Key, LOCKSTEP, ReportError, Samples, add_lockstep, add_peer, add_readers  # noqa: E402

MIB = 1 << 20


def half(time, ratio=None, wrong=0):
    return {"time": time, "alg_bw": 1, "bus_bw": 1, "nwrong": wrong,
            **({} if ratio is None else {"floor_time": 1, "floor_ratio": ratio})}


def own_report(results, ranks=2, operation="all_reduce"):
    """@param results  (size, out of place, in place)"""
    return json.dumps({"config": {"devices": [{}] * ranks},
                       "results": [{"size": size, "out_of_place": first, "in_place": second,
                                    "experiment_name": operation} for size, first, second in results]})


def peer_report(results, peer="Gloo", operation="all_reduce", ranks=2, in_place=False, wrong=0):
    return json.dumps({"peer": peer, "version": "1.0",
                       "results": [{"operation": operation, "ranks": ranks, "size": size, "in_place": in_place,
                                    "time": time, "wrong": wrong} for size, time in results]})


def readers_report(speeds):
    return json.dumps({"benchmarks": [{"name": name, "bytes_per_second": speed, "cpu_time": 1 / speed}
                                      for name, speed in speeds.items()]})


class SamplesTest(unittest.TestCase):
    def setUp(self):
        self.samples = Samples()

    def test_both_placements_of_a_collective_are_kept(self):
        for time in (1.0, 3.0):
            add_lockstep(self.samples, "sweep", own_report([(8, half(time, 0.5), half(2 * time))]))
        self.assertEqual(self.samples.values, {
            Key(LOCKSTEP, "sweep", 2, 8, False, "time"): [1.0, 3.0],
            Key(LOCKSTEP, "sweep", 2, 8, False, "floor_ratio"): [0.5, 0.5],
            Key(LOCKSTEP, "sweep", 2, 8, True, "time"): [2.0, 6.0]})

    def test_the_halves_of_an_operation_are_averaged(self):
        report = json.loads(own_report([(0, half(1.0, 0.5), half(3.0, 1.0))], operation="run"))
        report["results"][0].update(out_of_place_per_iter={"p50_us": 4}, in_place_per_iter={"p50_us": 6})
        add_lockstep(self.samples, "run", json.dumps(report))
        self.assertEqual({key.what: values for key, values in self.samples.values.items()},
                         {"time": [2.0], "floor_ratio": [0.75], "p50": [5.0]})

    def test_reports_of_the_program_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            for number, command in enumerate((["all_reduce", "-b", "1K", "-e", "4K", "-f", "4", "--floor"],
                                              ["all_reduce", "-o", "avg", "-b", "2K", "-e", "2K"],
                                              ["step", "-I", "1"],
                                              ["axis_reduce", "--shape", "8,3,40", "--floor"])):
                path = os.path.join(folder, f"{number}.json")
                subprocess.run([BENCH, *command, "-n", "2", "--replicas", "2", "-J", path], check=True,
                               stdout=subprocess.DEVNULL)
                with open(path, encoding="utf-8") as file:
                    add_lockstep(self.samples, command[0], file.read())
        build = os.path.dirname(os.path.dirname(BENCH))
        add_lockstep(self.samples, "workers", compare.run_lockstep(
            build, ["run_all_reduce", "-n", "2", "--replicas", "2"], check=True, workers=2))
        self.assertEqual(len(self.samples.find(case="workers", what="time", ranks=4, size=0)), 1)
        self.assertEqual(len(self.samples.find(case="all_reduce", what="floor_ratio")), 4)
        self.assertEqual(len(self.samples.find(case="all_reduce avg", what="time")), 2)
        self.assertEqual(len(self.samples.find(case="step", what="p50", ranks=2, size=0)), 1)
        self.assertEqual(len(self.samples.find(case="axis_reduce", what="floor_ratio", size=3840)), 1)

    def test_a_peers_report_is_kept_and_can_be_dropped(self):
        self.assertEqual(add_peer(self.samples, "Gloo", peer_report([(8, 1.5)])), "1.0")
        add_peer(self.samples, "PyTorch", peer_report([(8, 2.5)]))
        self.samples.drop("Gloo")
        self.assertEqual(self.samples.values, {Key("PyTorch", "all_reduce", 2, 8, False, "time"): [2.5]})

    def test_the_fastest_form_of_a_file_is_set_beside_its_floor(self):
        speeds = {"csv/memchr": 100.0, "csv/from_chars": 50.0, "csv/lockstep": 20.0, "csv/lockstep, batch": 40.0,
                  "records/copy": 10.0, "records/lockstep": 12.0}
        add_readers(self.samples, readers_report(speeds))
        self.assertEqual(self.samples.values, {
            Key(LOCKSTEP, "read csv", 1, 0, False, "floor_ratio"): [0.4],
            Key(LOCKSTEP, "read csv", 1, 0, False, "time"): [25.0],
            Key(LOCKSTEP, "read records", 1, 0, False, "floor_ratio"): [1.2],
            Key(LOCKSTEP, "read records", 1, 0, False, "time"): [1000 / 12]})
        with self.assertRaisesRegex(ReportError, "no results"):
            add_readers(self.samples, "[]")

    def test_wrong_values_and_broken_reports_are_errors(self):
        for text in ("", "{", "[]", "{}", '{"results": []}'):
            for read in (lambda text: add_lockstep(self.samples, "sweep", text),
                         lambda text: add_peer(self.samples, "Gloo", text)):
                with self.assertRaisesRegex(ReportError, "no results"):
                    read(text)
        with self.assertRaisesRegex(ReportError, "3 wrong values at size 8"):
            add_peer(self.samples, "Gloo", peer_report([(8, 1.0)], wrong=3))
        with self.assertRaisesRegex(ReportError, "2 wrong values at size 8"):
            add_lockstep(self.samples, "sweep", own_report([(8, half(1.0), half(1.0, wrong=2))]))
        self.assertEqual(self.samples.find(in_place=True), [])


class BarsTest(unittest.TestCase):
    def setUp(self):
        self.samples = Samples()

    def bar(self, start, skipped=None):
        found, = [bar for bar in bars.make_bars(self.samples, skipped or {}) if bar.case.startswith(start)]
        return found

    def test_ratios_are_taken_within_a_repetition_and_the_worst_size_counts(self):
        for factor in (1, 10, 1000):  # the machine slows down for all
            add_lockstep(self.samples, "sweep", own_report([(MIB, half(2.0 * factor), half(9.0)),
                                                            (4 * MIB, half(8.0 * factor), half(9.0))]))
            add_peer(self.samples, "Open MPI", peer_report([(MIB, 10.0 * factor), (4 * MIB, 36.0 * factor)]))
        bar = self.bar("all_reduce, 1 MiB and more, against Open MPI")
        self.assertEqual(bar.worst(), (4.5, "4 MiB, 2 replicas"))
        self.assertEqual(bar.row()[1:], ["at least 4 x as fast", "4.50", "4 MiB, 2 replicas", "pass"])
        add_lockstep(self.samples, "sweep", own_report([(MIB, half(4.0), half(9.0))], ranks=4))
        add_peer(self.samples, "Open MPI", peer_report([(MIB, 12.0)], ranks=4))
        self.assertEqual(self.bar("all_reduce, 1 MiB and more, against Open MPI").row()[2:],
                         ["3.00", "1 MiB, 4 replicas", "miss"])

    def test_bars_take_their_own_sizes_and_ranks(self):
        sizes = [8, 64 << 10, 128 << 10, MIB]
        for ranks in (2, 4):
            add_lockstep(self.samples, "sweep", own_report([(s, half(1.0), half(1.0)) for s in sizes], ranks))
            for peer in ("Open MPI", "Gloo"):
                add_peer(self.samples, peer, peer_report([(s, 10.0) for s in sizes], ranks=ranks))
        count = {start: len(self.bar(start).places)
                 for start in ("all_reduce, 1 MiB and more", "all_reduce, 8 B to 64 KiB", "all_reduce, every size, against Gloo")}
        self.assertEqual(list(count.values()), [2, 2, 8])

    def test_a_peer_in_place_is_compared_with_lockstep_in_place(self):
        add_lockstep(self.samples, "sweep", own_report([(8, half(1.0), half(2.0))]))
        add_peer(self.samples, "PyTorch", peer_report([(8, 20.0)], in_place=True))
        self.assertEqual(self.bar("all_reduce, every size, against PyTorch's gloo").worst()[0], 10.0)

    def test_libtorch_is_compared_by_its_own_program(self):
        start = "what averaging gradients adds"
        add_peer(self.samples, "PyTorch", peer_report([(0, 900.0)], operation="data_parallel_step"))
        self.assertEqual(self.bar(start, {bars.LIBTORCH: "not built"}).verdict(), "skipped: not built")
        add_peer(self.samples, bars.LIBTORCH, peer_report([(0, 100.0)], operation="data_parallel_step"))
        self.assertEqual(self.bar(start).row()[1:], ["at least 5 x as fast", "9.00", "2 replicas", "pass"])

    def test_workers_are_compared_with_peers_of_as_many_ranks(self):
        for ranks in (2, 4):
            add_lockstep(self.samples, "sweep", own_report([(8, half(100.0), half(100.0))], ranks))
            add_lockstep(self.samples, "workers sweep", own_report([(8, half(2.0 * ranks), half(1.0))], ranks))
            add_peer(self.samples, "Open MPI", peer_report([(8, 6.0)], ranks=ranks))
        self.assertEqual(self.bar("2 processes: all_reduce, 8 B to 64 KiB, against Open MPI").places,
                         [("8 B, 2 processes x 1", [1.5]), ("8 B, 2 processes x 2", [0.75])])

    def test_floors_are_those_of_the_placement_and_of_large_sizes(self):
        add_lockstep(self.samples, "floor float", own_report([(MIB, half(1.0, 0.1), half(1.0, 0.2)),
                                                              (16 * MIB, half(1.0, 0.8), half(1.0, 0.96))]))
        self.assertEqual(self.bar("all_reduce f32, 2 and 4").row()[2:], ["0.96", "16 MiB, 2 replicas", "pass"])
        self.assertEqual(self.bar("the same, out of place").row()[2:], ["0.80", "16 MiB, 2 replicas", "miss"])
        add_lockstep(self.samples, "floor half", own_report([(64 * MIB, half(1.0, 0.9), half(1.0, 0.84))]))
        self.assertEqual(self.bar("all_reduce f16").row()[2:], ["0.84", "half, 64 MiB, 2 replicas, in place", "miss"])

    def test_operators_are_compared_with_the_sum_beside_them(self):
        for factor in (1, 10, 1000):
            report = json.loads(own_report([(8, half(2.0 * factor), half(4.0 * factor))]))
            for operator, slower in (("sum", 1), ("prod", 1), ("max", 1), ("min", 1.25), ("avg", 1)):
                report["results"][0]["redop"] = operator
                for placement in ("out_of_place", "in_place"):
                    report["results"][0][placement]["time"] *= slower
                add_lockstep(self.samples, "operators", json.dumps(report))
                for placement in ("out_of_place", "in_place"):
                    report["results"][0][placement]["time"] /= slower
        bar = self.bar("all_reduce f32 of avg")
        self.assertEqual(len(bar.places), 8)
        self.assertEqual(bar.row()[1:], ["at least 0.95 of sum's speed", "0.80", "min, 8 B, 2 replicas", "miss"])

    def test_operators_of_large_tensors_are_compared_by_their_floors(self):
        for drift in (1, 2, 4):  # the memory becomes slower from one operator to the next
            ratio = {"sum": 0.9, "prod": 0.9, "max": 0.81, "min": 0.9, "avg": 0.9}
            for slower, (operator, floor_ratio) in enumerate(ratio.items(), start=1):
                report = json.loads(own_report([(1 << 20, half(2.0 * slower * drift, floor_ratio),
                                                 half(2.0 * slower * drift, floor_ratio))]))
                report["results"][0]["redop"] = operator
                add_lockstep(self.samples, "operators", json.dumps(report))
        self.assertEqual(self.bar("all_reduce f32 of avg").row()[1:],
                         ["at least 0.95 of sum's speed", "0.90", "max, 1 MiB, 2 replicas", "miss"])

    def test_times_must_be_under_their_bar(self):
        for p50 in (59.0, 60.0, 61.0):
            self.samples.add(Key(LOCKSTEP, "step", 2, 0, False, "p50"), p50)
        self.assertEqual(self.bar("step").row()[1:], ["under 60 µs", "60", "2 replicas", "miss"])
        self.samples.values[Key(LOCKSTEP, "step", 2, 0, False, "p50")] = [59.0, 59.5, 90.0]
        self.assertTrue(self.bar("step").passes())

    def test_what_was_not_measured_is_neither_pass_nor_miss(self):
        bar = self.bar("all_reduce, every size, against Gloo", {"Gloo": "it is not there"})
        self.assertEqual(bar.row()[2:], ["–", "", "skipped: it is not there"])
        self.assertIsNone(bar.passes())
        self.assertEqual(self.bar("run of an empty function, 2").verdict(), "skipped: not measured")

    def test_readers_are_compared_by_the_processors_time(self):
        add_readers(self.samples, readers_report({"csv/memchr": 100.0, "csv/lockstep": 40.0}))
        add_peer(self.samples, "pandas", peer_report([(0, 50.0)], operation="read csv", ranks=1))
        self.assertEqual(self.bar("reading lines and csv").row()[1:],
                         ["at least 0.5 of memchr's pass", "0.40", "csv", "miss"])
        self.assertEqual(self.bar("reading csv, one thread, against pandas").row()[2:], ["2.00", "one thread", "pass"])

    def test_axis_shapes_have_64_mib(self):
        for shape in bars.AXIS_SHAPES.values():
            self.assertEqual(shape[0] * shape[1] * shape[2] * 4, 64 * MIB)

    def test_tables(self):
        rows = [["a", "b", "1", "c", "pass"]]
        self.assertEqual(bars.markdown_table(rows).splitlines()[1:], ["|---|---|---|---|---|", "| a | b | 1 | c | pass |"])
        self.assertEqual(bars.text_table(rows).splitlines()[2], "a     b    1         c         pass")

    def test_numbers_have_three_digits(self):
        self.assertEqual([bars.number(value) for value in (0.954, 9.996, 12.34, 123.4)], ["0.95", "10.00", "12.3", "123"])


class GradientsTest(unittest.TestCase):
    def test_sizes_are_those_of_the_shapes(self):
        with open(os.path.join(FOLDER, "resnet50_gradients.txt"), encoding="utf-8") as file:
            lines = [line.split() for line in file if not line.startswith("#")]
        self.assertEqual(len(lines), 161)
        self.assertEqual(sum(int(size) for _, _, size in lines), 4 * 25557032)
        for _, shape, size in lines:
            elements = 1
            for extent in shape.split("x"):
                elements *= int(extent)
            self.assertEqual(4 * elements, int(size))


# Stands for lockstep_bench, all times 2 µs, and for a peer, all times 20 µs; Gloo's is broken.
FAKE_BENCH = """#!{python}
import json, os, sys
cluster = json.loads(os.environ.get("TF_CONFIG", '{{"cluster": {{"worker": [""]}}, "task": {{"index": 0}}}}'))
if cluster["task"]["index"] > 0:
    sys.exit()
value = lambda flag: sys.argv[sys.argv.index(flag) + 1]
size = 64 << 20 if "-b" not in sys.argv else eval(value("-b").replace("M", "<<20"))
operators = [value("-o") if "-o" in sys.argv else "sum"]
half = {{"time": 2.0, "nwrong": {wrong}, "floor_time": 1.9, "floor_ratio": 0.95}}
json.dump({{"config": {{"devices": [0] * int(value("--replicas")) * len(cluster["cluster"]["worker"])}}, "results": [{{
    "size": 0 if sys.argv[1] in ("run", "run_all_reduce", "step") else 802816 if sys.argv[1] == "input" else size,
    "experiment_name": sys.argv[1], "out_of_place": half, "in_place": half, "redop": operator,
    "out_of_place_per_iter": {{"p50_us": 1.5}}, "in_place_per_iter": {{"p50_us": 1.5}}}} for operator in operators]}}, open(value("-J"), "w"))
"""
FAKE_PEER = """#!{python}
import json, sys
if "pytorch" in sys.argv[1]:
    print("no such module", file=sys.stderr)
    sys.exit(77)
input = sys.argv[2] == "input"
print(json.dumps({{"peer": "x", "version": "7", "results": [{{"operation": sys.argv[2], "ranks": 4 if input else 2,
    "size": 802816 if input else 0, "in_place": False, "time": 200.0, "wrong": 0}}]}}))
"""


class DriverTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.makedirs(os.path.join(self.folder, "benchmarks", "compare"))
        self.program("python", FAKE_PEER.format(python=sys.executable))
        self.program("benchmarks/lockstep_bench", FAKE_BENCH.format(python=sys.executable, wrong=0))
        self.program("benchmarks/compare/compare_gloo", "#!/bin/sh\necho oh no >&2\nexit 3\n")

    def program(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def run_driver(self, *arguments):
        return subprocess.run([sys.executable, os.path.join(FOLDER, "compare.py"), "--build", self.folder, "--python",
                               os.path.join(self.folder, "python"), *arguments], capture_output=True, text=True, check=False)

    def test_the_table_is_printed_and_written_and_says_what_was_left_out(self):
        done = self.run_driver("--quick", "--repetitions", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("median of 2; beside TensorFlow 7", done.stdout)
        with open(os.path.join(self.folder, "compare.json"), encoding="utf-8") as file:
            document = json.load(file)
        verdicts = {bar["case"]: bar["verdict"] for bar in document["bars"]}
        for bar in document["bars"]:
            self.assertIn(bar["case"], done.stdout)
        self.assertEqual(verdicts.pop("all_reduce, every size, against Gloo"), "skipped: exit status 3: oh no")
        self.assertEqual(verdicts.pop("input against PyTorch's DataLoader"), "skipped: no such module")
        self.assertEqual(verdicts.pop("all_reduce, every size, against PyTorch's gloo"), "skipped: no such module")
        self.assertEqual(verdicts.pop("2 processes: all_reduce, every size, against Gloo"),
                         "skipped: exit status 3: oh no")
        self.assertEqual(verdicts.pop("2 processes: all_reduce, every size, against PyTorch's gloo"),
                         "skipped: no such module")
        self.assertEqual(verdicts.pop("what averaging gradients adds to a LibTorch step, 2 replicas, against PyTorch's gloo"),
                         "skipped: no such module")
        for case in [case for case in verdicts if "Open MPI" in case]:
            self.assertEqual(verdicts.pop(case), "skipped: Open MPI was not found when the build was configured")
        for case in [case for case in verdicts if case.startswith("reading")]:
            self.assertEqual(verdicts.pop(case), "skipped: Google Benchmark was not found when the build was configured")
        self.assertEqual(set(verdicts.values()), {"pass"}, verdicts)
        self.assertEqual(len(verdicts), 15)
        with open(os.path.join(self.folder, "compare.md"), encoding="utf-8") as file:
            self.assertEqual(sum(line.startswith("|") for line in file), 31 + 2)

    def test_rows_of_several_processes_can_be_measured_alone(self):
        done = self.run_driver("--quick", "--workers")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.folder, "compare.json"), encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual(len(document["bars"]), 6)
        for bar in document["bars"]:
            self.assertTrue(bar["case"].startswith("2 processes: "), bar["case"])
        self.assertEqual({sample["case"] for sample in document["samples"] if sample["source"] == LOCKSTEP},
                         {"workers sweep", "workers floor", "workers run"})
        self.assertEqual([place for place, _ in document["bars"][0]["places"]],
                         [f"16 MiB, 2 processes x {replicas}{placement}" for replicas in (1, 2)
                          for placement in ("", ", in place")])

    def test_a_failure_of_any_worker_of_lockstep_ends_it(self):
        self.program("benchmarks/lockstep_bench", FAKE_BENCH.format(python=sys.executable, wrong=0).replace(
            "    sys.exit()", "    sys.exit('worker 1 is broken')"))
        done = self.run_driver("--quick", "--workers")
        self.assertEqual(done.returncode, 1)
        self.assertIn("exit status 1: worker 1 is broken", done.stderr)

    def test_workers_have_addresses_of_their_own(self):
        configs = [json.loads(environment["TF_CONFIG"]) for environment in compare.peers.worker_environments(3)]
        self.assertEqual([config["task"] for config in configs], [{"type": "worker", "index": i} for i in range(3)])
        self.assertEqual(len(set(configs[0]["cluster"]["worker"])), 3)
        self.assertEqual({str(config["cluster"]) for config in configs}, {str(configs[0]["cluster"])})

    def test_wrong_values_of_lockstep_end_it(self):
        self.program("benchmarks/lockstep_bench", FAKE_BENCH.format(python=sys.executable, wrong=1))
        done = self.run_driver("--quick")
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 wrong values", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_a_peer_is_not_run_again_once_it_has_failed(self):
        done = self.run_driver("--quick")
        self.assertEqual(done.stderr.count("compare_gloo"), 0)
        self.assertEqual(done.stderr.count("Gloo is left out"), 1)
        self.assertEqual(done.stderr.count("PyTorch is left out"), 1)

    def test_every_command_of_a_full_run_measures_what_a_bar_needs(self):
        for effort in (compare.FULL, compare.QUICK):
            cases = {command.case for command in compare.plan(effort, "build", "python") if command.case}
            self.assertEqual(cases, {"sweep", "floor float", "floor half", "floor bfloat16", "operators", "run", "each run",
                                     "step", "batch_reduce", "input", "workers sweep", "workers floor", "workers run"}
                             | {f"axis {name}" for name in bars.AXIS_SHAPES})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
