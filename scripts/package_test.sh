#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package_test.sh: unpacks what package.sh made into an empty Debian, and runs
# the examples and `flashacl verify` there: the archive in a folder of its own,
# the .deb where it belongs. Takes root, and debootstrap.
set -euo pipefail
cd "$(dirname "$0")/.."
. /etc/os-release
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase "${SUITE:-$VERSION_CODENAME}" "$root" >"$root.log" 2>&1 ||
  { tail "$root.log" >&2; exit 1; }
rm -f "$root.log"

mkdir "$root/unpacked" "$root/examples"
tar --zstd -xf build/package/flashacl-*.tar.zst -C "$root/unpacked" \
  --strip-components=1
for source in examples/*.cpp; do
  name=$(basename "$source" .cpp)
  "${CXX:-g++}" -std=c++11 -O2 "$source" -o "$root/examples/$name" \
    "-I$root/unpacked/include" "-L$root/unpacked/lib64" -lascendcl -lnnopbase \
    -lopapi
done
cp build/package/flashacl-*.deb "$root/flashacl.deb"
chroot "$root" dpkg -i /flashacl.deb >/dev/null
for prefix in /unpacked /opt/flashacl; do
  chroot "$root" /bin/bash -euc "
    . $prefix/set_env.sh
    for example in /examples/*; do
      \$example | tail -n 1
    done
    flashacl info >/dev/null
    flashacl verify fwd bf16 h=4/2 d=64 q=33 k=65 causal
    flashacl verify bwd f16 h=4/2 d=64 q=3,5 k=7,5 causal
    test -s $prefix/share/man/man1/flashacl.1
    test -s $prefix/share/doc/flashacl/THIRD_PARTY_NOTICES"
done
echo "package-test: both run"
