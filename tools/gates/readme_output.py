#!/usr/bin/env python3
"""Every console block of README.md shows what the command prints today.

usage: readme_output.py [IMPMEM] [--fix]      IMPMEM defaults to build/default/bin/impmem
"""
import difflib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```console\n\$ impmem (?P<arguments>[^\n]*)\n(?P<output>.*?)\n```", re.S)


def main():
    fix = "--fix" in sys.argv
    names = [a for a in sys.argv[1:] if a != "--fix"]
    command = str((ROOT / (names[0] if names else "build/default/bin/impmem")).resolve())
    page = ROOT / "README.md"
    text = page.read_text()
    stale = []

    def renew(block):
        arguments = block["arguments"].split()
        output = subprocess.run([command] + arguments, cwd=ROOT, capture_output=True, text=True, check=False)
        found = (output.stdout or output.stderr).rstrip("\n")
        if found != block["output"]:
            stale.append((block["arguments"], block["output"], found))
        return f"```console\n$ impmem {block['arguments']}\n{found}\n```"

    renewed = BLOCK.sub(renew, text)
    blocks = len(BLOCK.findall(text))
    if blocks == 0:
        print("readme: no console block was found")
        return 1
    if fix:
        page.write_text(renewed)
        return 0
    for arguments, said, found in stale:
        print(f"README.md: impmem {arguments} prints something else today:")
        print("\n".join(difflib.unified_diff(said.split("\n"), found.split("\n"), "README.md", "today", lineterm="")))
    if not stale:
        print(f"readme: {blocks} console blocks are what the command prints")
    return 1 if stale else 0


sys.exit(main())
