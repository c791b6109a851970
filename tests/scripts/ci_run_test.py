# SPDX-License-Identifier: Apache-2.0
""".ci/run: what it runs in which order, what it leaves out where that would take
too long, and that a part that fails ends it."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / ".ci/run"
PYTORCH = ["prefix", "torch-install", "torch-quick"]
EVEN, ODD = "4b825dc6", "4b825dc7"  # commits


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)

    def program(self, name, text):
        path = self.top / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run_ci(self, commit, minutes=0, fails="nothing"):
        """(what make makes, status, what is said), where a run is so old when
        it begins."""
        self.program("git", f"echo {commit}")
        self.program("make", f'echo "$1"\n[ "$1" != {fails} ]')
        environment = os.environ | {
            "PATH": f"{self.top}{os.pathsep}{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(self.top), "SECONDS": str(60 * minutes)}
        done = subprocess.run([SCRIPT], capture_output=True, text=True,
                              env=environment)
        return done.stdout.split(), done.returncode, done.stderr

    def test_all_of_it_where_there_is_time(self):
        for commit, sanitizers in ((EVEN, ["asubsan", "tsan"]),
                                   (ODD, ["tsan", "asubsan"])):
            made, status, _ = self.run_ci(commit)
            self.assertEqual(made, [sanitizers[0], "aarch64-quick", sanitizers[1],
                                    *PYTORCH, "test"])
            self.assertEqual(status, 0)

    def test_the_first_part_and_the_tests_on_any_machine(self):
        for commit, first in ((EVEN, "asubsan"), (ODD, "tsan")):
            made, status, said = self.run_ci(commit, minutes=80)
            self.assertEqual(made, [first, "test"])
            self.assertEqual(status, 0)
            for left_out in ("make aarch64-quick", "pytorch"):
                self.assertIn(f"no time for {left_out}", said)

    def test_parts_that_fit(self):
        # A little faster than the machine whose minutes are compared.
        made, _, said = self.run_ci(ODD, minutes=22)
        self.assertEqual(made, ["tsan", "aarch64-quick", *PYTORCH, "test"])
        self.assertIn("no time for make asubsan", said)

    def test_a_part_that_fails_ends_it(self):
        for part in ("asubsan", "aarch64-quick", "tsan", "prefix", "torch-quick",
                     "test"):
            made, status, _ = self.run_ci(EVEN, fails=part)
            self.assertEqual(made[-1], part)
            self.assertNotEqual(status, 0)

    def test_a_download_that_fails_does_not(self):
        made, status, said = self.run_ci(EVEN, fails="torch-install")
        self.assertEqual(made[-2:], ["torch-install", "test"])
        self.assertEqual(status, 0)
        self.assertIn("PyTorch could not be installed", said)


if __name__ == "__main__":
    unittest.main()
