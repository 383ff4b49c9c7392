#!/usr/bin/env python3
"""Includes run downward: a file of src/X includes its own folder and lower floors, never a folder of its own floor.

    layers.py [SOURCE_DIR]

A public header stands on the floor of the folder that implements it, which its first comment names ("src/alloc/arena.c"). The
header of headers, impmem.h, is for users and is included by nothing under src; version.h belongs to the core.
"""

import pathlib
import re
import sys

FLOORS = {
    "core": 0,
    "backend": 1, "plan": 1,
    "alloc": 2, "cuda": 2, "model": 2,
    "kv": 3, "state": 3,
    "engine": 4,
    "report": 5,
}
UNPLACED = {"impmem.h": None, "version.h": "core"}
INCLUDE = re.compile(r'\s*#\s*include\s+["<]([^">]+)[">]')


def folder_of_header(path):
    """The folder of src that implements a public header."""
    if path.name in UNPLACED:
        return UNPLACED[path.name]
    first_comment = path.read_text(encoding="utf-8").split("*/", 1)[0]
    match = re.search(r"\bsrc/(\w+)", first_comment)
    return match[1] if match and match[1] in FLOORS else None


def check(root):
    problems, checked = [], 0
    headers = {path.name: folder_of_header(path) for path in (root / "include" / "impmem").glob("*.h")}
    for name, folder in sorted(headers.items()):
        if folder is None and name not in UNPLACED:
            problems.append(f"include/impmem/{name}:1: its first comment names no folder of src that implements it")

    files = [(path, headers[path.name]) for path in (root / "include" / "impmem").glob("*.h") if headers[path.name]]
    for path in (root / "src").rglob("*.[ch]"):
        folder = path.relative_to(root / "src").parts[0]
        if folder not in FLOORS:
            problems.append(f"{path.relative_to(root)}:1: src/{folder} has no floor")
        else:
            files.append((path, folder))
    for path, folder in sorted(files):
        checked += 1
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            parts = match[1].split("/")
            if "." in parts or ".." in parts:
                problems.append(f"{path.relative_to(root)}:{number}: {match[1]}: includes are named from the root, not relatively")
                continue
            if parts[0] == "impmem":
                if parts[-1] == "impmem.h":
                    problems.append(f"{path.relative_to(root)}:{number}: impmem/impmem.h is for users of the library")
                    continue
                target = headers.get(parts[-1])
            elif parts[0] in FLOORS and len(parts) > 1:
                target = parts[0]
                if path.parent.name == "impmem" and path.parent.parent.name == "include":
                    problems.append(f"{path.relative_to(root)}:{number}: {match[1]}: a public header can't include an internal one")
                    continue
            elif parts[0] in ("tools", "tests"):
                problems.append(f"{path.relative_to(root)}:{number}: {match[1]}: the library includes neither tools nor tests")
                continue
            else:
                continue
            if target and target != folder and FLOORS[target] >= FLOORS[folder]:
                problems.append(f"{path.relative_to(root)}:{number}: {match[1]} is src/{target}, floor {FLOORS[target]}; "
                                f"src/{folder} is floor {FLOORS[folder]}")
    return problems, checked


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent.parent)
    problems, checked = check(root)
    for problem in problems:
        print(f"layers: {problem}", file=sys.stderr)
    if checked == 0:
        print(f"layers: no sources under {root}: nothing was checked", file=sys.stderr)
    if problems or checked == 0:
        return 1
    print(f"layers: {checked} files include downward only")
    return 0


if __name__ == "__main__":
    sys.exit(main())
