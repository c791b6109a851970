# SPDX-License-Identifier: Apache-2.0
"""The command line tool, as `flashacl ...` or `python -m flashacl ...`: that of
a wheel, or that of the prefix which set_env.sh names."""

import os
import pathlib
import sys

INSIDE = pathlib.Path(__file__).parent / "bin" / "flashacl"


def main():
    """Becomes the tool."""
    home = os.environ.get("ASCEND_HOME_PATH", "/nowhere")
    for tool in (INSIDE, pathlib.Path(home) / "bin" / "flashacl"):
        if tool.exists():
            os.execv(tool, ["flashacl", *sys.argv[1:]])
    sys.exit("flashacl: there is no tool in this package, and set_env.sh of an "
             "installed FlashACL was not sourced")


if __name__ == "__main__":
    main()
