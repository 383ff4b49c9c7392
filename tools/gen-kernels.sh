#!/usr/bin/env bash
# Compiles the kernels to PTX text and writes them into C files, which are part of the source tree: building the library and its
# tests needs no CUDA compiler. Needs nvcc and ptxas; run it after a change of a kernel.
set -euo pipefail
cd "$(dirname "$0")/.."

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# generate FROM.cu TO DECLARATION INCLUDE
generate() {
    local name
    name="$(basename "$1" .cu)"
    nvcc -ptx -arch=compute_75 -O3 -o "$work/$name.ptx" "$1"
    # The text uses nothing that is newer than this version of the language, so older drivers take it too.
    sed -i -e '/^\/\//d' -e '/^[[:space:]]*$/d' -e 's/^\.version .*/.version 6.4/' "$work/$name.ptx"
    for architecture in sm_75 sm_80 sm_90; do
        ptxas -arch=$architecture -o "$work/$architecture.cubin" "$work/$name.ptx"
    done
    python3 - "$work/$name.ptx" "$1" "$3" "$4" > "$2" <<'PYTHON'
import sys

text, source, declaration, include = sys.argv[1:]
print(f"/* PTX text of {source}. Written by tools/gen-kernels.sh. */")
print(include + ("\n" if include else ""))
print("/* clang-format off */")
print(declaration + " =")
lines = open(text, encoding="ascii").read().splitlines()
for i, line in enumerate(lines):
    escaped = line.strip().replace("\t", " ").replace("\\", "\\\\").replace('"', '\\"')
    print(f'    "{escaped}\\n"' + (";" if i == len(lines) - 1 else ""))
print("/* clang-format on */")
PYTHON
    echo "gen-kernels: $2, $(wc -l < "$2") lines"
}

generate src/cuda/kernels/blocks.cu src/cuda/kernels.c "const char impmem__kernels[]" '#include "cuda/internal.h"'
generate tests/gpu/kernels.cu tests/gpu/kernels_ptx.h "static const char test_kernels[]" ""
