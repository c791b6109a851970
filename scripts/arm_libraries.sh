#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# arm_libraries.sh: what the build links, for 64-bit ARM, in
# build/arm-libraries: Debian's packages, unpacked there, since installing them
# beside this machine's own would change versions of these. What was fetched is
# kept in ${XDG_CACHE_HOME:-~/.cache}/flashacl, for other checkouts.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/build/arm-libraries
[ ! -e "$folder/complete" ] || exit 0

packages=(
  libhwy-dev libhwy1 libfmt-dev libfmt9 nlohmann-json3-dev libcli11-dev
  libpng-dev libpng16-16 libminizip-dev libminizip1 zlib1g-dev zlib1g
  libgtest-dev libbenchmark-dev libbenchmark1debian
)
. /etc/os-release
if [ "$ID" != debian ]; then
  echo "arm_libraries: takes Debian's packages; this is $ID" >&2
  exit 1
fi
kept=${XDG_CACHE_HOME:-$HOME/.cache}/flashacl/arm-$VERSION_CODENAME
# With the fixes that only the security archive has yet: packages link these.
debian=http://deb.debian.org
sources="deb $debian/debian $VERSION_CODENAME main
deb $debian/debian-security $VERSION_CODENAME-security main"
list="$sources ${packages[*]}"
if [ "$(cat "$kept/complete" 2>/dev/null)" != "$list" ]; then
  echo "arm_libraries: fetching Debian's packages for arm64"
  fetched=$(mktemp -d)
  trap 'rm -rf "$fetched"' EXIT
  chmod 755 "$fetched"
  mkdir -p "$fetched/lists/partial" "$fetched/archives/partial"
  echo "$sources" >"$fetched/sources.list"
  apt=(apt-get -q -o "Dir::Etc::sourcelist=$fetched/sources.list"
       -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$fetched/lists"
       -o Dir::State::status=/dev/null -o APT::Sandbox::User=root
       -o APT::Architecture=arm64 -o APT::Architectures=arm64)
  if ! (cd "$fetched" && "${apt[@]}" update &&
        "${apt[@]}" download "${packages[@]}") >"$fetched/log" 2>&1; then
    cat "$fetched/log" >&2
    exit 1
  fi
  rm -rf "$kept"
  mkdir -p "$kept"
  mv "$fetched"/*.deb "$kept"
  echo "$list" >"$kept/complete"
fi
rm -rf "$folder"
mkdir -p "$folder"
for package in "$kept"/*.deb; do
  dpkg-deb --extract "$package" "$folder"
done
# One folder of libraries, as systems have; links stay inside.
if [ -d "$folder/lib" ]; then
  cp -a "$folder/lib/." "$folder/usr/lib"
  rm -r "$folder/lib"
fi
find "$folder" -type l -lname '/*' | while read -r link; do
  ln -sf "$(basename "$(readlink "$link")")" "$link"
done
touch "$folder/complete"
