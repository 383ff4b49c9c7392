#!/usr/bin/env bash
# clang-tidy over the library and the command; each folder's .clang-tidy says what it may include.
#   tidy.sh [BUILD_DIR] [FILE...]      BUILD_DIR holds compile_commands.json; build/clang-debug by default
set -euo pipefail
cd "$(dirname "$0")/../.."

build="${1:-build/clang-debug}"
shift || true
if [ ! -f "$build/compile_commands.json" ]; then
    echo "tidy: $build/compile_commands.json is missing: configure it first" >&2
    exit 1
fi
# A misspelt check would be ignored in silence, and its lane would be green for nothing.
known="$(clang-tidy --list-checks --checks='*' 2>/dev/null)"
while read -r check; do
    if ! grep -q "^    $check" <<< "$known"; then
        echo "tidy: .clang-tidy names $check, which this clang-tidy does not have" >&2
        exit 1
    fi
done < <(sed -n '/^Checks: >/,/^[A-Z]/p' .clang-tidy | sed -n 's/^  \([a-z][A-Za-z0-9.-]*\)[*,]*$/\1/p')

if [ "$#" -gt 0 ]; then
    files=("$@")
else
    mapfile -t files < <(python3 -c '
import json, os, sys
root = os.getcwd() + os.sep
names = {os.path.relpath(entry["file"]) for entry in json.load(open(sys.argv[1])) if entry["file"].startswith(root)}
print("\n".join(sorted(name for name in names if name.startswith(("src/", "tools/impmem/")))))' "$build/compile_commands.json")
fi
if [ "${#files[@]}" -eq 0 ] || [ -z "${files[0]}" ]; then
    echo "tidy: no sources in $build/compile_commands.json: nothing was checked" >&2
    exit 1
fi
# clang-tidy counts the warnings that it suppressed in system headers on standard error; only findings are wanted here.
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" sh -c '
    said="$(clang-tidy --quiet -p "$0" "$1" 2>&1)" && exit 0
    printf "%s\n" "$said" | grep -v "warnings generated\|warnings treated as errors" >&2
    exit 1' "$build"
echo "tidy: ${#files[@]} files"
