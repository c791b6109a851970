# SPDX-License-Identifier: Apache-2.0
"""What the checking scripts share: which files there are, and C++ without its
comments and texts."""

import argparse
import pathlib
import re
import subprocess

CODE = {".h", ".cc", ".cpp"}
SCRIPTS = {".py", ".sh", ".cmake", ".bash"}


def parser(description):
    """An argument parser with the one option that all scripts have."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument(
        "--root",
        type=pathlib.Path,
        default=pathlib.Path(__file__).resolve().parent.parent,
        help="top of the sources to check; default: these",
    )
    return result


def files(root, suffixes, folders=None):
    """The project's files with these suffixes, or with any, as sorted paths
    relative to root: what git tracks or would track, or all files where git is
    not."""
    command = ["git", "-C", str(root), "ls-files", "-z"]
    command += ["--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True)
    if listed.returncode == 0 and (root / ".git").exists():
        paths = {pathlib.Path(p) for p in listed.stdout.split("\0") if p}
    else:
        paths = {p.relative_to(root) for p in root.rglob("*")}
        paths = {p for p in paths if p.parts[0] not in ("build", ".git")}
    return sorted(
        p
        for p in paths
        if (suffixes is None or p.suffix in suffixes)
        and (folders is None or p.parts[0] in folders)
        and (root / p).is_file()
    )


_TOKEN = re.compile(
    r"""(?P<comment> //[^\n]* | /\*.*?\*/ )
      | (?P<raw> R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)" )
      | (?P<text> "(?:\\.|[^"\\\n])*" )
      | (?P<character> (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*' )""",
    re.S | re.X,
)


def _blank(match):
    """Spaces in place of a comment or text, so that lines and columns stay."""
    kept = re.sub(r"[^\n]", " ", match.group())
    if match.group("comment"):
        return kept
    return '"' + kept[1:-1] + '"' if len(kept) > 1 else kept


def code_only(text):
    """C++ with comments blanked and texts emptied, line by line in place."""
    return _TOKEN.sub(_blank, text)
