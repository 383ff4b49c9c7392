#!/usr/bin/env bash
# The whole GPU suite: builds it, runs it, prints one table a part. Leaves with 0 when every part passed.
#
#   tools/gpu-suite.sh                      builds build/gpu with the CUDA toolkit, then runs
#   tools/gpu-suite.sh --pack DIR           builds, and copies what a run needs into DIR (stripped), without running
#   tools/gpu-suite.sh --prebuilt DIR       runs what --pack put there: needs a driver, no compiler, no cmake
#   ... --device N                          which device; 0 without this flag
#   ... --output DIR                        also keeps each part's output, JSON included, in DIR
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

prebuilt="" pack="" device=0 output=""
while [ "$#" -gt 0 ]; do
    case "$1" in
        --prebuilt | --pack | --device | --output)
            if [ "$#" -lt 2 ]; then
                echo "gpu-suite: $1 needs a value" >&2
                exit 2
            fi
            case "$1" in
                --prebuilt) prebuilt="$2" ;;
                --pack) pack="$2" ;;
                --device) device="$2" ;;
                --output) output="$2" ;;
            esac
            shift 2
            ;;
        *)
            echo "gpu-suite: $1: expected --prebuilt DIR, --pack DIR, --device N or --output DIR" >&2
            exit 2
            ;;
    esac
done

programs=(gpu_promises gpu_serving gpu_overrun)
if [ -z "$prebuilt" ]; then
    build=build/gpu
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DIMPMEM_CUDA=ON > /dev/null || exit 1
    cmake --build "$build" --target impmem_command "${programs[@]}" > /dev/null || {
        echo "gpu-suite: the build failed; cmake --build $build tells why" >&2
        exit 1
    }
    place="$pack"
    if [ -z "$place" ]; then place="$build/suite"; fi
    mkdir -p "$place" || exit 1
    for name in "${programs[@]}"; do cp "$build/gpu/$name" "$place/"; done
    cp "$build/bin/impmem" "$place/"
    cp tests/gpu/overrun.sh "$place/"
    # What the command is linked to and a bare machine may lack; the driver's own libraries are that machine's.
    ldd "$place/impmem" | awk '/jansson/ {print $3}' | while read -r library; do cp "$library" "$place/"; done
    strip "$place"/gpu_* "$place/impmem"
    if [ -n "$pack" ]; then
        du -sh "$place"
        exit 0
    fi
    prebuilt="$place"
else
    echo "gpu-suite: running prebuilt programs from $prebuilt"
fi

here="$(cd "$prebuilt" && pwd)" || exit 2
export LD_LIBRARY_PATH="$here:/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if [ -z "$output" ]; then
    output="$(mktemp -d)"
    trap 'rm -rf "$output"' EXIT
fi
mkdir -p "$output" || exit 2

passed=() failed=() skipped=()
# part NAME SECONDS COMMAND...: runs, prints, remembers.
part() {
    local name="$1" seconds="$2" code=0 from
    shift 2
    from="$(date +%s)"
    printf '\n==== %s\n' "$name"
    timeout "$seconds" "$@" > "$output/$name.txt" 2>&1 || code=$?
    cat "$output/$name.txt"
    printf -- '---- %s: exit %d after %d s\n' "$name" "$code" "$(($(date +%s) - from))"
    case "$code" in
        0) passed+=("$name") ;;
        77) skipped+=("$name") ;;
        *) failed+=("$name") ;;
    esac
}

echo "date: $(date -u +%Y-%m-%dT%H:%M:%SZ)"
nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv 2> /dev/null || echo "nvidia-smi: not here"
part report 60 "$here/impmem" report --device "$device"
part probe 120 "$here/impmem" probe --device "$device"
part promises 150 "$here/gpu_promises"
part serving 90 "$here/gpu_serving"
part overruns 150 "$here/overrun.sh" "$here/gpu_overrun" "$here/gpu_serving"
part calibrate 60 "$here/impmem" calibrate --device "$device" --output "$output/device-profile.json" --remember "$output/measured"
[ -f "$output/device-profile.json" ] && cat "$output/device-profile.json" && cat "$output/measured" 2> /dev/null
part bench 180 "$here/impmem" bench --device "$device" --quick

printf '\n==== %d passed, %d failed, %d skipped\n' "${#passed[@]}" "${#failed[@]}" "${#skipped[@]}"
for name in "${failed[@]}"; do echo "failed: $name"; done
for name in "${skipped[@]}"; do echo "skipped: $name"; done
[ "${#failed[@]}" -eq 0 ]
