#!/usr/bin/env python3
"""Refuses stable spans and block references that were not minted by their allocator.

The compiler keeps the kinds of span apart, but C lets anybody write a brace literal of the right type. This lint closes the
gap over the whole tree: outside the allocators nobody may
  - write a compound literal or a non-zero initialiser of a stable span type or of a block reference,
  - assign to, step or take the address of a private member (data_, bytes_, region_, generation_, span_, slot_, pool_).
Device spans are free to build. An all-zero initialiser ({0}, {}) is fine: it names nothing and fails every check.

Usage: span_literals.py [PATH...]      files or folders; default: the project's own folders
       span_literals.py --self-test    every marked line of tests/lint/*.c must be reported, and no other
Prints FILE:LINE: what. Exit 0: clean; 1: findings; 2: bad usage.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["include", "src", "tests", "tools", "examples"]
SUFFIXES = {".c", ".h", ".cc", ".cpp", ".cu", ".cuh", ".hpp"}
# The allocators mint; their own tests forge on purpose; the planted cases are for the self-test.
EXEMPT = ["src/alloc/", "include/impmem/span.h", "tests/unit/alloc/", "tests/compile_fail/", "tests/lint/"]
# One function of one header takes a reference apart: the move.
EXEMPT_FUNCTION = {"include/impmem/block_pool.h": "impmem_block_ref_move"}
# A folder whose own handles have members of the same name.
OWN_MEMBERS = {
    place: {"slot_", "generation_"}
    for place in ("src/kv/", "include/impmem/kv.h", "tests/unit/kv/", "tests/property/test_kv")
}

TYPE = re.compile(r"impmem_(?!_)(?!device_span$)\w+_span$|impmem_block_ref$")
MEMBERS = {"data_", "bytes_", "region_", "generation_", "span_", "slot_", "pool_"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"}

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)
      | (?P<sign><<=|>>=|->|\+\+|--|[-+*/%&|^=!<>]=|<<|>>|&&|\|\||::|.)""",
    re.X | re.S,
)


def tokens_of(text):
    """(token, line) pairs without comments; a string is one token; a line splice is a space."""
    text = re.sub(r"\\(\r?\n)", r" \1", text)
    out, at, line = [], 0, 1
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:  # an unfinished comment or string: one character at a time
            at += 1
            continue
        if match.lastgroup == "text":
            out.append(('""', line))
        elif match.lastgroup != "skip":
            out.append((match.group(), line))
        line += match.group().count("\n")
        at = match.end()
    return out


def aliases_of(tokens):
    """Names that a typedef or a #define of this file gives to a protected type."""
    found = set()
    for i in range(len(tokens) - 3):
        a, b, c, d = (tokens[i + k][0] for k in range(4))
        if a == "typedef" and TYPE.match(b) and d == ";":
            found.add(c)
        if a == "#" and b == "define" and TYPE.match(d) and tokens[i + 2][1] == tokens[i + 3][1]:
            found.add(c)
    return found


def zero_braces(tokens, at):
    """Whether the brace at `at` opens an initialiser of zeroes only."""
    depth = 0
    for token, _ in tokens[at:]:
        depth += {"{": 1, "}": -1}.get(token, 0)
        if depth == 0:
            return True
        if token not in {"{", "}", ",", "0", "0u", "NULL"}:
            return False
    return False


def function_lines(tokens, name):
    """Lines of the body of the function `name`."""
    for i, (token, line) in enumerate(tokens):
        if token != name:
            continue
        depth = 0
        for token2, line2 in tokens[i:]:
            depth += {"{": 1, "}": -1}.get(token2, 0)
            if token2 == ";" and depth == 0:
                break
            if token2 == "}" and depth == 0:
                return range(line, line2 + 1)
    return range(0)


