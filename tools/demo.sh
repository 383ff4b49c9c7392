#!/usr/bin/env bash
# From a fresh machine to the main job: set up, build, plan a model into a budget that holds it and into one that does not, open
# the plan on a device that hands out addresses only and see that every byte went where its line said, then serve an hour of
# requests with it and see every byte and block come back.
set -euo pipefail
cd "$(dirname "$0")/.."

model=tools/demo/demo-8b
load=(--max-batch 4 --max-seq-len 8192)
fits=24GiB
too_small=20GiB

tools/setup.sh
if ! log="$(cmake --preset default 2>&1 && cmake --build --preset default -j "$(nproc)" --target impmem_command 2>&1)"; then
    echo "$log" >&2
    exit 1
fi
impmem=build/default/bin/impmem

# demo EXPECTED_EXIT_CODE TITLE ARGUMENT...
demo() {
    local expected="$1" title="$2" code=0
    shift 2
    printf '\n=== %s\n$ impmem %s\n' "$title" "$*"
    "$impmem" "$@" || code=$?
    if [ "$code" -ne "$expected" ]; then
        echo "demo: exit code $code, expected $expected" >&2
        exit 1
    fi
}

demo 0 "A plan that fits" plan "$model" "${load[@]}" --budget "$fits"
demo 1 "A plan that does not, and what would make it" plan "$model" "${load[@]}" --budget "$too_small"
demo 0 "The plan opened: what the journal booked against what the lines said" plan "$model" "${load[@]}" --budget "$fits" --open
demo 0 "The plan serves an hour of requests on a virtual clock" simulate "$model" "${load[@]}" --budget "$fits" \
    --trace tools/demo/demo-trace.jsonl --report
printf '\ndemo: all four ended as they should\n'
