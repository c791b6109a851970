#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# setup.sh WHAT [PACKAGE]...: installs with apt what this machine lacks for
#   run    building and installing the library and the tool, and the examples
#   test   that, the tests and the scripts that check the sources
#   clang  that, and the other compiler with its fuzzer
#   arm    the compiler for 64-bit ARM, and what runs its programs
# and further packages. Says what it installs; says nothing when nothing is
# missing.
set -euo pipefail

what=$1
shift
packages=(
  g++ cmake ninja-build python3
  libfmt-dev nlohmann-json3-dev libhwy-dev libcli11-dev libpng-dev
  libminizip-dev
)
tests=(clang-format zsh pkgconf libgtest-dev libbenchmark-dev)
case $what in
  run) ;;
  test) packages+=("${tests[@]}") ;;
  clang) packages+=("${tests[@]}" clang libclang-rt-dev) ;;
  arm) packages=(g++-aarch64-linux-gnu cmake ninja-build python3 qemu-user) ;;
  *)
    echo "setup: expected run, test, clang or arm, not $what" >&2
    exit 2
    ;;
esac
packages+=("$@")

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not Debian; please see to these yourself:" >&2
  echo "  ${packages[*]}" >&2
  echo "  (Highway 1.0.3 or newer: scripts/highway.sh build/highway fetches it)" >&2
  exit 0
fi

# What build.sh then takes: Ubuntu 22.04's Highway, 0.16, is too old.
highway() {
  [ "$what" != arm ] || return 0
  local version
  version=$(dpkg-query --show --showformat='${Version}' libhwy-dev)
  if dpkg --compare-versions "$version" lt 1.0.3; then
    "$(dirname "$0")/highway.sh" "$(dirname "$0")/../build/highway"
  fi
}

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" \
          2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
  highway
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: missing packages, and neither root nor sudo. Please run:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "setup: installing with apt: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() {
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" \
       >"$log" 2>&1; then
    cat "$log" >&2
    echo "setup: failed: $*" >&2
    exit 1
  fi
}
run apt-get update
run apt-get install --yes --no-install-recommends "${missing[@]}"
highway
echo "setup: done"
