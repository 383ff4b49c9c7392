#!/usr/bin/env bash
# Set up, build the default preset and run its tests. Arguments go to ctest: tools/test.sh -L unit, tools/test.sh -R kv
set -euo pipefail
cd "$(dirname "$0")/.."

jobs="$(nproc)"
tools/setup.sh
cmake --preset default
cmake --build --preset default -j "$jobs"
ctest --preset default -j "$jobs" "$@"
