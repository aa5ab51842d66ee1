#!/usr/bin/env python3
"""kernel_table.py on PTX whose resources are known: kernel_table_test.py KERNEL_TABLE PTXAS"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TABLE, PTXAS = sys.argv[1:3]


def kernel(name, directive, values):
    """Has so many values at once, in registers if there are enough."""
    loads = "".join(f"ld.volatile.global.f32 %f{i}, [%rd2+{4 * i}];\n" for i in range(values))
    stores = "".join(f"st.volatile.global.f32 [%rd2+{4 * i}], %f{values - 1 - i};\n" for i in range(values))
    return (f".visible .entry {name}(.param .u64 {name}_p)\n{directive}\n{{\n.reg .f32 %f<{values}>;\n.reg .b64 %rd<3>;\n"
            f"ld.param.u64 %rd1, [{name}_p];\ncvta.to.global.u64 %rd2, %rd1;\n{loads}{stores}ret;\n}}\n")


def table(text, *flags, ending=b"\0more"):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.cu.o"
        path.write_bytes(b"\x7fELF\0" + text.encode() + ending)
        return subprocess.run([sys.executable, TABLE, "--ptxas", PTXAS, *flags, str(path)], capture_output=True, text=True)


HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


class KernelTable(unittest.TestCase):
    def test_a_spill_is_a_failure_where_none_is_allowed(self):
        text = HEAD + kernel("few", ".maxntid 256", 4) + kernel("many", ".maxnreg 24", 64)
        done = table(text)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 kernels for sm_90; registers spilled by 1: many (some.cu)", done.stdout)
        refused = table(text, "--no-spills")
        self.assertEqual(refused.returncode, 1)
        alone = table(HEAD + kernel("few", ".maxntid 256", 4), "--no-spills")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertIn("registers spilled by 0: none", alone.stdout)

    def test_occupancy_is_what_registers_threads_and_shared_memory_leave(self):
        def row(*arguments):
            return table(HEAD + kernel("one", *arguments)).stdout.splitlines()[1].split()

        source, name, registers, shared, spilled, threads, blocks, occupancy, in_flight, loads = row(".maxntid 256", 4)
        self.assertEqual((source, name, shared, spilled, threads), ("some.cu", "one", "0", "0", "256"))
        self.assertLess(int(registers), 32)
        self.assertEqual((blocks, occupancy), ("8", "100%"))
        self.assertEqual(in_flight, f"{4.8e12 * 400 / 1755e6 / 132 / 2048:.1f}")
        self.assertEqual(loads, "16")
        self.assertEqual(row(".maxntid 1024", 4)[5:8], ["1024", "2", "100%"])
        self.assertEqual(row(".maxntid 32", 4)[5:8], ["32", "32", "50%"])  # as many blocks as there may be
        registers, _, _, _, blocks, occupancy = row(".maxntid 256", 100)[2:8]
        self.assertGreater(int(registers), 96)
        self.assertEqual((blocks, occupancy), ("2", "25%"))

    def test_kernels_that_cannot_reach_the_memorys_rate_are_named_unless_excepted(self):
        text = HEAD + kernel("one", ".maxntid 256", 1) + kernel("few", ".maxntid 256", 100)
        text += kernel("fast", ".maxntid 256", 4)
        # What waits for another's value is not in flight with it.
        second = "ld.volatile.global.f32 %f1"
        text += kernel("waits", ".maxntid 256", 2).replace(second, "bra.uni next;\nnext:\n" + second)
        with tempfile.TemporaryDirectory() as folder:
            exceptions = Path(folder) / "exceptions"

            def messages(lines):
                exceptions.write_text(lines)
                done = table(text, "--memory-bound", str(exceptions))
                return done.returncode, re.findall(".*: too few.*|.*needs no.*", done.stdout)

            status, lines = messages("# none\n")
            self.assertEqual((status, len(lines)), (1, 3))
            self.assertIn("few (some.cu): occupancy 25%, 400 bytes in flight per thread: too few", lines[0])
            self.assertIn("one (some.cu): occupancy 100%, 4 bytes in flight per thread: too few", lines[1])
            self.assertIn("waits (some.cu): occupancy 100%, 4 bytes in flight per thread: too few", lines[2])
            self.assertEqual(messages("few: why\none: why\nwaits: why\n"), (0, []))
            status, lines = messages("few: why\none: why\nwaits: why\nfast: why\n")
            self.assertEqual((status, len(lines)), (1, 1))
            self.assertIn("fast needs no exception", lines[0])

    def test_shared_memory_limits_blocks(self):
        shared = kernel("one", ".maxntid 64", 4).replace(".reg .f32", ".shared .align 4 .b8 s[40960];\n.reg .f32", 1)
        shared = shared.replace("ret;", ".reg .b32 %r<2>;\nmov.u32 %r1, s;\nst.volatile.shared.f32 [%r1], %f0;\nret;")
        row = table(HEAD + shared).stdout.splitlines()[1].split()
        self.assertEqual(row[3], "40960")
        self.assertEqual(row[6], "5")  # of 228 KiB, with 1 KiB for each block

    def test_an_object_without_ptx_is_named(self):
        done = table("no such text")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("some.cu.o holds no PTX as plain text", done.stderr)

    def test_ptx_that_ptxas_refuses_is_an_error(self):
        done = table(HEAD + ".visible .entry broken( {")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ptxas -arch=sm_90 fails", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
