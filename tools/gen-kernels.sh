#!/usr/bin/env bash
# Compiles src/cuda/kernels/*.cu to PTX text and writes src/cuda/kernels.c, which is part of the source tree: building the library
# needs no CUDA compiler. Needs nvcc and ptxas; run it after a change of the kernels.
set -euo pipefail
cd "$(dirname "$0")/.."

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
nvcc -ptx -arch=compute_75 -O3 -o "$work/blocks.ptx" src/cuda/kernels/blocks.cu
# The text uses nothing that is newer than this version of the language, so older drivers take it too.
sed -i -e '/^\/\//d' -e '/^[[:space:]]*$/d' -e 's/^\.version .*/.version 6.4/' "$work/blocks.ptx"
for architecture in sm_75 sm_80 sm_90; do
    ptxas -arch=$architecture -o "$work/$architecture.cubin" "$work/blocks.ptx"
done
python3 - "$work/blocks.ptx" > src/cuda/kernels.c <<'PYTHON'
import sys

print("/* The room's kernels as PTX text. Written by tools/gen-kernels.sh from src/cuda/kernels/blocks.cu. */")
print('#include "cuda/internal.h"\n')
print("/* clang-format off */")
print("const char impmem__kernels[] =")
lines = open(sys.argv[1], encoding="ascii").read().splitlines()
for i, line in enumerate(lines):
    text = line.strip().replace("\t", " ").replace("\\", "\\\\").replace('"', '\\"')
    print(f'    "{text}\\n"' + (";" if i == len(lines) - 1 else ""))
print("/* clang-format on */")
PYTHON
echo "gen-kernels: $(wc -l < src/cuda/kernels.c) lines"
