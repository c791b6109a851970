#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# highway.sh FOLDER: Highway's sources in FOLDER, unless they are there: those
# of Debian 12, whose checksum is below. -DFLASHACL_HIGHWAY=FOLDER builds them.
set -euo pipefail
folder=${1:?highway: name the folder that the sources go into}
[ ! -f "$folder/CMakeLists.txt" ] || exit 0

file=pool/main/h/highway/highway_1.0.3.orig.tar.gz
sum=566fc77315878473d9a6bd815f7de78c73734acdcb745c3dde8579560ac5440e
# The second has what the first no longer has.
servers=(http://deb.debian.org/debian http://archive.debian.org/debian)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "highway: fetching the sources of Highway 1.0.3"
for server in "${servers[@]}"; do
  # Python is needed anyway; curl and wget may be missing.
  if python3 - "$server/$file" "$work/archive" 2>"$work/log" <<'PYTHON' &&
import shutil, sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=60) as answer:
    with open(sys.argv[2], "wb") as file:
        shutil.copyfileobj(answer, file)
PYTHON
      echo "$sum  $work/archive" | sha256sum --check --status; then
    # All of them or none, whenever this is interrupted.
    rm -rf "$folder.part"
    mkdir -p "$folder.part"
    tar -xf "$work/archive" -C "$folder.part" --strip-components=1
    [ ! -d "$folder" ] || rmdir "$folder"
    mv "$folder.part" "$folder"
    exit 0
  fi
  tail -n 1 "$work/log" >&2
done
echo "highway: no server gave $file with the SHA-256 $sum." >&2
echo "  Unpack a release of github.com/google/highway, 1.0.3 or newer, into" >&2
echo "  $folder." >&2
exit 1
