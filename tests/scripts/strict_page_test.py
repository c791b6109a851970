# SPDX-License-Identifier: Apache-2.0
"""The page of strict mode says what is found, and tests/acl/shown/strict.txt
which tests show it: every row of its tables has one. The page is for users,
and names none."""

import pathlib
import re
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGE = TOP / "docs/strict.md"
SHOWN = TOP / "tests/acl/shown/strict.txt"
TEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
# A macro of tests/acl/strict_memory_test.cc: a test and its child.
STRICT_TEST = re.compile(r"^STRICT_TEST\((\w+)\)", re.M)


def read(path):
    return path.read_text(encoding="utf-8")


def first_cells(text):
    """Of every row of every table but its head."""
    lines = text.split("\n")
    return [line.strip("|").split(" | ")[0].strip()
            for above, line in zip([""] + lines, lines)
            if line.startswith("|") and above.startswith("|")
            and not line.startswith("|---")]


def all_tests():
    names = set()
    for path in (TOP / "tests").rglob("*.cc"):
        text = read(path)
        names |= {f"{suite}.{name}" for suite, name in TEST.findall(text)}
        names |= {f"StrictMemory.{name}" for name in STRICT_TEST.findall(text)}
    return names


def shown():
    """{section: {what the page says: its tests}}."""
    found, section = {}, ""
    for line in read(SHOWN).split("\n"):
        if line.startswith("["):
            section = line.strip("[]")
        elif " -> " in line and not line.startswith("#"):
            what, tests = line.split(" -> ")
            found.setdefault(section, {})[what] = tests.split(", ")
    return found


class Test(unittest.TestCase):
    def test_every_row_has_a_test(self):
        cells = first_cells(read(PAGE))
        self.assertGreater(len(cells), 15)
        self.assertEqual(sorted(cells), sorted(shown()["Tables"]))

    def test_tests_show_what_the_page_says(self):
        text, tests = " ".join(read(PAGE).split()), all_tests()
        for section, lines in shown().items():
            for what, names in lines.items():
                if section == "Elsewhere":
                    self.assertIn(what, text)
                for name in names:
                    self.assertIn(name, tests, what)

    def test_the_page_names_no_tests(self):
        text = read(PAGE)
        self.assertNotIn("tests/", text)
        named = {name for name in all_tests()
                 if name in text or f"`{name.split('.')[1]}`" in text}
        self.assertEqual(named, set())


if __name__ == "__main__":
    unittest.main()
