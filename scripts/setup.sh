#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing needs and this machine lacks, with apt.
# Says what it installs; says nothing when nothing is missing. Arguments are
# further packages.
set -euo pipefail

packages=(
  g++ clang libclang-rt-14-dev clang-format cmake ninja-build python3 zsh
  libfmt-dev nlohmann-json3-dev libhwy-dev
  libgtest-dev libbenchmark-dev libcli11-dev libpng-dev
  "$@"
)

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not Debian; please see to these yourself:" >&2
  echo "  ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" \
          2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

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
echo "setup: done"
