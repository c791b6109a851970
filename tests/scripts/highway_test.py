# SPDX-License-Identifier: Apache-2.0
"""scripts/highway.sh: which archive it takes, and that a wrong one leaves nothing;
scripts/setup.sh: which systems it fetches Highway's sources for."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


class Scripts(unittest.TestCase):
    """A copy of the scripts, and of programs that stand for the system's."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        (self.top / "scripts").mkdir()
        (self.top / "bin").mkdir()

    def program(self, path, text):
        file = self.top / path
        file.write_text("#!/bin/bash\n" + text)
        file.chmod(0o755)

    def run_script(self, name, *words):
        path = f"{self.top}/bin{os.pathsep}{os.environ['PATH']}"
        return subprocess.run([self.top / "scripts" / name, *words],
                              capture_output=True, text=True, cwd=self.top,
                              env=os.environ | {"PATH": path})


class Highway(Scripts):
    def setUp(self):
        super().setUp()
        source = self.top / "highway-1.0.3/CMakeLists.txt"
        source.parent.mkdir()
        source.write_text("project(hwy)\n")
        archive = self.top / "archive.tar.gz"
        with tarfile.open(archive, "w:gz") as file:
            file.add(source.parent, source.parent.name)
        text = (SCRIPTS / "highway.sh").read_text()
        text, count = re.subn(
            "sum=[0-9a-f]{64}",
            "sum=" + hashlib.sha256(archive.read_bytes()).hexdigest(), text)
        self.assertEqual(count, 1)
        (self.top / "scripts/highway.sh").write_text(text)
        (self.top / "scripts/highway.sh").chmod(0o755)

    def serve(self, *servers):
        """Python stands for a network of servers that have the archive."""
        cases = "\n".join(f'{server}*) cp "{self.top}/archive.tar.gz" "$3" ;;'
                          for server in servers)
        self.program("bin/python3",
                     f'case $2 in\n{cases}\n*) echo "no $2" >&2; exit 1 ;;\nesac\n')

    def test_sources_are_fetched_once(self):
        self.serve("http://deb.debian.org")
        first = self.run_script("highway.sh", "build/highway")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("fetching", first.stdout)
        self.assertEqual(
            (self.top / "build/highway/CMakeLists.txt").read_text(),
            "project(hwy)\n")
        self.assertEqual(os.listdir(self.top / "build"), ["highway"])
        again = self.run_script("highway.sh", "build/highway")
        self.assertEqual((again.returncode, again.stdout), (0, ""))

    def test_the_archive_has_what_the_first_server_lacks(self):
        self.serve("http://archive.debian.org")
        done = self.run_script("highway.sh", "build/highway")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.top / "build/highway/CMakeLists.txt").exists())

    def test_another_file_leaves_nothing(self):
        self.serve("http://deb.debian.org", "http://archive.debian.org")
        (self.top / "archive.tar.gz").write_text("a page that asks to log in")
        done = self.run_script("highway.sh", "build/highway")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no server gave", done.stderr)
        self.assertFalse((self.top / "build").exists())


class Setup(Scripts):
    def setUp(self):
        super().setUp()
        shutil.copy(SCRIPTS / "setup.sh", self.top / "scripts")
        self.program("scripts/highway.sh", 'echo "fetches into $1"\n')

    def fetched(self, version, what="run"):
        """What setup.sh prints where everything is installed, Highway in `version`."""
        self.program("bin/dpkg-query",
                     'case "$*" in\n'
                     f'*Version*libhwy-dev) echo "{version}" ;;\n'
                     '*db:Status*) echo installed ;;\nesac\n')
        self.program("bin/dpkg",  # --compare-versions A lt B
                     'test "$(printf "%s\\n" "$2" "$4" | sort -V | head -n 1)" '
                     '= "$2" && test "$2" != "$4"\n')
        done = self.run_script("setup.sh", what)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_an_old_highway_is_replaced(self):  # that of Ubuntu 22.04
        self.assertRegex(self.fetched("0.16.0-1"), "into .*build/highway\n$")
        self.assertRegex(self.fetched("0.16.0-1", "test"), "build/highway\n$")

    def test_a_new_one_is_taken(self):
        self.assertEqual(self.fetched("1.0.3-3+deb12u1"), "")
        self.assertEqual(self.fetched("1.0.7-8.1build1"), "")
        self.assertEqual(self.fetched("1.2.0-2"), "")

    def test_64_bit_arm_brings_its_own(self):
        self.assertEqual(self.fetched("0.16.0-1", "arm"), "")


if __name__ == "__main__":
    unittest.main()
