#!/usr/bin/env bash
# Install a built tree under a fresh prefix, move the prefix, and build and run consumers that see nothing but it.
#   run.sh BUILD_DIR C_COMPILER WORK_DIR plain|pkgconfig|package|device|device_pkgconfig
# The last two need the archives that reach devices: without them it leaves with 77. IMPMEM_CUDA_LIBRARY_DIR is where the
# toolkit's static runtime lies, which no .pc file can know.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
build="$1" cc="$2" work="$3/$4" kind="$4"

rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/first" >"$work/install.log"
# Nothing installed may name the place where it was built or first installed.
mv "$work/first" "$work/prefix"
prefix="$work/prefix"
libdir="$(dirname "$(find "$prefix" -name libimpmem.a)")"
if grep -rIl -e "$work/first" -e "$build" "$prefix"; then
    echo "the files above name the build or the first prefix" >&2
    exit 1
fi

# project FOLDER: build and test one that finds the package.
project() {
    cmake -S "$1" -B "$work/build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
    cmake --build "$work/build"
    ctest --test-dir "$work/build" --output-on-failure --no-tests=error
}

if [[ "$kind" == device* && ! -f "$libdir/libimpmem_cublaslt.a" ]]; then
    echo "skipped: this build has no CUDA toolkit, and so no libimpmem_cuda.a and no libimpmem_cublaslt.a"
    exit 77
fi

case "$kind" in
    plain)
        "$cc" -std=c11 -I"$prefix/include" "$here/core/main.c" -L"$libdir" -limpmem -lpthread -o "$work/main"
        "$work/main"
        ;;
    pkgconfig)
        export PKG_CONFIG_PATH="$libdir/pkgconfig"
        read -ra core < <(pkg-config --cflags --libs --static libimpmem)
        "$cc" -std=c11 "$here/core/main.c" "${core[@]}" -o "$work/main"
        "$work/main"
        read -ra model < <(pkg-config --cflags --libs --static libimpmem_model)
        "$cc" -std=c11 "$here/package/model.c" "${model[@]}" -o "$work/model"
        "$work/model"
        ;;
    package)
        project "$here/package"
        ;;
    device)
        project "$here/device"
        ;;
    device_pkgconfig)
        export PKG_CONFIG_PATH="$libdir/pkgconfig"
        for component in cuda cublaslt; do
            read -ra flags < <(pkg-config --cflags --libs --static "libimpmem_$component")
            "$cc" -std=c11 "$here/device/$component.c" -L"$IMPMEM_CUDA_LIBRARY_DIR" "${flags[@]}" -o "$work/$component"
            "$work/$component"
        done
        ;;
    *)
        echo "unknown kind $kind" >&2
        exit 2
        ;;
esac
