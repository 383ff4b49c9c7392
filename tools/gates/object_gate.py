#!/usr/bin/env python3
"""Which symbols may each member of an archive reach for?

Object code can't hide what it calls: a macro that renames a driver call, a call through its address and a versioned name
all leave the same undefined symbol. This gate reads the members of static archives and compares what they reference, of
the kinds below, with an allowlist of counts that may only shrink.

    object_gate.py [--update | --no-counts] --allow FILE ARCHIVE...

A line of the allowlist is: archive member symbol-pattern count. The pattern is a shell glob. The count is the number of
references (relocations) to matching symbols. Count in a build by clang without optimisation: there it is the number of places
in the source, while gcc also writes out functions of headers that nobody calls. Other builds are read with --no-counts.
A reference without a line, a count above its line, and a count below it are all failures; --update lowers counts and drops
lines that nothing needs any more, and refuses to raise or to add: a new permission is written by hand, and reviewed.
"""

import argparse
import collections
import fnmatch
import os
import re
import subprocess
import sys

# Kind -> what a reference of that kind would mean.
KINDS = [
    ("driver", r"_*(cuda|cublas|cublasLt|nvtx|nvml|nccl)[A-Z]\w*|cu[A-Z]\w*|__cuda\w+"),
    ("bypass", r"dlopen|dlmopen|dlsym|dlvsym|syscall"),
    ("killer", r"abort|exit|_exit|_Exit|quick_exit|raise|kill|__assert(_fail|_perror_fail)?|__fortify_fail|err|errx|error"),
    ("printer", r"(__)?v?printf(_chk)?|puts|putchar|putc|perror|stdout|stderr|_IO_putc"),
    ("heap", r"malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|memalign|valloc|pvalloc|"
             r"mmap|mmap64|munmap|mremap|brk|sbrk|(__)?strn?dup|(__)?v?asprintf(_chk)?|getline|getdelim|__getdelim|"
             r"open_memstream|realpath"),
]
KIND_OF = [(kind, re.compile(f"(?:{pattern})\\Z")) for kind, pattern in KINDS]
# A variable that the process shares: two engines in one process must not meet in it.
GLOBAL = "global"
WRITABLE = re.compile(r"\.(data|bss|tdata|tbss|sdata|sbss)(\..*)?\Z")
READ_ONLY_AFTER_LOAD = re.compile(r"\.data\.rel\.ro(\..*)?\Z")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode != 0:
        sys.exit(f"object_gate: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def kind_of(symbol):
    for kind, pattern in KIND_OF:
        if pattern.match(symbol):
            return kind
    return None


def members_of(archive, listed):
    """Member names. Two members may share a name as long as no line of the allowlist speaks for it."""
    members = [name for name in run("ar", "t", archive).split("\n") if name]
    if not members:
        sys.exit(f"object_gate: {archive} has no members: nothing was checked")
    twice = [name for name, count in collections.Counter(members).items() if count > 1 and name in listed]
    if twice:
        sys.exit(f"object_gate: {archive}: the allowlist names {' '.join(twice)}, and there are several of that name")
    return members


def references(archive):
    """{(member, symbol): count} of gated undefined symbols, and {(member, variable): 1} of writable globals."""
    found = {}
    undefined = set()
    for line in run("nm", "-A", "-u", archive).splitlines():
        match = re.match(r".*?:(?P<member>[^:]+):\s+[Uwv]\s+(?P<symbol>\S+)\Z", line)
        if match:
            undefined.add((match["member"], match["symbol"].split("@")[0]))
    for key in undefined:
        if kind_of(key[1]):
            found[key] = 0

    member = None
    for line in run("readelf", "-W", "-r", archive).splitlines():
        match = re.match(r"File: .*\((?P<member>.+)\)\Z", line)
        if match:
            member = match["member"]
            continue
        match = re.match(r"[0-9a-f]+\s+[0-9a-f]+\s+R_\S+\s+[0-9a-f]+\s+(?P<symbol>[^\s@]+)", line)
        if match and (member, match["symbol"]) in found:
            found[(member, match["symbol"])] += 1
    found = {key: max(count, 1) for key, count in found.items()}

    member, sections = None, {}
    for line in run("readelf", "-W", "-S", "-s", archive).splitlines():
        match = re.match(r"File: .*\((?P<member>.+)\)\Z", line)
        if match:
            member, sections = match["member"], {}
            continue
        match = re.match(r"\s*\[\s*(?P<index>\d+)\]\s+(?P<name>\S+)", line)
        if match:
            sections[match["index"]] = match["name"]
            continue
        match = re.match(r"\s*\d+:\s+[0-9a-f]+\s+\S+\s+(?P<type>OBJECT|TLS)\s+\S+\s+\S+\s+(?P<index>\S+)\s+(?P<name>\S+)", line)
        if match and match["index"] != "UND":
            section = sections.get(match["index"], "." + match["index"])
            if match["index"] == "COM" or (WRITABLE.match(section) and not READ_ONLY_AFTER_LOAD.match(section)):
                # Compilers dress the name of a function's own static: gcc writes last.0, clang function.last.
                variable = re.sub(r"\.\d+\Z", "", match["name"]).rsplit(".", 1)[-1]
                found[(member, f"{GLOBAL}:{variable}")] = found.get((member, f"{GLOBAL}:{variable}"), 0) + 1
    return found


def read_allowlist(path):
    """[line number, archive, member, pattern, count] in file order."""
    entries = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            fields = line.split("#", 1)[0].split()
            if not fields:
                continue
            if len(fields) != 4 or not fields[3].isdigit() or int(fields[3]) == 0:
                sys.exit(f"{path}:{number}: expected: archive member symbol-pattern count")
            entries.append([number, fields[0], fields[1], fields[2], int(fields[3])])
    return entries


def compare(entries, seen):
    """seen: {(archive, member): {symbol: count}}. Returns (problems, {line number: new count, 0 = drop})."""
    problems, lower = [], {}
    used = collections.Counter()
    for (archive, member), symbols in sorted(seen.items()):
        for symbol, count in sorted(symbols.items()):
            for number, entry_archive, entry_member, pattern, _ in entries:
                if (entry_archive, entry_member) == (archive, member) and fnmatch.fnmatchcase(symbol, pattern):
                    used[number] += count
                    break
            else:
                kind = GLOBAL if symbol.startswith(GLOBAL + ":") else kind_of(symbol)
                problems.append(f"{archive}({member}): {symbol} ({kind}) is not on the allowlist{', seen ' + str(count) + ' times' if count else ''}")
    archives = {archive for archive, _ in seen}
    for number, archive, member, pattern, allowed in entries:
        if archive not in archives:
            continue
        if used[number] > allowed:
            problems.append(f"{archive}({member}): {used[number]} references match {pattern}, line {number} allows {allowed}")
        elif used[number] < allowed:
            lower[number] = used[number]
    return problems, lower


def main():
    parser = argparse.ArgumentParser(description="Compare what archive members reference with an allowlist.")
    parser.add_argument("--allow", required=True, metavar="FILE")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--update", action="store_true", help="lower the counts of the allowlist to what is there")
    how.add_argument("--no-counts", action="store_true", help="check only that each symbol has a line")
    parser.add_argument("archives", nargs="+", metavar="ARCHIVE")
    arguments = parser.parse_args()

    entries = read_allowlist(arguments.allow)
    seen, n_members = {}, 0
    for archive in arguments.archives:
        name = os.path.basename(archive)
        for member in members_of(archive, {entry[2] for entry in entries if entry[1] == name}):
            seen.setdefault((name, member), {})
            n_members += 1
        for (member, symbol), count in references(archive).items():
            seen[(name, member)][symbol] = count

    if arguments.no_counts:
        seen = {key: dict.fromkeys(symbols, 0) for key, symbols in seen.items()}
    problems, lower = compare(entries, seen)
    if arguments.no_counts:
        lower = {}
    if lower and arguments.update:
        with open(arguments.allow, encoding="utf-8") as file:
            lines = file.readlines()
        for number, count in lower.items():
            lines[number - 1] = re.sub(r"\d+(\s*(#.*)?\n?)\Z", lambda m: f"{count}{m[1]}", lines[number - 1]) if count else ""
        with open(arguments.allow, "w", encoding="utf-8") as file:
            file.writelines(lines)
        lower = {}
    for number, count in sorted(lower.items()):
        problems.append(f"{arguments.allow}:{number}: only {count} references are left; run with --update to lower the count")
    for problem in problems:
        print(f"object_gate: {problem}", file=sys.stderr)
    if problems:
        return 1
    print(f"object_gate: {n_members} members of {len(arguments.archives)} archives, nothing outside the allowlist")
    return 0


if __name__ == "__main__":
    sys.exit(main())
