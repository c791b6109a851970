# SPDX-License-Identifier: Apache-2.0
"""scripts/format.py takes clang-format 14 at its word, and asks no other
version. Each test puts a clang-format of its own into the path."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"

# Writes down its arguments, and says of the sources what the test wants.
CLANG_FORMAT = """\
#!/bin/sh
if [ "$1" = --version ]; then echo "{version}"; exit 0; fi
echo "$@" >> "{folder}/asked"
echo "{says}" >&2
exit {status}
"""
DEBIAN_12 = "Debian clang-format version 14.0.6"


class Format(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "root").mkdir()
        (self.folder / "root/a.cc").write_text("int  a;\n")

    def run_with(self, version, *options, says="", status=0):
        """Runs format.py beside this clang-format: (exit status, errors, what
        clang-format was asked)."""
        program = self.folder / "clang-format"
        program.write_text(CLANG_FORMAT.format(
            version=version, folder=self.folder, says=says, status=status))
        program.chmod(0o755)
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [sys.executable, SCRIPTS / "format.py", "--root",
             self.folder / "root", *options],
            capture_output=True, text=True, env=os.environ | {"PATH": path})
        asked = self.folder / "asked"
        return (done.returncode, done.stderr,
                asked.read_text() if asked.exists() else "")

    def test_version_14_is_asked(self):
        status, errors, asked = self.run_with(DEBIAN_12)
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("--dry-run", asked)
        self.assertIn("a.cc", asked)

    def test_what_it_would_change_fails_by_name(self):
        status, errors, _ = self.run_with(
            "Ubuntu clang-format version 14.0.0-1ubuntu1.1",
            says="/x/a.cc:1:4: error: code should be clang-formatted", status=1)
        self.assertEqual(status, 1)
        self.assertIn("/x/a.cc", errors)

    def test_another_version_skips_and_says_which(self):
        for version in ("Debian clang-format version 19.1.7 (3+b1)",
                        "clang-format version 4.14.0"):
            for options in ([], ["--update"]):
                status, errors, asked = self.run_with(version, *options)
                self.assertEqual(status, 77, version)
                self.assertIn(version, errors)
                self.assertEqual(asked, "")


if __name__ == "__main__":
    unittest.main()
