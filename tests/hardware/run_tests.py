"""run_tests.py PROGRAM VIRTUAL SHARDS SECONDS [FILTER]: runs a Catch2 program's tests on GPU:0, split into VIRTUAL devices,
in shards side by side, each a process of its own, as a fault takes its process along. What failed is run again alone,
which tells a fault from those that followed it."""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

program, virtual, shards, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
filters = [text for text in sys.argv[5:] if text]
environment = {**os.environ, "LOCKSTEP_TEST_VIRTUAL_DEVICES": virtual}
folder = Path(tempfile.mkdtemp())


def start(shard):
    command = ["timeout", "-k", "3", str(seconds), program, *filters, "--order", "decl", "--shard-count", str(shards),
               "--shard-index", str(shard), "--reporter", "compact", "--reporter", f"junit::out={folder}/{shard}.xml"]
    output = open(folder / f"{shard}.txt", "w")
    return subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)


status = 0
for shard, process in enumerate([start(shard) for shard in range(shards)]):
    if process.wait() != 0:
        status = 1
        lines = (folder / f"{shard}.txt").read_text(errors="replace").splitlines()
        print(f"shard {shard}: status {process.returncode}", *lines[-15:], sep="\n")

failed, num_cases, num_skipped = set(), 0, 0
for report in folder.glob("*.xml"):
    try:
        cases = ElementTree.parse(report).getroot().iter("testcase")
    except ElementTree.ParseError:
        print(f"{report.name} ends early")
        continue
    for case in cases:
        num_cases += 1
        num_skipped += case.find("skipped") is not None
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(case.get("name").split("/")[0])
print(f"{Path(program).name} on {virtual} devices: {num_cases} tests, {num_skipped} skipped, {len(failed)} failed")
for name in sorted(failed)[:12]:
    pattern = name.replace("\\", "\\\\").replace(",", "\\,").replace("[", "\\[")
    alone = subprocess.run(["timeout", "10", program, pattern, "--reporter", "compact"], env=environment,
                           capture_output=True, text=True, errors="replace")
    print("FAILED", name, "| alone:", "passes" if alone.returncode == 0 else f"status {alone.returncode}\n{alone.stdout[-700:]}")
sys.exit(status if num_cases > 0 else 1)
