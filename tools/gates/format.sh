#!/usr/bin/env bash
# Every C source and header is as clang-format would write it. With --fix, make it so.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ "${1:-}" = "--fix" ]; then
    how=(-i)
else
    how=(--dry-run -Werror)
fi
mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.c' '*.h' | sort -u | while read -r file; do
    if [ -f "$file" ]; then echo "$file"; fi
done)
if [ "${#files[@]}" -eq 0 ]; then
    echo "format: no sources found: nothing was checked" >&2
    exit 1
fi
printf '%s\0' "${files[@]}" | xargs -0 -n 16 -P "$(nproc)" clang-format "${how[@]}"
echo "format: ${#files[@]} files"
