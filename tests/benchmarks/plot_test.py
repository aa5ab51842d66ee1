"""plot.py on reports that lockstep_bench writes, and on broken ones: plot_test.py PLOT BENCH."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

PLOT, BENCH = sys.argv[1:3]
SVG = "{http://www.w3.org/2000/svg}"


class PlotTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def plot(self, *arguments):
        command = [sys.executable, PLOT, "-o", self.path("plot.svg"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def report(self, name, bandwidths, **others):
        results = [{"size": size, "type": "float", "redop": "sum", "root": "    -1",
                    "out_of_place": {"bus_bw": bandwidth}, "in_place": {"bus_bw": 2.0}, **others}
                   for size, bandwidth in bandwidths]
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump({"results": results}, file)
        return self.path(name)

    def lines(self):
        root = ElementTree.parse(self.path("plot.svg")).getroot()
        return {line.find(SVG + "title").text:
                [tuple(map(float, point.split(","))) for point in line.get("points").split()]
                for line in root.iter(SVG + "polyline")}

    def test_a_line_for_each_report_of_the_program(self):
        for collective in ("all_reduce", "all_gather"):
            subprocess.run([BENCH, collective, "-b", "1K", "-e", "16K", "-f", "4", "-n", "2", "--replicas", "2",
                            "-J", self.path(collective + ".json")], check=True, stdout=subprocess.DEVNULL)
        done = self.plot(self.path("all_reduce.json"), self.path("all_gather.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = self.lines()
        self.assertEqual(list(lines), ["all_reduce", "all_gather"])
        for points in lines.values():
            self.assertEqual(len(points), 3)

    def test_points_are_on_logarithmic_axes(self):
        self.plot(self.report("a.json", [(1024, 1.0), (4096, 10.0), (16384, 100.0)]))
        (first, second, third), = self.lines().values()
        self.assertAlmostEqual(second[0] - first[0], third[0] - second[0], delta=0.2)
        self.assertAlmostEqual(first[1] - second[1], second[1] - third[1], delta=0.2)
        self.assertGreater(second[0], first[0])
        self.assertLess(second[1], first[1])

    def test_results_without_bandwidth_are_left_out_and_repeated_ones_averaged(self):
        path = self.report("a.json", [(0, 1.0), (8, 0.0), (16, "nan"), (32, 1.0), (32, 3.0), (64, 2.0)])
        self.plot(path)
        (averaged, plain), = self.lines().values()
        self.assertEqual(averaged[1], plain[1])

    def test_types_are_lines_of_their_own_and_labels_are_escaped(self):
        path = self.report("a.json", [(8, 1.0)])
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        document["results"].append({**document["results"][0], "type": "half"})
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        done = self.plot(path, "--labels", "<a&b>", "--title", "x < y")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(self.lines()), ["<a&b> float sum -1", "<a&b> half sum -1"])

    def test_in_place_results_are_drawn_when_asked_for(self):
        path = self.report("a.json", [(8, 0.0)])
        self.assertNotEqual(self.plot(path).returncode, 0)
        self.assertEqual(self.plot(path, "--in-place").returncode, 0)

    def test_what_cannot_be_drawn_is_refused_by_name(self):
        with open(self.path("broken.json"), "w", encoding="utf-8") as file:
            file.write("{")
        with open(self.path("other.json"), "w", encoding="utf-8") as file:
            file.write('{"a": 1}')
        for name in ("broken.json", "other.json", "missing.json"):
            done = self.plot(self.path(name))
            self.assertEqual(done.returncode, 1)
            self.assertIn(name, done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        done = self.plot(self.report("zero.json", [(8, 0.0)]))
        self.assertIn("no result has a bus bandwidth above 0", done.stderr)
        done = self.plot(self.report("a.json", [(8, 1.0)]), "--labels", "a", "b")
        self.assertIn("2 labels for 1 reports", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
