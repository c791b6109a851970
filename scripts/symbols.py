# SPDX-License-Identifier: Apache-2.0
"""Fails unless the library shows exactly the functions it promises: its
dynamic symbols are those of tests/golden/symbols.txt, every function that a
public header declares is among them, and they are all declared. --update
writes the file."""

import pathlib
import re
import subprocess
import sys

import tree

GOLDEN = pathlib.Path("tests/golden/symbols.txt")
# Linked or looked up by name by adapters; declared in no header.
UNDECLARED = {"InitHugeMemThreadLocal", "UnInitHugeMemThreadLocal",
              "ReleaseHugeMem", "MsprofGetHashId", "MsprofRegisterCallback",
              "MsprofReportAdditionalInfo", "MsprofReportApi",
              "MsprofReportCompactInfo", "MsprofSysCycleTime",
              "rtDevBinaryRegister", "rtFunctionRegister", "rtGetC2cCtrlAddr",
              "rtKernelLaunch"}


def exported(library):
    """The functions and objects a shared library defines for others."""
    done = subprocess.run(["nm", "--dynamic", "--defined-only", library],
                          capture_output=True, text=True, check=True)
    rows = (line.split() for line in done.stdout.splitlines())
    return {row[-1].split("@")[0] for row in rows if row[-2] != "A"}


def outside_bodies(code):
    """Text with every {...} dropped except those of extern "C"."""
    code = re.sub(r'extern\s*"[^"]*"\s*{', " ", code)
    kept, depth = [], 0
    for sign in code:
        if sign == "{":
            depth += 1
        if depth == 0:
            kept.append(sign)
        if sign == "}" and depth > 0:
            depth -= 1
    return "".join(kept)


def declared_in(text):
    """Names of the C functions a public header declares."""
    text = re.sub(r"\\\n", " ", text)
    code = re.sub(r"^\s*#.*$", "", tree.code_only(text), flags=re.M)
    code = outside_bodies(code)
    names = set()
    for statement in code.split(";"):
        if re.search(r"\b(typedef|inline|static|using)\b", statement):
            continue
        match = re.search(r"\b(acl\w+|Hccl\w+|mstx\w+|\w+_s)\s*\(", statement)
        if match:
            names.add(match.group(1))
    return names


def declared(root):
    names = {}
    for path in tree.files(root, {".h"}, {"include"}):
        for name in declared_in((root / path).read_text()):
            names[name] = path
    return names


def check(root, symbols):
    """One sentence for each symbol too many or too few."""
    golden = root / GOLDEN
    promised = set(golden.read_text().split()) if golden.exists() else set()
    headers = declared(root)
    bad = [f"{n}: in {GOLDEN}, not exported" for n in sorted(promised - symbols)]
    bad += [f"{n}: exported, not in {GOLDEN}; if meant, run scripts/symbols.py "
            "--update LIBRARY" for n in sorted(symbols - promised)]
    bad += [f"{n}: declared in {headers[n]}, not exported"
            for n in sorted(headers.keys() - symbols)]
    bad += [f"{n}: exported, declared in no public header"
            for n in sorted(symbols - headers.keys() - UNDECLARED)]
    return bad


def main():
    parser = tree.parser(__doc__)
    parser.add_argument("library", help="libascendcl.so of a build")
    parser.add_argument("--update", action="store_true",
                        help=f"write what is exported to {GOLDEN}")
    options = parser.parse_args()
    symbols = exported(options.library)
    if options.update:
        golden = options.root / GOLDEN
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text("".join(f"{name}\n" for name in sorted(symbols)))
    sys.exit("\n".join(check(options.root, symbols)) or 0)


if __name__ == "__main__":
    main()
