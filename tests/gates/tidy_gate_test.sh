#!/usr/bin/env bash
# The include restriction must report a driver header in a file of src, at its file and line, and allow it in src/cuda.
#   tidy_gate_test.sh SOURCE_DIR
set -euo pipefail

source="$1"
if ! command -v clang-tidy >/dev/null; then
    echo "skipped: no clang-tidy"
    exit 77
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# The real configuration files in a tree of their own, so that their inheritance is what is tested.
mkdir -p "$work/src/core" "$work/src/cuda" "$work/stub/nvtx3"
cp "$source/.clang-tidy" "$work/"
cp "$source/src/.clang-tidy" "$work/src/"
cp "$source/src/cuda/.clang-tidy" "$work/src/cuda/"

headers=(cuda.h cuda_runtime.h cuda_runtime_api.h cublasLt.h cublas_v2.h driver_types.h vector_types.h nvToolsExt.h
    nvtx3/nvToolsExtMem.h nvml.h)
{
    echo '#include <stddef.h>'
    for header in "${headers[@]}"; do
        echo "#include <$header>"
    done
    echo 'size_t planted(void);'
} > "$work/planted.c"
for header in "${headers[@]}"; do
    echo 'struct planted_driver_type;' > "$work/stub/$header"
done
cp "$work/planted.c" "$work/src/core/planted.c"
cp "$work/planted.c" "$work/src/cuda/planted.c"

tidy() { clang-tidy --quiet "$1" -- -std=c11 -isystem "$work/stub" 2>/dev/null; }

if said="$(tidy "$work/src/core/planted.c")"; then
    echo "a driver header in src/core was let through" >&2
    exit 1
fi
line=1
for header in "${headers[@]}"; do
    line=$((line + 1))
    if ! grep -q "src/core/planted.c:$line:.*$header.*portability-restrict-system-includes" <<< "$said"; then
        echo "$header at line $line of src/core was not reported; clang-tidy said:" >&2
        echo "$said" >&2
        exit 1
    fi
done
if grep -q "stddef.h" <<< "$said"; then
    echo "stddef.h was refused" >&2
    exit 1
fi
if ! said="$(tidy "$work/src/cuda/planted.c")"; then
    echo "a driver header in src/cuda was refused:" >&2
    echo "$said" >&2
    exit 1
fi
