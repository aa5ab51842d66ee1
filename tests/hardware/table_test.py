"""Tests table.py on results that are made up."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TABLE = Path(__file__).with_name("table.py")
PREDICTIONS = """# stage	what	prediction	why
semantics	a new event	ok	it must
elementwise	add_ *	0.80-0.90	loads
elementwise	exp	0.80-0.90
host_costs	fill_*	2-3 us	a launch
all_reduce_8	float sum * in_place	0.80-0.90	waves
"""


def result(time, ratio, wrong=0):
    return {"time": time, "nwrong": wrong, "floor_time": time * ratio, "floor_ratio": ratio}


class Table(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "predictions.tsv").write_text(PREDICTIONS)

    def write(self, stage, *lines):
        (self.folder / f"{stage}.txt").write_text("\n".join(["of the tools", *("\t".join(line) for line in lines)]))

    def table(self, *options):
        """Its exit status, and the cells of its lines."""
        ran = subprocess.run([sys.executable, TABLE, self.folder / "predictions.tsv", self.folder, *options],
                             capture_output=True, text=True)
        lines = [line for line in ran.stdout.splitlines() if line.startswith("| ")]
        return ran.returncode, [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]], ran.stdout

    def test_what_differs_comes_first(self):
        self.write("elementwise", ("elementwise", "add_ float32", "10.00", "us", "0.85"),
                   ("elementwise", "add_ bfloat16", "20.00", "us", "0.70"), ("elementwise", "exp", "5.00", "us", "0.99"))
        self.write("semantics", ("semantics", "a new event", "NO: it carries a record"),
                   ("other", "is no line of", "this stage"))
        self.write("host_costs", ("host_costs", "fill_: a kernel", "2.50", "us", "-"),
                   ("host_costs", "copy_", "2.50", "us", "-"))
        status, rows, _ = self.table()
        self.assertEqual(status, 0)
        self.assertEqual([row[1] for row in rows],
                         ["a new event", "add_ bfloat16", "exp", "add_ float32", "fill_: a kernel", "copy_"])
        self.assertEqual([row[5] for row in rows],
                         ["differs", "lower", "higher", "as predicted", "as predicted", ""])
        self.assertEqual(rows[1], ["elementwise", "add_ bfloat16", "20.00 us", "0.70", "0.80-0.90", "lower", "loads"])

    def test_reports_of_the_benchmark(self):
        row = {"type": "float", "redop": "sum", "size": 64, "experiment_name": "all_reduce"}
        (self.folder / "all_reduce_8.json").write_text(json.dumps(
            {"results": [{**row, "out_of_place": result(4, 0.5), "in_place": result(2, 0.85, wrong=3)}]}))
        row["experiment_name"] = "axis_reduce"
        (self.folder / "axis_1.json").write_text(json.dumps(
            {"results": [{**row, "out_of_place": result(4, 0.5), "in_place": result(2, 0.85)}]}))
        _, rows, _ = self.table()
        self.assertEqual([row[:6] for row in rows], [
            ["all_reduce_8", "float sum 64 in_place", "2.00 us, WRONG: 3", "0.85", "0.80-0.90", "wrong"],
            ["all_reduce_8", "float sum 64 out_of_place", "4.00 us", "0.50", "", ""],
            ["axis_1", "float sum 64", "4.00 us", "0.50", "", ""]])

    def test_a_rehearsal_fails_where_a_prediction_is_of_nothing(self):
        self.write("elementwise", ("elementwise", "add_ float32", "10.00", "us", "0.10"),
                   ("elementwise", "exp", "5.00", "us", "0.99"))
        status, _, text = self.table("--rehearsal")
        self.assertEqual(status, 1)
        self.assertIn("nothing was measured for the prediction of host_costs, fill_*", text)
        (self.folder / "predictions.tsv").write_text("elementwise\t*\t0.80-0.90\n")
        self.assertEqual(self.table("--rehearsal")[0], 0)
        self.write("elementwise", ("elementwise", "the section's end", "FAULT: illegal address"))
        self.assertEqual(self.table("--rehearsal")[0], 1)

    def test_nothing_measured_is_a_failure(self):
        self.assertEqual(self.table()[0], 1)
        (self.folder / "axis_1.json").write_text('{"errors": ["no device"]}')
        (self.folder / "axis_2.json").write_text('{"results": [')
        status, rows, text = self.table()
        self.assertEqual((status, rows), (1, []))
        self.assertTrue(text.startswith("| stage |"))


if __name__ == "__main__":
    unittest.main()
