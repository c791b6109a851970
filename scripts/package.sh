#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package.sh [--no-packing]: build/package/flashacl-VERSION-SYSTEM.tar.zst and
# .deb, whose libraries and tool need nothing but glibc 2.34. With ARCH=aarch64
# in the environment they are cross-built for 64-bit ARM, in
# build/package-aarch64. Highway is compiled in from Debian's sources;
# FLASHACL_HIGHWAY names others. With --no-packing only the build, for wheel.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$(scripts/package_preset.sh)
folder=$PWD/build/$preset
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ "$preset" = package ] || scripts/arm_libraries.sh
highway=${FLASHACL_HIGHWAY:-$PWD/build/package/highway-sources}
scripts/highway.sh "$highway"

scripts/build.sh "$preset" product "-DFLASHACL_HIGHWAY=$highway"
[ "${1:-}" != --no-packing ] || exit 0

rm -f "$folder"/flashacl-*.tar.zst "$folder"/flashacl-*.deb
if ! (cd "$folder" && cpack >cpack.log 2>&1); then
  cat "$folder/cpack.log" >&2
  exit 1
fi

# What is in them, not what they were made of.
mkdir "$work/archive" "$work/deb"
tar --zstd -xf "$folder"/flashacl-*.tar.zst -C "$work/archive" \
  --strip-components=1
dpkg-deb --fsys-tarfile "$folder"/flashacl-*.deb | tar -x -C "$work/deb"
python3 scripts/portable.py "$work/archive"
python3 scripts/symbols.py "$work/archive/lib64/libascendcl.so"
diff -r --no-dereference "$work/archive" "$work/deb/opt/flashacl"
ls -sh "$folder"/flashacl-*.tar.zst "$folder"/flashacl-*.deb
