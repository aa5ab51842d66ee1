#!/usr/bin/env python3
"""Runs cases in TensorFlow's tf.distribute and writes what it gives.

    python3 goldens.py                        all cases, into goldens.json
    python3 goldens.py --check                whether goldens.json would stay as it is; ends with 77, which CTest shows as
                                              skipped, where Python has not the versions that made the file
    python3 goldens.py --only ID [ID ...]     these cases, to standard output
    python3 goldens.py --list                 their ids

Needs tensorflow-cpu and tf_keras (Keras 3 comes with TensorFlow). Devices are logical CPU devices; nothing is written but
temporary files; two local processes talk over free ports. The values under "results" are
TensorFlow's, never lockstep's; "spec" is what was expected before the case was run, where something was, and "agrees"
compares the two. See README.md beside this file for the format.
"""
import argparse
import difflib
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

MODULES = ["values", "contexts", "variables", "extended", "input", "transformations", "formats", "clusters", "mesh", "training", "workers"]


def run_in_process(package, module, only, ops):
    from cases import framework
    framework.configure(ops)
    importlib.import_module(f"{package}.{module}")
    return [framework.run(case) for case in framework.CASES
            if case.module == f"{package}.{module}" and (only is None or case.id in only)]


def run_module(package, module, only, ops):
    """In a process of its own, so that a collective that hangs or breaks spoils no other module."""
    command = [sys.executable, os.path.join(HERE, "goldens.py"), "--package", package, "--module", module,
               "--cross-device-ops", ops]
    if only is not None:
        command += ["--only", *only]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=None, check=False)
    if done.returncode != 0:
        sys.exit(f"{module}: exit status {done.returncode}")
    return json.loads(done.stdout.decode().splitlines()[-1])


def layout(document):
    """One line for each result: readable, and a diff shows which result changed."""
    out = ["{"]
    out.append(' "made_with": ' + json.dumps(document["made_with"]) + ",")
    out.append(' "cases": [')
    for n, case in enumerate(document["cases"]):
        out.append("  {" + ", ".join(json.dumps(k) + ": " + json.dumps(case[k]) for k in case if k != "results") + ",")
        out.append('   "results": {')
        rows = ["    " + json.dumps(k) + ": " + json.dumps(v) for k, v in case["results"].items()]
        out.append(",\n".join(rows))
        out.append("   }}" + ("," if n + 1 < len(document["cases"]) else ""))
    out.append(" ]")
    out.append("}")
    return "\n".join(out) + "\n"


def check_versions(path):
    with open(path, encoding="utf-8") as file:
        expected = json.load(file)["made_with"]
    for package, version in expected.items():
        try:
            found = importlib.metadata.version("tensorflow-cpu" if package == "tensorflow" else package)
        except importlib.metadata.PackageNotFoundError:
            found = "not there"
        if found != version:
            print(f"skipped: {package} is {found}, goldens.json was made with {version}")
            sys.exit(77)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="ID")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--modules", nargs="+", default=MODULES)
    parser.add_argument("--output", default=os.path.join(HERE, "goldens.json"))
    parser.add_argument("--cross-device-ops", default="default", choices=["default", "one_device"],
                        help="how MirroredStrategy combines values: TensorFlow's choice, or ReductionToOneDevice")
    parser.add_argument("--package", default="cases", help=argparse.SUPPRESS)
    parser.add_argument("--module", help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    if arguments.module:
        results = run_in_process(arguments.package, arguments.module, arguments.only, arguments.cross_device_ops)
        sys.stdout.write("\n" + json.dumps(results) + "\n")
        sys.stdout.flush()
        os._exit(0)  # threads of hung collectives must not keep the process

    if arguments.check:
        check_versions(arguments.output)
    cases = []
    for module in arguments.modules:
        found = run_module(arguments.package, module, arguments.only, arguments.cross_device_ops)
        cases += found
        print(f"{module}: {len(found)} cases", file=sys.stderr)
    if arguments.list:
        print("\n".join(case["id"] for case in cases))
        return
    from cases import framework
    document = {"made_with": framework.versions(), "cases": cases}
    if arguments.only is not None:
        print(layout(document))
        return
    if arguments.check:
        with open(arguments.output, encoding="utf-8") as file:
            before = file.read().splitlines()
        difference = list(difflib.unified_diff(before, layout(document).splitlines(), "goldens.json", "now", n=0, lineterm=""))
        sys.exit("\n".join(difference) if difference else 0)
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write(layout(document))


if __name__ == "__main__":
    main()
