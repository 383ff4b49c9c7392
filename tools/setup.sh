#!/usr/bin/env bash
# Install the Debian packages that are missing. With nothing missing it does nothing and needs neither root nor a network.
#
#   tools/setup.sh          what building and testing need
#   tools/setup.sh --ci     and what the gates of .ci/run need
set -euo pipefail

usage() { echo "usage: tools/setup.sh [--ci]" >&2; exit 2; }

ci=0
for argument in "$@"; do
    case "$argument" in
        --ci) ci=1 ;;
        *) usage ;;
    esac
done

# package | why
packages='build-essential|C and C++ compilers, make, the C library headers
cmake|configures the build (3.25 or later)
ninja-build|runs the build
pkg-config|finds jansson and cmocka, and is how a consumer finds libimpmem
libjansson-dev|reads JSON model descriptions (libimpmem_model only)
libxxhash-dev|XXH3, inlined from its header
libcmocka-dev|runs the unit and property tests
python3|runs the gates that read object files and sources'
if [ "$ci" = 1 ]; then
    packages="$packages
clang|second compiler: warnings, diagnostics of the compile-fail tests, fuzzing
libclang-rt-dev|the run-time libraries of clang's sanitizers and fuzzer
clang-tidy|static checks
clang-format|the format gate"
fi

missing=()
while IFS='|' read -r package why; do
    if ! dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$'; then
        echo "setup: $package is missing: $why"
        missing+=("$package")
    fi
done <<< "$packages"

if [ "${#missing[@]}" -eq 0 ]; then
    exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "setup: not root and no sudo; install these yourself: ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq </dev/null
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null
