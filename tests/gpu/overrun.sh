#!/usr/bin/env bash
# The planted overruns under compute-sanitizer: each must be reported with the size of the take that was overrun, and the clean run
# must bring no report and no leak.
#   overrun.sh PROGRAM [COMPUTE_SANITIZER]      leaves with 77 where there is no tool or no device
set -uo pipefail

program="$1"
tool="${2:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}"
if [ ! -x "$tool" ]; then
    echo "overrun: skipped: no compute-sanitizer"
    exit 77
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$program" clean > "$work/plain" 2>&1
code=$?
if [ "$code" -ne 0 ]; then
    cat "$work/plain"
    exit "$code"
fi

failed=0
row() {
    printf '%-10s %-8s %s\n' "$1" "$2" "$3"
    [ "$2" = ok ] || failed=1
}

echo "== overruns under compute-sanitizer"
"$tool" --tool memcheck --leak-check full "$program" clean > "$work/clean" 2>&1
if grep -q 'ERROR SUMMARY: 0 errors' "$work/clean" && grep -q 'LEAK SUMMARY: 0 bytes' "$work/clean"; then
    row clean ok "0 errors, 0 bytes leaked"
else
    row clean FAILED "$(grep -E 'SUMMARY|=========' "$work/clean" | head -4 | tr '\n' ';')"
fi
for plant in arena scratch block; do
    "$tool" --tool memcheck "$program" "$plant" > "$work/$plant" 2>&1
    bytes="$(sed -n 's/^expect \([0-9]*\)$/\1/p' "$work/$plant")"
    if grep -Eq "out of bounds" "$work/$plant" && grep -Eq "size (of )?$bytes( bytes)?\b|of size $bytes" "$work/$plant"; then
        row "$plant" ok "$(grep -E "size (of )?$bytes|of size $bytes" "$work/$plant" | head -1 | sed 's/^=* *//')"
    else
        row "$plant" FAILED "$(grep -E 'SUMMARY|bounds|nearest' "$work/$plant" | head -3 | tr '\n' ';')"
    fi
done
exit "$failed"
