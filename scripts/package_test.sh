#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package_test.sh: unpacks what package.sh made into an empty Debian, and runs
# the examples and `flashacl verify` there: the archive in a folder of its own,
# the .deb where it belongs. Takes root, and debootstrap; SUITE names another
# Debian than this one. With ARCH=aarch64 in the environment that Debian is one
# for 64-bit ARM, and its programs run under qemu-user, which has to start each of
# them: the kernel starts this machine's alone.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/$(scripts/package_preset.sh)
compiler=${CXX:-g++}
how=()
emulator=
if [ "$folder" = build/package-aarch64 ]; then
  compiler=aarch64-linux-gnu-g++
  how=(--foreign --arch=arm64)
  emulator=qemu-aarch64
fi
. /etc/os-release
root=$(mktemp -d)
trap 'rm -rf "$root" "$root.log"' EXIT
echo "package-test: an empty Debian${emulator:+ for 64-bit ARM}"
debootstrap --variant=minbase "${how[@]}" "${SUITE:-$VERSION_CODENAME}" "$root" \
  >"$root.log" 2>&1 || { tail "$root.log" >&2; exit 1; }

mkdir "$root/unpacked" "$root/examples"
tar --zstd -xf "$folder"/flashacl-*.tar.zst -C "$root/unpacked" \
  --strip-components=1
# The last makes the library throw and catch, on its own unwinder.
for source in examples/*.cpp tests/install/samples/impossible.cc; do
  name=$(basename "$source")
  "$compiler" -std=c++11 -O2 "$source" -o "$root/examples/${name%.*}" \
    -static-libstdc++ -static-libgcc \
    "-I$root/unpacked/include" "-L$root/unpacked/lib64" -lascendcl -lnnopbase \
    -lopapi -pthread
done
if [ -z "$emulator" ]; then
  cp "$folder"/flashacl-*.deb "$root/flashacl.deb"
  chroot "$root" dpkg -i /flashacl.deb >/dev/null
else
  # Packages are unpacked there, not set up, as the kernel would have to start
  # their scripts. This machine's dpkg, told of libc6, takes our .deb.
  { dpkg-deb --field "$root"/var/cache/apt/archives/libc6_*.deb
    echo "Status: install ok installed"; } >"$root/var/lib/dpkg/status"
  dpkg --root="$root" --force-architecture -i "$folder"/flashacl-*.deb \
    >"$root.log" 2>&1 || { tail "$root.log" >&2; exit 1; }
fi
# Nothing but glibc: Debian's tools, which need more, are not used below.
find "$root/usr/lib" \( -name 'libstdc++.so*' -o -name 'libgcc_s.so*' \
  -o -name 'libz.so*' -o -name 'libpng*' \) -delete
if [ -n "$emulator" ]; then
  # This machine's libraries, which no program of ARM can take for its own.
  program=$(command -v "$emulator")
  { echo "$program"; ldd "$program" | grep -o '/[^ ]*' || true; } |
    xargs cp --dereference --parents -t "$root"
fi

for prefix in /unpacked /opt/flashacl; do
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin run="$emulator" \
    chroot "$root" $emulator /bin/bash -euc "
    if [ -n \"\$run\" ]; then
      dirname() { \$run /usr/bin/dirname \"\$@\"; }  # for set_env.sh
    fi
    . $prefix/set_env.sh
    for example in /examples/*; do
      said=\$(\$run \$example)
      echo \"\${said##*\$'\n'}\"
    done
    test \"\$(command -v flashacl)\" = $prefix/bin/flashacl
    flashacl() { \$run $prefix/bin/flashacl \"\$@\"; }
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
echo "package-test: archive and .deb run${emulator:+ under $emulator}"
