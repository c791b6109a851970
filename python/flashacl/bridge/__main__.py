# SPDX-License-Identifier: Apache-2.0
"""python -m flashacl.bridge SCRIPT [ARGUMENTS]: runs a script of Ascend's
PyTorch as python would, with the bridge loaded before it."""

import runpy
import sys


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
