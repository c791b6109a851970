#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/portable.py finds what would keep a library from running elsewhere,
and takes one that runs."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import portable  # noqa: E402

# Of `objdump -p`.
DYNAMIC = """\
  NEEDED               libm.so.6
  NEEDED               {library}
  RUNPATH              {path}

Version References:
  required from libc.so.6:
    0x09691a75 0x00 02 GLIBC_2.2.5
    0x069691b4 0x00 03 {version}
"""
GOOD = {"library": "ld-linux-x86-64.so.2", "path": "$ORIGIN/../lib64",
        "version": "GLIBC_2.34"}


def needs(**changed):
    return list(portable.needs(DYNAMIC.format(**GOOD | changed), 34))


def build(folder, name, source, *options):
    """A shared library of C++."""
    library = pathlib.Path(folder) / name
    subprocess.run([os.environ.get("CXX", "c++"), "-shared", "-fPIC", "-x", "c++",
                    "-", "-o", library, *options], input=source, text=True,
                   check=True)
    return library


class Portable(unittest.TestCase):
    def test_takes_what_runs(self):
        self.assertEqual(needs(), [])

    def test_libraries(self):
        self.assertEqual(needs(library="libstdc++.so.6"),
                         ["needs libstdc++.so.6"])
        self.assertEqual(needs(library="libcap.so.2"), ["needs libcap.so.2"])

    def test_versions(self):
        for version in ("GLIBC_2.35", "GLIBC_2.100.1", "GLIBC_ABI_DT_RELR",
                        "GLIBC_PRIVATE", "GLIBCXX_3.4", "GCC_3.0"):
            self.assertEqual(needs(version=version), [f"needs {version}"])

    def test_paths(self):
        self.assertEqual(needs(path="$ORIGIN"), [])
        for path in ("/work", "$ORIGINAL", "$ORIGIN:/work"):
            self.assertEqual(len(needs(path=path)), 1, path)
        self.assertEqual(needs(path="$ORIGIN:::"),
                         ["looks for libraries in no folder"])

    def test_what_is_shown(self):
        symbols = ("0001 T aclInit\n0002 W _ZNSt5mutexD1Ev\n"
                   "0003 B __environ@GLIBC_2.2.5\n0004 T _Unwind_Resume\n")
        self.assertEqual(list(portable.shows(symbols)),
                         ["shows _ZNSt5mutexD1Ev", "shows _Unwind_Resume"])

    def test_newer_functions(self):
        symbols = ("                 U arc4random@GLIBC_2.36\n"
                   "                 U malloc@GLIBC_2.2.5\n"
                   "                 w __gmon_start__\n")
        self.assertEqual(list(portable.newer(symbols, 34)),
                         ["arc4random is of glibc 2.36"])

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "readme").write_text("no library")
            found, bad = portable.check([folder], 34)
            self.assertEqual(found, [])
            self.assertEqual(len(bad), 1)
            good = build(folder, "good.so", 'extern "C" int one() { return 1; }',
                         "-nostdlib")
            (folder / "link.so").symlink_to(good)
            self.assertEqual(portable.check([folder], 34), ([good], []))
            build(folder, "bad.so", "int one() { return 1; }", "-nostdlib",
                  "-Wl,-rpath,/work")
            bad = portable.check([folder], 34)[1]
            self.assertEqual(
                bad, [f"{folder}/bad.so: looks for libraries in /work",
                      f"{folder}/bad.so: shows _Z3onev"])

    def test_a_library_that_is_not_static(self):
        with tempfile.TemporaryDirectory() as folder:
            build(folder, "bad.so", "#include <string>\nextern \"C\" int one() "
                  "{ return std::to_string(rand()).size(); }")
            done = subprocess.run(
                [sys.executable, SCRIPTS / "portable.py", folder],
                capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("bad.so: needs libstdc++.so.6", done.stderr)
            self.assertIn("needs GLIBCXX_", done.stderr)


if __name__ == "__main__":
    unittest.main()
