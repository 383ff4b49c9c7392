#!/usr/bin/env python3
"""The layer gate must name the file and line of each include that runs up or sideways, and let every downward one through."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

GATE = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "gates" / "layers.py"

HEADERS = {
    "status.h": "/* Floor 0, implemented by src/core/status.c. */\n",
    "backend.h": "/* Floor 1, implemented by src/backend/backend.c. */\n#include \"impmem/status.h\"\n",
    "plan.h": "/* Floor 1, src/plan/plan.c. */\n#include \"impmem/status.h\"\n",
    "arena.h": "/* Floor 2, implemented by src/alloc/arena.c. */\n#include \"impmem/backend.h\"\n",
    "impmem.h": "/* everything */\n#include \"impmem/arena.h\"\n",
    "version.h": "/* version */\n",
}


class Layers(unittest.TestCase):
    def gate(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**{f"include/impmem/{n}": t for n, t in HEADERS.items()}, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            done = subprocess.run([sys.executable, str(GATE), folder], capture_output=True, text=True)
            return done.returncode, done.stderr

    def refused(self, name, text, line):
        code, said = self.gate({name: text})
        self.assertEqual(code, 1, said)
        self.assertIn(f"layers: {name}:{line}: ", said)
        self.assertEqual(said.count("\n"), 1, said)

    def test_downward_and_own_includes_pass(self):
        self.assertEqual(self.gate({"src/alloc/arena.c": '#include "alloc/internal.h"\n#include "core/internal.h"\n'
                                    '#include "impmem/arena.h"\n#include "plan/size.h"\n#include <stdio.h>\n'}), (0, ""))

    def test_an_upward_include_is_refused(self):
        self.refused("src/core/status.c", '\n#include "backend/internal.h"\n', 2)

    def test_an_include_within_one_floor_is_refused(self):
        self.refused("src/plan/plan.c", '#include "backend/internal.h"\n', 1)

    def test_a_public_header_counts_as_the_folder_that_implements_it(self):
        self.refused("src/plan/plan.c", '#include <impmem/backend.h>\n', 1)
        self.refused("include/impmem/plan.h", '/* src/plan/plan.c */\n#include "impmem/backend.h"\n', 2)

    def test_a_public_header_that_includes_an_internal_one_is_refused(self):
        self.refused("include/impmem/arena.h", '/* src/alloc/arena.c */\n#include "core/internal.h"\n', 2)

    def test_a_relative_path_is_refused(self):
        self.refused("src/plan/plan.c", '#include "../backend/internal.h"\n', 1)

    def test_the_header_of_headers_is_refused_inside_the_library(self):
        self.refused("src/report/report.c", '#include "impmem/impmem.h"\n', 1)

    def test_a_folder_and_a_header_without_a_floor_are_refused(self):
        self.refused("src/extra/extra.c", "\n", 1)
        self.refused("include/impmem/extra.h", "/* no folder */\n", 1)


if __name__ == "__main__":
    unittest.main()
