#!/usr/bin/env bash
# The first C example of README.md compiles against the built archive, as a reader would do it, and runs.
#   readme_example.sh [BUILD_DIR] [C_COMPILER]
set -euo pipefail
cd "$(dirname "$0")/../.."

build="${1:-build/default}"
cc="${2:-cc}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

awk '/^```c$/ && !seen { inside = 1; seen = 1; next } /^```/ { inside = 0 } inside' README.md > "$work/main.c"
if ! grep -q 'main *(' "$work/main.c"; then
    echo "readme: the first C example of README.md is missing or has no main" >&2
    exit 1
fi
"$cc" -std=c11 -Wall -Wextra -Werror -Iinclude "$work/main.c" -L"$build/lib" -limpmem -lpthread -o "$work/main"
"$work/main"
echo "readme: the example compiles and runs"
