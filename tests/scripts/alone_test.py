# SPDX-License-Identifier: Apache-2.0
"""scripts/alone.py: which sources it compiles alone, and that one which lives on
its neighbours' includes fails."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/alone.py"
FILES = {
    "src/part/size.h": "#pragma once\nint Size();\n",
    "src/part/first.cc": '#include "part/size.h"\nint F() { return Size(); }\n',
    "src/part/second.cc": "int G() { return 2; }\n",
    "tools/third.cc": "int H() { return 3; }\n",
    ".gitignore": "/build/\n",
}


class Alone(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name).resolve()
        for name, text in FILES.items():
            self.write(name, text)
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit()
        self.git("checkout", "--quiet", "-b", "work")
        joined = self.top / "build/release/generated/joined/all/0.cc"
        self.write(joined, '#include "part/first.cc"\n'
                           '#include "part/second.cc"\n#include "tools/third.cc"\n')
        command = f"c++ -O3 -I{self.top}/src -I{self.top} -o 0.o -c {joined}"
        self.write("build/release/compile_commands.json", json.dumps(
            [{"directory": str(self.top / "build/release"), "file": str(joined),
              "command": command}]))

    def write(self, name, text):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b",
                        *words], cwd=self.top, check=True)

    def commit(self):
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "x")

    def run_script(self, *words, ci=""):
        """(exit status, what it says of sources)."""
        done = subprocess.run(
            [sys.executable, SCRIPT, "--root", self.top, *words],
            capture_output=True, text=True, env=os.environ | {"CI": ci})
        return done.returncode, done.stderr

    def test_nothing_changed_is_well(self):
        self.assertEqual(self.run_script(), (0, ""))

    def test_a_source_without_the_include_fails_by_name(self):
        self.write("src/part/second.cc", "int G() { return Size(); }\n")
        status, said = self.run_script()
        self.assertEqual(status, 1)
        self.assertIn("src/part/second.cc, compiled alone:", said)
        self.assertIn("Size", said)
        self.assertNotIn("first.cc", said)

    def test_a_tool_s_source_is_found_too(self):
        self.write("tools/third.cc", "int H() { return Size(); }\n")
        self.commit()
        self.assertIn("tools/third.cc, compiled alone", self.run_script()[1])

    def test_a_header_is_looked_at_through_who_includes_it(self):
        self.write("src/part/size.h", "#pragma once\nint Length();\n")
        status, said = self.run_script()
        self.assertEqual(status, 1)
        self.assertIn("src/part/first.cc, compiled alone:", said)

    def test_an_include_in_a_text_counts_as_code(self):
        self.write("src/part/other.h", "#pragma once\n")
        self.write("src/part/first.cc", FILES["src/part/first.cc"].replace(
            "size.h", "other.h"))
        self.assertEqual(self.run_script()[0], 1)

    def test_what_did_not_change_is_looked_at_when_asked(self):
        self.git("checkout", "--quiet", "main")
        self.write("src/part/second.cc", "int G() { return Size(); }\n")
        self.commit()
        self.assertEqual(self.run_script("--all")[0], 1)
        self.assertFalse((self.top / "build/release/alone.commit").exists())
        self.assertEqual(self.run_script()[0], 0)

    def test_what_was_found_well_is_not_looked_at_again(self):
        self.write("src/part/second.cc", "int G() { return 4; }\n")
        self.commit()
        self.assertEqual(self.run_script()[0], 0)
        # Nothing else would start this compiler.
        commands = self.top / "build/release/compile_commands.json"
        commands.write_text(commands.read_text().replace("c++ ", "false "))
        self.assertEqual(self.run_script()[0], 0)
        self.write("src/part/second.cc", "int G() { return 5; }\n")
        self.assertEqual(self.run_script()[0], 1)
        self.write("src/part/second.cc", "int G() { return 4; }  // Four.\n")
        self.assertEqual(self.run_script()[0], 0)

    def test_skips_without_a_build_without_history_and_in_ci(self):
        self.assertEqual(self.run_script(ci="yes"), (77, ""))
        self.assertEqual(self.run_script("--build", self.top / "none"), (77, ""))
        shutil.rmtree(self.top / ".git")
        self.assertEqual(self.run_script(), (77, ""))
        self.assertEqual(self.run_script("--all"), (0, ""))


if __name__ == "__main__":
    unittest.main()
