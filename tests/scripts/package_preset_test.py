# SPDX-License-Identifier: Apache-2.0
"""scripts/package_preset.sh packs for this machine, for 64-bit ARM where that
is another one, and for nothing else."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = (pathlib.Path(__file__).resolve().parents[2]
          / "scripts/package_preset.sh")


def preset(machine, arch):
    """Of ARCH on a machine: (exit status, what is printed, errors)."""
    with tempfile.TemporaryDirectory() as folder:
        uname = pathlib.Path(folder) / "uname"
        uname.write_text(f"#!/bin/sh\necho {machine}\n")
        uname.chmod(0o755)
        environment = os.environ | {
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "ARCH": arch}
        done = subprocess.run([SCRIPT], capture_output=True, text=True,
                              env=environment)
    return done.returncode, done.stdout.strip(), done.stderr


class PackagePreset(unittest.TestCase):
    def test_this_machine_is_not_cross_built_for(self):
        for machine in ("x86_64", "aarch64"):
            for arch in ("", machine):
                self.assertEqual(preset(machine, arch), (0, "package", ""))

    def test_arm_is_cross_built_for(self):
        self.assertEqual(preset("x86_64", "aarch64"),
                         (0, "package-aarch64", ""))

    def test_others_are_refused_by_name(self):
        for machine, arch in (("x86_64", "arm64"), ("aarch64", "x86_64")):
            status, printed, errors = preset(machine, arch)
            self.assertEqual((status, printed), (2, ""))
            self.assertIn(f"ARCH is {arch}", errors)
            self.assertIn(machine, errors)


if __name__ == "__main__":
    unittest.main()
