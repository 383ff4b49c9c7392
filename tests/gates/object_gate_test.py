#!/usr/bin/env python3
"""The object gate must catch each planted violation, leave the clean member alone, and only ever lower a count.

    object_gate_test.py C_COMPILER
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
GATE = HERE.parent.parent / "tools" / "gates" / "object_gate.py"
COMPILER = "cc"

# member -> what it reaches for, counted by hand in its source
PLANTED = {
    "call": {"cudaMalloc": 2},
    "renamed": {"cuMemAlloc_v2": 1},
    "address": {"cudaFree": 1},
    "per_thread": {"cudaMallocAsync_ptsz": 1},
    "bypass": {"dlsym": 1},
    "killer": {"__assert_fail": 1, "abort": 1, "exit": 1},
    "printer": {"printf": 1, "stderr": 1},
    "heap": {"free": 1, "malloc": 1, "strdup": 1},
    "global": {"global:count": 1, "global:last": 1},
}
EXACT = [f"planted.a {member}.o {symbol} {count}\n" for member, symbols in PLANTED.items() for symbol, count in symbols.items()]


class ObjectGate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.folder.name)
        cls.archive = cls.work / "planted.a"
        objects = []
        for source in sorted((HERE / "object").glob("*.c")):
            objects.append(str(cls.work / (source.stem + ".o")))
            subprocess.run([COMPILER, "-std=c11", "-O0", "-g", "-fPIC", "-c", str(source), "-o", objects[-1]], check=True)
        subprocess.run(["ar", "crs", str(cls.archive), *objects], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def gate(self, lines, *options):
        allow = self.work / "allow.txt"
        allow.write_text("".join(lines))
        done = subprocess.run([sys.executable, str(GATE), *options, "--allow", str(allow), str(self.archive)],
                              capture_output=True, text=True)
        return done.returncode, done.stderr, allow.read_text()

    def test_every_planted_source_is_listed_here(self):
        self.assertEqual({path.stem for path in (HERE / "object").glob("*.c")}, set(PLANTED) | {"clean"})

    def test_each_planted_violation_is_named_with_its_member(self):
        code, said, _ = self.gate([])
        self.assertEqual(code, 1)
        for member, symbols in PLANTED.items():
            for symbol in symbols:
                self.assertIn(f"planted.a({member}.o): {symbol} ", said)
        self.assertNotIn("clean.o", said)

    def test_the_exact_allowlist_passes(self):
        self.assertEqual(self.gate(EXACT)[:2], (0, ""))

    def test_each_line_taken_away_fails_alone(self):
        for line in EXACT:
            code, said, _ = self.gate([other for other in EXACT if other != line])
            self.assertEqual((code, said.count("\n")), (1, 1), line)

    def test_one_reference_more_than_allowed_fails(self):
        lines = [line.replace("cudaMalloc 2", "cudaMalloc 1") for line in EXACT]
        code, said, after = self.gate(lines)
        self.assertEqual(code, 1)
        self.assertIn("2 references match cudaMalloc, line 1 allows 1", said)
        self.assertEqual(self.gate(lines, "--update")[2], "".join(lines), "an update raises nothing")
        self.assertEqual(after, "".join(lines))

    def test_fewer_references_than_allowed_asks_for_a_refresh_and_update_lowers(self):
        lines = [line.replace("cudaMalloc 2", "cudaMalloc 5") for line in EXACT] + ["planted.a clean.o malloc 3\n"]
        code, said, _ = self.gate(lines)
        self.assertEqual((code, said.count("--update")), (1, 2))
        code, _, after = self.gate(lines, "--update")
        self.assertEqual((code, after), (0, "".join(EXACT)))

    def test_an_update_adds_no_line(self):
        code, _, after = self.gate(EXACT[1:], "--update")
        self.assertEqual((code, after), (1, "".join(EXACT[1:])))

    def test_a_pattern_covers_what_it_matches_and_its_count_is_the_sum(self):
        kept = [line for line in EXACT if " killer.o " not in line]
        self.assertEqual(self.gate(kept + ["planted.a killer.o * 3\n"])[0], 0)
        self.assertEqual(self.gate(kept + ["planted.a killer.o * 2\n"])[0], 1)

    def test_without_counts_only_a_missing_line_fails(self):
        lines = [line.replace("cudaMalloc 2", "cudaMalloc 1").replace("dlsym 1", "dlsym 9") for line in EXACT]
        self.assertEqual(self.gate(lines, "--no-counts")[:2], (0, ""))
        code, said, _ = self.gate(lines[1:], "--no-counts")
        self.assertEqual((code, said.count("\n")), (1, 1))
        self.assertIn("planted.a(call.o): cudaMalloc (driver) is not on the allowlist", said)

    def test_two_members_of_one_name_are_both_read_and_can_not_be_allowed(self):
        twin = self.work / "twin"
        twin.mkdir()
        subprocess.run(["cp", str(self.work / "call.o"), str(twin / "clean.o")], check=True)
        archive = self.work / "twins.a"
        subprocess.run(["ar", "qcs", str(archive), str(self.work / "clean.o"), str(twin / "clean.o")], check=True)
        command = [sys.executable, str(GATE), "--allow", str(self.work / "allow.txt"), str(archive)]
        (self.work / "allow.txt").write_text("")
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("twins.a(clean.o): cudaMalloc (driver) is not on the allowlist, seen 2 times", done.stderr)
        (self.work / "allow.txt").write_text("twins.a clean.o cudaMalloc 2\n")
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("several of that name", done.stderr)

    def test_a_line_that_does_not_parse_is_refused(self):
        code, said, _ = self.gate(["planted.a call.o cudaMalloc\n"])
        self.assertEqual(code, 1)
        self.assertIn("allow.txt:1: expected", said)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        COMPILER = sys.argv.pop(1)
    unittest.main()
