# SPDX-License-Identifier: Apache-2.0
"""scripts/mutate.py reads its table, finds what it names and puts every mistake
where it belongs. Nothing is built."""

import pathlib
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import mutate  # noqa: E402

TABLE = """\
# a comment
src/cpu/tile/a.h
  a < b => a <= b
  a < b => true
  Run(x) => Run(x + 1)
src/base/b.cc
  count += 1; =>
    equivalent: nobody counts
"""


class Parse(unittest.TestCase):
    def test_reads_paths_mistakes_and_reasons(self):
        mutants = mutate.parse(TABLE)
        self.assertEqual([m.number for m in mutants], [1, 2, 3, 4])
        self.assertEqual([m.folder for m in mutants],
                         ["cpu/tile"] * 3 + ["base"])
        self.assertEqual((mutants[0].old, mutants[0].new), ("a < b", "a <= b"))
        self.assertEqual((mutants[3].old, mutants[3].new), ("count += 1;", ""))
        self.assertEqual([m.reason for m in mutants],
                         [None] * 3 + ["nobody counts"])
        self.assertEqual(len({m.key for m in mutants}), 4)

    def test_refuses_what_is_no_mutant(self):
        for text in ("  a => b\n", "src/a.cc\n  a\n",
                     "src/a.cc\n  a => b\n  a => b\n"):
            with self.assertRaises(ValueError, msg=text):
                mutate.parse(text)


class Mutated(unittest.TestCase):
    def mutate(self, text, *lines):
        mutants = mutate.parse("src/a.cc\n" + "".join(
            f"  {line}\n" for line in lines))
        text = mutate.mutated(text, mutants)
        for m in mutants:
            text = text.replace(f"::flashacl::MutantIs({m.key})",
                                f"M{m.number}")
        return text

    def test_expressions_and_statements(self):
        self.assertEqual(self.mutate("if (a < b) Go();", "a < b => a <= b"),
                         "if ((M1 ? (a <= b) : (a < b))) Go();")
        self.assertEqual(self.mutate("x = 1; y = 2;", "x = 1; =>"),
                         "if (M1) {  } else { x = 1; } y = 2;")
        self.assertEqual(
            self.mutate("return a; if (a) { b; }", "if (a) { => if (c) {"),
            "return a; if (M1 ? (c) : (a)) { b; }")

    def test_several_of_one_text_and_of_one_file(self):
        self.assertEqual(
            self.mutate("return a + b * c;", "a + b * c => a", "a + b * c => b"),
            "return (M1 ? (a) : M2 ? (b) : (a + b * c));")
        self.assertEqual(self.mutate("f(a, b);", "b => 0", "a => 1"),
                         "f((M2 ? (1) : (a)), (M1 ? (0) : (b)));")

    def test_lines_may_be_broken_anywhere(self):
        self.assertEqual(self.mutate("f(a &&\n      b);", "a && b => a"),
                         "f((M1 ? (a) : (a &&\n      b)));")

    def test_refuses_what_is_not_there_once(self):
        for text, lines in (("f(c);", ["a => b"]), ("f(a, a);", ["a => b"]),
                            ("f(a + b);", ["a + b => a", "b => a"])):
            with self.assertRaises(ValueError, msg=text):
                self.mutate(text, *lines)

    def test_refuses_what_is_no_expression(self):
        for text, line in (("f(a, b);", "a, => 1,"), ("f(a);", "a) => b)"),
                           ("f(a && b);", "a && => c &&"),
                           ("f(a && b);", "a && b =>"),
                           ("if (a) return f(b);", "if (a) return => return"),
                           ("f(a, b);", "a, b => a, c"),
                           ("f(g(a));", "g(a => g(b")):
            with self.assertRaises(ValueError, msg=line):
                self.mutate(text, line)
        self.assertEqual(self.mutate("g(')');", "')' => '('"),
                         "g((M1 ? ('(') : (')')));")


class Copy(unittest.TestCase):
    def test_writes_what_changed_and_removes_what_is_gone(self):
        with tempfile.TemporaryDirectory() as folder:
            root, to = pathlib.Path(folder) / "root", pathlib.Path(folder) / "to"
            root.mkdir()
            (root / "a.cc").write_text("a < b")
            (root / "b.cc").write_text("b")
            mutants = mutate.parse("a.cc\n  a < b => true\n")
            mutate.copy(root, to, mutants)
            self.assertIn("(true) : (a < b)", (to / "a.cc").read_text())
            self.assertTrue((to / "b.cc").exists())
            before = (to / "a.cc").stat().st_mtime_ns
            (root / "b.cc").unlink()
            mutate.copy(root, to, mutants)
            self.assertEqual((to / "a.cc").stat().st_mtime_ns, before)
            self.assertFalse((to / "b.cc").exists())

    def test_the_table_names_what_the_sources_have(self):
        root = SCRIPTS.parent
        mutants = mutate.parse((root / "scripts/mutants.txt").read_text())
        self.assertGreater(len(mutants), 150)
        with tempfile.TemporaryDirectory() as to:
            mutate.copy(root, pathlib.Path(to), mutants)

    def test_says_all_that_is_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "a.cc").write_text("a < b")
            mutants = mutate.parse("a.cc\n  x => y\n  z => y\nb.cc\n  c => d\n")
            with self.assertRaises(ValueError) as raised:
                mutate.copy(root, root / "to", mutants)
            for part in ("x => y", "z => y", "b.cc"):
                self.assertIn(part, str(raised.exception))


if __name__ == "__main__":
    unittest.main()
