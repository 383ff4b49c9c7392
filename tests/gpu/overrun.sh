#!/usr/bin/env bash
# The planted overruns under compute-sanitizer: each must be reported with the size of the take that was overrun, and the clean run
# must bring no report and no leak.
#   overrun.sh OVERRUN_PROGRAM [SERVING_PROGRAM]      leaves with 77 where there is no tool or no device
set -uo pipefail

program="$1"
serving="${2:-}"
tool="$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)"
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
# clean NAME: no error, and no leak that the tool knows of.
clean() {
    if grep -q 'ERROR SUMMARY: 0 errors' "$work/$1" && ! grep -q 'LEAK SUMMARY: [1-9]' "$work/$1"; then
        row "$1" ok "0 errors, $(grep -o 'LEAK SUMMARY: .*' "$work/$1" || echo 'no leak')"
    else
        row "$1" FAILED "$(grep -E 'SUMMARY|=========' "$work/$1" | head -6 | tr '\n' ';')"
    fi
}
clean clean
if [ -n "$serving" ]; then
    # Calls that are refused on purpose are no finding; memory that is touched wrongly or left is.
    "$tool" --tool memcheck --leak-check full --report-api-errors no "$serving" 500 > "$work/serving" 2>&1
    clean serving
fi
for plant in arena scratch block; do
    "$tool" --tool memcheck "$program" "$plant" > "$work/$plant" 2>&1
    # The tool writes thousands with a comma.
    bytes="$(sed -n 's/^expect \([0-9]*\)$/\1/p' "$work/$plant" | sed -E 's/([0-9])([0-9]{3})$/\1,?\2/')"
    size="of size ${bytes%???},?${bytes: -3}( |$)" # the tool writes 1,000
    if grep -Eq "out of bounds" "$work/$plant" && grep -Eq "$size" "$work/$plant"; then
        row "$plant" ok "$(grep -E "$size" "$work/$plant" | head -1 | sed 's/^=* *//')"
    else
        row "$plant" FAILED "$(grep -E 'SUMMARY|bounds|nearest' "$work/$plant" | head -3 | tr '\n' ';')"
    fi
done
exit "$failed"
