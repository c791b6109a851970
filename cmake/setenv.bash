#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same as ../set_env.sh, under its older name.
# shellcheck source=/dev/null
. "$(dirname -- "${BASH_SOURCE:-$0}")/../set_env.sh"
