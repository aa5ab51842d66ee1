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
        for text in ('[]', '7', '{"results": 7}', '{"results": [7]}', '{"results": [{}]}', "[" * 100_000,
                     '{"results": [{"size": 1e999, "type": "f", "redop": "s", "root": 0, "out_of_place": null}]}'):
            with open(self.path("odd.json"), "w", encoding="utf-8") as file:
                file.write(text)
            done = self.plot(self.path("odd.json"))
            self.assertEqual(done.returncode, 1)
            self.assertIn("odd.json", done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        done = self.plot(self.report("zero.json", [(8, 0.0)]))
        self.assertIn("no result has a bus bandwidth above 0", done.stderr)
        done = self.plot(self.report("a.json", [(8, 1.0)]), "--labels", "a", "b")
        self.assertIn("2 labels for 1 reports", done.stderr)


    def test_a_picture_that_cannot_be_written_is_told(self):
        done = self.plot(self.report("a.json", [(8, 1.0)]), "-o", "/dev/full")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write /dev/full", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_infinities_are_left_out_and_numbers_as_roots_drawn(self):
        path = self.report("a.json", [(8, float("inf")), (16, 1.0), (32, float("nan")), (64, 1e-320)], root=3)
        done = self.plot(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        (points,) = self.lines().values()
        self.assertEqual(len(points), 1)

    def sweep(self, types, operators, name="sweep.json", ranks=4):
        results = [{"size": size, "type": dtype, "redop": operator, "root": "    -1", "experiment_name": "all_reduce",
                    "out_of_place": {"bus_bw": 1.0 + size}, "in_place": {"bus_bw": 2.0}}
                   for dtype in types for operator in operators for size in (8, 16)]
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump({"config": {"nthreads": ranks, "ngpus": 1}, "results": results}, file)
        return self.path(name)

    def texts(self):
        root = ElementTree.parse(self.path("plot.svg")).getroot()
        return root, list(root.iter(SVG + "text"))

    def test_many_lines_have_panels_in_which_styles_differ(self):
        types = [f"type{i}" for i in range(12)]
        done = self.plot(self.sweep(types, ["sum", "prod", "max", "min", "avg"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        root, texts = self.texts()
        words = [text.text for text in texts]
        for word in types + ["sum", "prod", "max", "min", "avg"]:
            self.assertEqual(words.count(word), 1, word)  # in the legend, or above a panel
        panels = {}
        for line in root.iter(SVG + "polyline"):
            _, _, operator, _ = line.find(SVG + "title").text.split()
            panels.setdefault(operator, []).append((line.get("stroke"), line.get("stroke-dasharray")))
        self.assertEqual(len(panels), 5)
        for styles in panels.values():
            self.assertEqual(len(set(styles)), 12)
        self.assertEqual(len({tuple(styles) for styles in panels.values()}), 1)  # a type looks alike in all

    def test_no_style_is_used_twice_in_a_panel(self):
        types = [f"type{i}" for i in range(9)]
        files = [self.sweep(types, ["sum", "max"], f"{name}.json") for name in "abcde"]
        self.assertEqual(self.plot(*files).returncode, 0)
        root, texts = self.texts()
        self.assertEqual([text.text for text in texts if text.get("font-weight") == "bold"], types)
        styles = {(line.find(SVG + "title").text.split()[1], line.get("stroke"), line.get("stroke-dasharray"))
                  for line in root.iter(SVG + "polyline")}
        self.assertEqual(len(styles), 5 * 9 * 2)

    def test_nothing_is_cut(self):
        label = "a label that is longer than the picture would be without it " * 4
        self.plot(self.sweep(["float", "half"], ["sum"]), "--labels", label, "--title", "title " * 60 + "x" * 300)
        root, texts = self.texts()
        width, height = float(root.get("width")), float(root.get("height"))
        for text in texts:
            size = float(text.get("font-size", root.get("font-size")))
            length = 0.6 * size * len(text.text)
            if text.get("transform"):
                continue
            left = float(text.get("x")) - length * {"middle": 0.5, "end": 1}.get(text.get("text-anchor"), 0)
            self.assertGreaterEqual(left, 0, text.text)
            self.assertLessEqual(left + length, width, text.text)
            self.assertLessEqual(float(text.get("y")), height, text.text)

    def test_placement_ranks_and_what_lines_have_in_common_are_said(self):
        path = self.sweep(["float", "half"], ["sum"])
        self.plot(path, "--title", "A")
        self.assertIn("all_reduce, out of place, 4 ranks, sum", [text.text for text in self.texts()[1]])
        self.plot(path, self.sweep(["float"], ["sum"], "two.json", 2), "--in-place")
        self.assertIn("all_reduce, in place, 2 ranks and 4 ranks, sum", [text.text for text in self.texts()[1]])
        self.assertIn("two 2 ranks float", [text.text for text in self.texts()[1]])

    def test_files_of_one_name_are_told_apart(self):
        for folder in ("a", "b"):
            os.mkdir(self.path(folder))
        paths = [self.report(f"{folder}/run.json", [(8, 1.0)]) for folder in ("a", "b")]
        self.plot(*paths)
        self.assertEqual(list(self.lines()), ["a/run", "b/run"])
        self.plot(*paths, "--labels", "same", "same")
        self.assertEqual(list(self.lines()), ["same", "same (2)"])
        self.plot(paths[0], paths[0])
        self.assertEqual(list(self.lines()), ["run", "run (2)"])

    def test_bandwidths_close_to_each_other_fill_the_picture(self):
        self.plot(self.report("a.json", [(8, 13.0), (16, 18.0)]))
        (first, second), = self.lines().values()
        self.assertGreater(first[1] - second[1], 100)  # pixels


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
