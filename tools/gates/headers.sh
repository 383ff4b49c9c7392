#!/usr/bin/env bash
# Each public header compiles alone, twice included, as C11 and as C++17, without a warning.
#   headers.sh SOURCE_DIR COMPILER...      a compiler whose name ends in ++ is given C++
set -euo pipefail

source="$1"
shift
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

common=(-fsyntax-only -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wvla -Wcast-qual -Wundef -Wswitch-enum -Werror)
checked=0
for compiler in "$@"; do
    case "$compiler" in
        *++*) language=(-x c++ -std=c++17 -pedantic) ;;
        *) language=(-x c -std=c11 -pedantic -Wstrict-prototypes -Wmissing-prototypes) ;;
    esac
    for header in "$source"/include/impmem/*.h "$source"/include/*.h; do
        [ -f "$header" ] || continue
        name="${header#"$source"/include/}"
        printf '#include "%s"\n#include "%s"\nint impmem_header_check;\n' "$name" "$name" > "$work/check.c"
        if ! "$compiler" "${language[@]}" "${common[@]}" -I"$source/include" "$work/check.c"; then
            echo "headers: $name does not compile with $compiler ${language[*]}" >&2
            exit 1
        fi
        checked=$((checked + 1))
    done
done
if [ "$checked" -eq 0 ]; then
    echo "headers: nothing was checked" >&2
    exit 1
fi
echo "headers: $checked compilations"
