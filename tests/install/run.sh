#!/usr/bin/env bash
# Install a built tree under a fresh prefix, move the prefix, and build and run consumers that see nothing but it.
#   run.sh BUILD_DIR C_COMPILER WORK_DIR plain|pkgconfig|package
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
        cmake -S "$here/package" -B "$work/build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
            -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
        cmake --build "$work/build"
        ctest --test-dir "$work/build" --output-on-failure --no-tests=error
        ;;
    *)
        echo "unknown kind $kind" >&2
        exit 2
        ;;
esac