def findings(tokens, aliases=frozenset(), members=frozenset(MEMBERS)):
    """(line, what) of every violation in a file."""

    def text(i):
        return tokens[i][0] if 0 <= i < len(tokens) else ""

    def operand_start(i):
        """First token of the postfix expression whose member access is at i (the '.' or '->')."""
        i -= 1
        while i >= 0:
            if text(i) in {")", "]"}:
                depth = 0
                while i >= 0:
                    depth += {")": 1, "]": 1, "(": -1, "[": -1}.get(text(i), 0)
                    if depth == 0:
                        break
                    i -= 1
                if re.match(r"\w+$", text(i - 1)) or text(i - 1) in {")", "]"}:
                    i -= 1
                    continue
            if text(i - 1) in {".", "->"}:
                i -= 2
                continue
            return i
        return 0

    for i, (token, line) in enumerate(tokens):
        if TYPE.match(token) or token in aliases:
            if text(i - 1) == "(" and text(i + 1) == ")" and text(i + 2) == "{" and not zero_braces(tokens, i + 2):
                yield line, f"compound literal of {token}"
            if text(i + 1) == "{" and text(i - 1) != "struct" and not zero_braces(tokens, i + 1):
                yield line, f"literal of {token}"
            j = i + 1
            while text(j) in {"const", "volatile"}:
                j += 1
            while re.match(r"[A-Za-z_]\w*$", text(j)):
                j += 1
                while text(j) == "[":
                    while text(j) not in {"]", ""}:
                        j += 1
                    j += 1
                brace = j + 1 if text(j) == "=" else j
                if text(brace) == "{" and not zero_braces(tokens, brace) and (text(j) == "=" or j == i + 2):
                    yield line, f"initialiser of {token}"
                if text(j) == "=":
                    depth = 0
                    while text(j) and not (depth == 0 and text(j) in {",", ";"}):
                        depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(text(j), 0)
                        if depth < 0:
                            break
                        j += 1
                if text(j) != ",":
                    break
                j += 1
                while text(j) == "*":
                    j += 1
        if token in members and text(i - 1) in {".", "->"}:
            start = operand_start(i - 1)
            if text(i + 1) in ASSIGNMENTS:
                yield line, f"assignment to the private member {token}"
            elif text(start - 1) in {"++", "--"}:
                yield line, f"step of the private member {token}"
            elif text(start - 1) == "&" and not re.match(r"[\w\])]", text(start - 2)[-1:]):
                yield line, f"address of the private member {token}"


def files_under(paths):
    for path in paths:
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                if file.suffix in SUFFIXES and file.is_file():
                    yield file
        else:
            yield path


def lint(paths):
    parsed = []
    aliases = set()
    for file in files_under(paths):
        try:
            name = file.resolve().relative_to(ROOT).as_posix()
        except ValueError:
            name = str(file)
        if any(name == e or (e.endswith("/") and name.startswith(e)) for e in EXEMPT):
            continue
        tokens = tokens_of(file.read_text(encoding="utf-8", errors="replace"))
        aliases |= aliases_of(tokens)
        parsed.append((name, tokens))
    count = 0
    for name, tokens in parsed:
        skip = function_lines(tokens, EXEMPT_FUNCTION[name]) if name in EXEMPT_FUNCTION else range(0)
        own = set().union(*(m for place, m in OWN_MEMBERS.items() if name.startswith(place)))
        for line, what in findings(tokens, aliases, MEMBERS - own):
            if line not in skip:
                print(f"{name}:{line}: {what}; only the allocator that owns the memory mints spans and references")
                count += 1
    print(f"span lint: {len(parsed)} files, {count} findings", file=sys.stderr)
    return 1 if count or not parsed else 0


def self_test():
    """Lines of tests/lint with a /* caught */ comment must be found, all others must not."""
    bad = marked = 0
    for file in sorted((ROOT / "tests/lint").glob("*.c")):
        text = file.read_text(encoding="utf-8")
        wanted = {n for n, line in enumerate(text.splitlines(), 1) if "/* caught */" in line}
        tokens = tokens_of(text)
        found = {line for line, _ in findings(tokens, aliases_of(tokens))}
        marked += len(wanted)
        for line in sorted(wanted - found):
            print(f"{file.name}:{line}: planted violation not caught")
        for line in sorted(found - wanted):
            print(f"{file.name}:{line}: caught, but nothing is wrong with it")
        bad += len(wanted ^ found)
    print(f"span lint self-test: {marked} planted violations, {bad} wrong", file=sys.stderr)
    return 1 if bad or not marked else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if any(a.startswith("-") for a in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    paths = [pathlib.Path(a) for a in arguments] or [ROOT / f for f in FOLDERS if (ROOT / f).is_dir()]
    missing = [p for p in paths if not p.exists()]
    if missing:
        print(f"span_literals.py: no such path: {missing[0]}", file=sys.stderr)
        return 2
    return lint(paths)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
