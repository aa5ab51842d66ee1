#!/usr/bin/env python3
"""Prints what each kernel takes of a multiprocessor: registers, shared memory, spills, occupancy.

    kernel_table.py --ptxas PTXAS [--gpu sm_90] [--no-spills] [--memory-bound FILE] OBJECT...

The objects must hold PTX as plain text (nvcc's --no-compress, and an architecture such as 80-virtual). It is compiled
for the GPU by ptxas, whose -v says the rest. With --no-spills the status is 1 where a kernel spills registers. With
--memory-bound it is 1 where a kernel has an occupancy below 50 % or less in flight than it needs, unless FILE names it
with the reason, a line each: "PATTERN: why". A pattern that no kernel needs there is an error too.

Occupancy is theoretical, of blocks with as many threads as the kernel's launch bounds allow, which lockstep's launches
have; dynamic shared memory is not known here. `bytes` is Little's law: what each resident thread must have in flight,
so that all of them keep the memory of an H200 (132 multiprocessors, 4.8 TB/s) busy at the latency that Hopper has
without load, 400 cycles at 1755 MHz (doi:10.1016/j.ultsonch.2023.106546, table 3). With load it is longer: a kernel
that has less in flight cannot reach the memory's rate, one that has more may. `loads` is what it has in flight at
least: the most bytes that a thread loads from global memory between two branches, so that none waits for another's
value. 0: it loads nothing.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path

# CUDA Programming Guide, technical specifications per compute capability: warps, blocks, shared memory of a
# multiprocessor. All have 65536 registers, given to warps 256 at a time, and keep 1 KiB of shared memory per block.
LIMITS = {80: (64, 32, 164 << 10), 90: (64, 32, 228 << 10), 100: (64, 32, 228 << 10)}
REGISTERS = 65536
BYTES_IN_FLIGHT = 4.8e12 * 400 / 1755e6 / 132  # of a multiprocessor


def ptx_of(path):
    """The PTX texts in an object's fat binary."""
    data = Path(path).read_bytes()
    texts = []
    for start in re.finditer(rb"\.version \d+\.\d+\s+\.target sm_\d+", data):
        end = data.find(b"\0", start.start())
        texts.append(data[start.start():end].decode())
    return texts


def demangled(names):
    tool = shutil.which("c++filt")
    if tool is None:
        return names
    done = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


SMALL_FLOATS = {"SmallFloat<unsigned char, 4, 3, false>": "f8e4m3", "SmallFloat<unsigned char, 5, 2, true>": "f8e5m2",
                "SmallFloat<unsigned short, 5, 10, true>": "f16", "SmallFloat<unsigned short, 8, 7, true>": "bf16"}


def short(name):
    """A template's name with its arguments, without namespaces, result and parameters."""
    name = re.sub(r"\(anonymous namespace\)::", "", name)
    name = name.split("(")[0]
    name = re.sub(r"^void ", "", name)
    name = re.sub(r"\b(?:lockstep|cuda|arithmetic|std|detail)::", "", name)
    for long, word in SMALL_FLOATS.items():
        name = name.replace(long, word)
    return name.replace(" >", ">")


def resources(ptxas, gpu, ptx):
    """What ptxas says of each kernel, by its mangled name."""
    with tempfile.NamedTemporaryFile(suffix=".ptx", mode="w") as file:
        file.write(ptx)
        file.flush()
        done = subprocess.run([ptxas, "-v", f"-arch={gpu}", file.name, "-o", "/dev/null"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"kernel_table.py: ptxas -arch={gpu} fails:\n{done.stderr}")
    threads = dict(re.findall(r"\.entry\s+(\w+)\s*\([^)]*\)\s*\.maxntid\s+(\d+)", ptx))
    kernels = {}
    name, spilled = None, 0
    for line in (done.stdout + done.stderr).splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)'", line):
            name, spilled = entry[1], 0
        elif spill := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled += int(spill[1]) + int(spill[2])
        elif used := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            kernels[name] = {"registers": int(used[1]), "shared": int(shared[1]) if shared else 0, "spilled": spilled,
                             "threads": int(threads.get(name, 1024))}
    return kernels


WIDTHS = {"v2": 2, "v4": 4}
LOAD = re.compile(r"\s*(?:@!?%\w+\s+)?ld\.(?:volatile\.)?global(?:\.nc)?(?:\.(v[24]))?\.[a-z](\d+)")


