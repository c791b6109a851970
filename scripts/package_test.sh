#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package_test.sh: unpacks what package.sh made into an empty Debian, and runs
# the examples and `flashacl verify` there: the archive in a folder of its own,
# the .deb where it belongs. Takes root, and debootstrap; SUITE names another
# Debian than this one.
set -euo pipefail
cd "$(dirname "$0")/.."
. /etc/os-release
root=$(mktemp -d)
trap 'rm -rf "$root" "$root.log"' EXIT
echo "package-test: an empty Debian"
debootstrap --variant=minbase "${SUITE:-$VERSION_CODENAME}" "$root" \
  >"$root.log" 2>&1 || { tail "$root.log" >&2; exit 1; }

mkdir "$root/unpacked" "$root/examples"
tar --zstd -xf build/package/flashacl-*.tar.zst -C "$root/unpacked" \
  --strip-components=1
# The last makes the library throw and catch, on its own unwinder.
for source in examples/*.cpp tests/install/samples/impossible.cc; do
  name=$(basename "$source")
  "${CXX:-g++}" -std=c++11 -O2 "$source" -o "$root/examples/${name%.*}" \
    -static-libstdc++ -static-libgcc \
    "-I$root/unpacked/include" "-L$root/unpacked/lib64" -lascendcl -lnnopbase \
    -lopapi -pthread
done
cp build/package/flashacl-*.deb "$root/flashacl.deb"
chroot "$root" dpkg -i /flashacl.deb >/dev/null
# Nothing but glibc: Debian's tools, which need more, are not used below.
find "$root/usr/lib" \( -name 'libstdc++.so*' -o -name 'libgcc_s.so*' \
  -o -name 'libz.so*' -o -name 'libpng*' \) -delete

for prefix in /unpacked /opt/flashacl; do
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" /bin/bash -euc "
    . $prefix/set_env.sh
    for example in /examples/*; do
      said=\$(\$example)
      echo \"\${said##*\$'\n'}\"
    done
    test \"\$(command -v flashacl)\" = $prefix/bin/flashacl
    flashacl info >/dev/null
    flashacl verify fwd bf16 h=4/2 d=64 q=33 k=65 causal
    flashacl verify bwd f16 h=4/2 d=64 q=3,5 k=7,5 causal
    flashacl mask --png /mask.png fwd bf16 h=1 d=16 q=33 k=65 causal >/dev/null
    # What it cannot read comes to it as an exception.
    for wrong in 'fwd nonsense' '--nonsense fwd bf16 h=1 d=16 q=3 k=6'; do
      status=0
      said=\$(flashacl verify \$wrong 2>&1) || status=\$?
      [[ \$status == 2 && \$said == *nonsense* ]]
    done
    test -s $prefix/share/man/man1/flashacl.1
    test -s $prefix/share/doc/flashacl/docs/notation.md
    test -s $prefix/share/doc/flashacl/THIRD_PARTY_NOTICES"
done
echo "package-test: archive and .deb run"
