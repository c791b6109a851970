# SPDX-License-Identifier: Apache-2.0
"""cmake/sve.cmake: which widths of SVE vector code is compiled for, by what is
asked and what machine there is."""

import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "cmake/sve.cmake"


def wanted(sve, targets, bits):
    """(exit status, the widths, errors)"""
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "script.cmake"
        script.write_text(
            f'include("{SOURCE}")\n'
            f'flashacl_wanted_sve(widths "{sve}" "{targets}" {bits})\n'
            'message(STATUS "<${widths}>")\n')
        done = subprocess.run(["cmake", "-P", script], capture_output=True,
                              text=True)
    return done.returncode, done.stdout.strip(), done.stderr


class WantedWidths(unittest.TestCase):
    def expect(self, asked, widths):
        status, output, errors = wanted(*asked)
        self.assertEqual((status, output), (0, f"-- <{widths}>"),
                         (asked, errors))

    def test_all_targets_are_those_that_are_wider_than_neon(self):
        for bits in (0, 128, 256):
            self.expect(("auto", "all", bits), "256;512")

    def test_a_native_one_is_what_the_machine_has(self):
        for bits, widths in ((0, ""), (128, ""), (256, "256"), (512, "512"),
                             (1024, "")):
            self.expect(("auto", "native", bits), widths)

    def test_what_is_asked_for_is_compiled_anywhere(self):
        self.expect(("128;512", "native", 256), "128;512")
        self.expect(("none", "all", 256), "")

    def test_other_widths_are_refused(self):
        for asked in ("384", "256;1024", "256 512", "sve"):
            status, _, errors = wanted(asked, "all", 256)
            self.assertNotEqual(status, 0)
            self.assertIn(f"FLASHACL_SVE has {asked.split(';')[-1]}; expected",
                          " ".join(errors.split()))


if __name__ == "__main__":
    unittest.main()
