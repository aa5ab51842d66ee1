"""table.py PREDICTIONS RESULTS [--rehearsal]: prints what was measured beside what was predicted, as Markdown, what differs
first.

A line of PREDICTIONS: stage, what (a pattern as the shell's), prediction, reason; the first that matches counts. A prediction
is a range: "0.85-0.92" of the share of the copy's rate, "3-6 us" of a time; or the beginning of a finding. In a rehearsal
figures mean nothing, but each prediction must be of something that was measured."""

import fnmatch
import json
import re
import sys
from collections import namedtuple
from pathlib import Path

Row = namedtuple("Row", "stage what text us share")  # us, share: None where there is none
ONE_FORM = ("alltoall", "run", "step", "axis_reduce", "batch_reduce")


def hardware_rows(folder):
    """What lockstep_hardware printed."""
    for path in sorted(folder.glob("*.txt")):
        for line in path.read_text(errors="replace").splitlines():
            section, *fields = line.split("\t")
            if section != path.stem:
                continue
            if len(fields) == 4:
                what, value, unit, share = fields
                share = None if share == "-" else float(share)
                yield Row(section, what, f"{value} {unit}", float(value), share)
            elif len(fields) == 2:
                yield Row(section, *fields, None, None)


def bench_rows(folder):
    """The same of lockstep_bench's reports."""
    for path in sorted(folder.glob("*.json")):
        try:
            results = json.loads(path.read_text()).get("results", [])  # none: it failed before its first row
        except json.JSONDecodeError:
            continue  # it was ended as it wrote
        for result in results:
            has_one_form = result["experiment_name"] in ONE_FORM
            for placement in ("out_of_place",) if has_one_form else ("out_of_place", "in_place"):
                measured = result[placement]
                what = f"{result['type']} {result['redop']} {result['size']}"
                text = f"{measured['time']:.2f} us"
                if measured["nwrong"]:
                    text += f", WRONG: {measured['nwrong']}"
                yield Row(path.stem, what + ("" if has_one_form else f" {placement}"), text, measured["time"],
                          measured.get("floor_ratio"))


def read_predictions(path):
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [(line.split("\t") + [""])[:4] for line in lines]


def verdict(row, predicted):
    if any(word in row.text for word in ("WRONG", "FAULT", "FAILED")):
        return "wrong"
    if not predicted:
        return ""
    bounds = re.fullmatch(r"([\d.]+)-([\d.]+)( us)?", predicted)
    if not bounds:
        return "as predicted" if row.text.startswith(predicted) else "differs"
    number = row.us if bounds[3] else row.share
    return "lower" if number < float(bounds[1]) else "higher" if number > float(bounds[2]) else "as predicted"


def main():
    predictions, results = read_predictions(Path(sys.argv[1])), Path(sys.argv[2])
    used, table = set(), []
    for row in [*hardware_rows(results), *bench_rows(results)]:
        matching = [i for i, (stage, what, *_) in enumerate(predictions)
                    if stage == row.stage and fnmatch.fnmatchcase(row.what, what)]
        used.update(matching)
        _, _, predicted, reason = predictions[matching[0]] if matching else ("", "", "", "")
        share = "" if row.share is None else f"{row.share:.2f}"
        table.append([row.stage, row.what, row.text, share, predicted, verdict(row, predicted), reason])
    order = {"wrong": 0, "differs": 1, "lower": 2, "higher": 3}
    print("| stage | what | measured | share of the copy's rate | predicted | | why |", "|---|---|---|---|---|---|---|",
          sep="\n")
    for cells in sorted(table, key=lambda cells: order.get(cells[5], 4)):
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    if "--rehearsal" not in sys.argv:
        return 0 if table else 1
    unused = [prediction for i, prediction in enumerate(predictions) if i not in used]
    for stage, what, *_ in unused:
        print(f"nothing was measured for the prediction of {stage}, {what}")
    return 1 if unused or not table or any(cells[5] == "wrong" for cells in table) else 0


if __name__ == "__main__":
    sys.exit(main())
