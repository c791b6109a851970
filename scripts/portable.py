# SPDX-License-Identifier: Apache-2.0
"""Fails unless the programs and libraries in folders run on any system with
glibc 2.34: they need no library but glibc's, none of its newer symbols, find
each other wherever they lie, and show nothing of what is linked into them."""

import argparse
import pathlib
import re
import subprocess
import sys

GLIBC = 34  # of 2.34: the minor version, which Ubuntu 22.04 and RHEL 9 have
LIBRARIES = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d+|ld-linux.*\.so\.\d+")
# Of compilers' runtimes and C++: nothing that is promised begins like this. A
# program shows what it has for glibc, such as stderr, with a version.
INNER = re.compile(r"_")


def needs(dynamic, glibc):
    """What is wrong with the answer of `objdump -p`."""
    for name in re.findall(r"^ *NEEDED +(\S+)$", dynamic, re.M):
        if not LIBRARIES.fullmatch(name):
            yield f"needs {name}"
    # Rows such as `0x09691a75 0x00 02 GLIBC_2.2.5`.
    for name in re.findall(r"^ *0x\w+ 0x\w+ \d+ (\S+)$", dynamic, re.M):
        version = re.fullmatch(r"GLIBC_2\.(\d+)(\.\d+)*", name)
        if version is None or int(version[1]) > glibc:
            yield f"needs {name}"
    for paths in re.findall(r"^ *(?:RPATH|RUNPATH) +(\S*)$", dynamic, re.M):
        for path in dict.fromkeys(paths.split(":")):
            if not re.match(r"\$ORIGIN(/|$)", path):
                yield f"looks for libraries in {path or 'no folder'}"


def shows(symbols):
    """What is wrong with the answer of `nm --dynamic --defined-only`."""
    for line in symbols.splitlines():
        name = line.split()[-1]
        if "@" not in name and INNER.match(name):
            yield f"shows {name}"


def newer(symbols, glibc):
    """Of `nm --dynamic --undefined-only`: names that glibc has only lately."""
    for name, minor in re.findall(r" (\w+)@+GLIBC_2\.(\d+)", symbols):
        if int(minor) > glibc:
            yield f"{name} is of glibc 2.{minor}"


def ask(*command):
    return subprocess.run(command, capture_output=True, text=True,
                          check=True).stdout


def is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def check(folders, glibc):
    """(the files found, one sentence for each thing that is wrong)."""
    found = sorted(path for folder in folders
                   for path in [folder, *folder.rglob("*")] if is_elf(path))
    bad = [f"{folder}: is not there" for folder in folders
           if not folder.exists()]
    if not found:
        bad.append("no program and no library among "
                   + ", ".join(map(str, folders)))
    for path in found:
        wrong = [*needs(ask("objdump", "-p", path), glibc),
                 *newer(ask("nm", "--dynamic", "--undefined-only", path), glibc),
                 *shows(ask("nm", "--dynamic", "--defined-only", path))]
        bad += [f"{path}: {sentence}" for sentence in wrong]
    return found, bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--glibc", type=int, default=GLIBC,
                        help=f"the N of glibc 2.N; default: {GLIBC}")
    options = parser.parse_args()
    found, bad = check(options.folders, options.glibc)
    if not bad:
        print(f"portable: {len(found)} files need glibc 2.{options.glibc} or "
              "older, and nothing else")
    sys.exit("\n".join(bad) or 0)


if __name__ == "__main__":
    main()
