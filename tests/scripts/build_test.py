# SPDX-License-Identifier: Apache-2.0
"""scripts/build.sh: which cmake commands it runs, above all for which
instruction sets vector code is compiled where."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/build.sh"
NATIVE = "-DFLASHACL_TARGETS=native"


class Build(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        (self.top / "scripts").mkdir()
        shutil.copy(SCRIPT, self.top / "scripts")
        (self.top / "bin").mkdir()
        cmake = self.top / "bin/cmake"
        cmake.write_text(f'#!/bin/sh\necho "$@" >>"{self.top}/commands"\n')
        cmake.chmod(0o755)

    def build(self, *words, ci=""):
        """(cmake's commands, what is printed)."""
        environment = os.environ | {
            "PATH": f"{self.top}/bin{os.pathsep}{os.environ['PATH']}",
            "CI": ci}
        done = subprocess.run([self.top / "scripts/build.sh", *words],
                              capture_output=True, text=True, env=environment,
                              check=True)
        commands = (self.top / "commands").read_text().splitlines()
        (self.top / "commands").unlink()
        return commands, done.stdout

    def configured(self, targets):
        cache = self.top / "build/release/CMakeCache.txt"
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text("CMAKE_BUILD_TYPE:STRING=Release\n" + targets)

    def test_options_configure_and_targets_build(self):
        commands, _ = self.build("release", "product", "-DX=1", "flashacl")
        self.assertEqual(commands,
                         ["--preset release -DX=1",
                          "--build --preset release --target product flashacl"])

    def test_fetched_sources_of_highway_are_built(self):
        sources = self.top / "build/highway"
        sources.mkdir(parents=True)
        (sources / "CMakeLists.txt").write_text("")
        commands, _ = self.build("release", "product")
        self.assertEqual(commands[0],
                         f"--preset release -DFLASHACL_HIGHWAY={sources}")
        commands, _ = self.build("package", "product", "-DFLASHACL_HIGHWAY=/its")
        self.assertEqual(commands[0], "--preset package -DFLASHACL_HIGHWAY=/its")

    def test_an_empty_folder_is_for_this_processor(self):
        commands, said = self.build("release", "product", NATIVE)
        self.assertEqual(commands[0], f"--preset release {NATIVE}")
        self.assertIn("for this processor (from nothing, about 2.5 minutes",
                      said)

    def test_the_first_page_has_the_same_minutes(self):
        top = SCRIPT.parents[1]
        pages = [(top / name).read_text("utf-8")
                 for name in ("README.md", "docs/zh/README.md")]
        for options in ([NATIVE], []):
            shutil.rmtree(self.top / "build", ignore_errors=True)
            _, said = self.build("release", "product", *options)
            minutes = re.search(r"about ([\d.]+) minutes", said)[1]
            for page in pages:
                self.assertRegex(page, rf"(about|\u7ea6\u9700) {minutes} ")

    def test_a_folder_for_one_processor_may_be_for_this(self):
        for targets in ("native", "SSE4", "AVX2", "AVX3"):
            self.configured(f"FLASHACL_TARGETS:STRING={targets}\n")
            commands, _ = self.build("release", "product", NATIVE)
            self.assertEqual(commands[0], f"--preset release {NATIVE}")

    def test_a_folder_for_all_stays_so(self):
        for targets in ("FLASHACL_TARGETS:STRING=all\n", ""):
            self.configured(targets)
            commands, said = self.build("release", "product", NATIVE, "-DX=1")
            self.assertEqual(commands[0], "--preset release -DX=1")
            self.assertNotIn("this processor", said)

    def test_ci_compiles_for_all(self):
        commands, _ = self.build("release", "product", NATIVE, ci="yes")
        self.assertEqual(commands[0], "--preset release -DFLASHACL_WERROR=ON")


if __name__ == "__main__":
    unittest.main()
