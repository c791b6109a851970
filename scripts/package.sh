#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package.sh: build/package/flashacl-VERSION-SYSTEM.tar.zst and .deb, whose
# library and tool need nothing but glibc 2.34. Highway is compiled in from
# Debian's sources; FLASHACL_HIGHWAY names others.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/build/package

highway=${FLASHACL_HIGHWAY:-$folder/highway}
if [ ! -f "$highway/CMakeLists.txt" ]; then
  echo "package: fetching the sources of Highway"
  fetched=$(mktemp -d)
  trap 'rm -rf "$fetched"' EXIT
  mkdir -p "$fetched/lists/partial" "$highway"
  . /etc/os-release
  echo "deb-src http://deb.debian.org/debian $VERSION_CODENAME main" \
    >"$fetched/sources.list"
  apt=(apt-get -q -o "Dir::Etc::sourcelist=$fetched/sources.list"
       -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$fetched/lists")
  if ! (cd "$fetched" && "${apt[@]}" update &&
        "${apt[@]}" source --download-only highway) >"$fetched/log" 2>&1; then
    cat "$fetched/log" >&2
    exit 1
  fi
  tar -xf "$fetched"/highway_*.orig.tar.* -C "$highway" --strip-components=1
fi

scripts/build.sh package product "-DFLASHACL_HIGHWAY=$highway"

# Nothing but glibc, and none newer than users have.
for file in libascendcl.so flashacl; do
  others=$(objdump -p "$folder/$file" | awk '$1 == "NEEDED" {print $2}' |
           grep -vE '^(libc|libm|libdl|libpthread|librt|ld-linux[^ ]*)\.so' ||
           true)
  newest=$(objdump -T "$folder/$file" | grep -oE 'GLIBC_2\.[0-9]+' |
           sort -uV | tail -n 1)
  if [ -n "$others" ] || [ "${newest#GLIBC_2.}" -gt 34 ]; then
    echo "package: $file needs $others and $newest" >&2
    exit 1
  fi
done
if ! (cd "$folder" && cpack >cpack.log 2>&1); then
  cat "$folder/cpack.log" >&2
  exit 1
fi
ls "$folder"/flashacl-*.tar.zst "$folder"/flashacl-*.deb
