#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package_preset.sh: prints the preset that packs for the architecture ARCH, or
# for this machine's where ARCH is not set.
set -euo pipefail
machine=$(uname -m)
case ${ARCH:-$machine} in
  "$machine") echo package ;;
  aarch64) echo package-aarch64 ;;
  *)
    echo "package: ARCH is $ARCH; packages are made for this machine," \
         "$machine, and for aarch64" >&2
    exit 2
    ;;
esac