def bytes_in_flight(ptx):
    """The most bytes of each kernel's global loads in one basic block."""
    kernels = {}
    for entry in re.finditer(r"\.entry\s+(\w+)", ptx):
        body = ptx[entry.end():].split("\n}", 1)[0]
        most = here = 0
        for line in body.splitlines():
            if re.match(r"\s*(\$?\w+:|(@!?%\w+\s+)?bra\b|bar\.|barrier\.|ret\b|call)", line):
                here = 0
            elif load := LOAD.match(line):
                here += WIDTHS.get(load[1], 1) * int(load[2]) // 8
                most = max(most, here)
        kernels[entry[1]] = most
    return kernels


def resident_blocks(kernel, capability):
    warps, blocks, shared = LIMITS[capability]
    block_warps = (kernel["threads"] + 31) // 32
    warp_registers = (kernel["registers"] * 32 + 255) // 256 * 256
    # Each of the four schedulers has a quarter of the registers.
    by_registers = REGISTERS // 4 // warp_registers * 4 // block_warps
    by_shared = shared // ((kernel["shared"] + 1024 + 127) // 128 * 128)
    return min(blocks, warps // block_warps, by_registers, by_shared)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptxas", required=True)
    parser.add_argument("--gpu", default="sm_90", choices=[f"sm_{capability}" for capability in LIMITS])
    parser.add_argument("--no-spills", action="store_true")
    parser.add_argument("--memory-bound", metavar="FILE")
    parser.add_argument("objects", nargs="+", metavar="OBJECT")
    arguments = parser.parse_args()
    capability = int(arguments.gpu[3:])

    rows = []
    for path in arguments.objects:
        texts = ptx_of(path)
        if not texts:
            sys.exit(f"kernel_table.py: {path} holds no PTX as plain text. Compile it for a virtual architecture, with "
                     "--no-compress: the preset dev does.")
        for ptx in texts:
            kernels = resources(arguments.ptxas, arguments.gpu, ptx)
            for name, loads in bytes_in_flight(ptx).items():
                kernels[name]["loads"] = loads
            for name, pretty in zip(kernels, demangled(list(kernels))):
                rows.append((Path(path).name.removesuffix(".o"), short(pretty), kernels[name]))

    print(f"{'source':<18} {'kernel':<44} {'regs':>4} {'shared':>6} {'spilled':>7} {'threads':>7} {'blocks':>6} "
          f"{'occupancy':>9} {'bytes':>5} {'loads':>5}")
    slow = {}
    for source, name, kernel in sorted(rows, key=lambda row: row[:2]):
        blocks = resident_blocks(kernel, capability)
        resident = blocks * kernel["threads"]
        print(f"{source:<18} {name:<44} {kernel['registers']:>4} {kernel['shared']:>6} {kernel['spilled']:>7} "
              f"{kernel['threads']:>7} {blocks:>6} {resident / 32 / LIMITS[capability][0]:>9.0%} "
              f"{BYTES_IN_FLIGHT / resident:>5.1f} {kernel['loads']:>5}")
        occupancy = resident / 32 / LIMITS[capability][0]
        if occupancy < 0.5 or 0 < kernel["loads"] < BYTES_IN_FLIGHT / resident:
            slow[name] = f"{name} ({source}): occupancy {occupancy:.0%}, {kernel['loads']} bytes in flight per thread"
    spilling = [f"{name} ({source})" for source, name, kernel in rows if kernel["spilled"]]
    print(f"{len(rows)} kernels for {arguments.gpu}; registers spilled by {len(spilling)}: {', '.join(spilling) or 'none'}")
    failed = arguments.no_spills and bool(spilling)
    if arguments.memory_bound:
        lines = [line for line in Path(arguments.memory_bound).read_text().splitlines() if line and line[0] != "#"]
        excepted = [line.split(": ", 1)[0] for line in lines]
        for name in sorted(name for name in slow if not any(fnmatch(name, pattern) for pattern in excepted)):
            print(f"{slow[name]}: too few for the memory's rate")
            failed = True
        for pattern in excepted:
            if not any(fnmatch(name, pattern) for name in slow):
                print(f"{pattern} needs no exception in {arguments.memory_bound}")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
