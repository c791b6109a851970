# SPDX-License-Identifier: Apache-2.0
"""Pages of operators say what the headers declare: every operator has a page,
every argument a row, every status that the operator answers a line; all pages
have the same order; tests/ops/shown says which tests show them."""

import pathlib
import re
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
FOLDER = TOP / "docs/operators"
PAGES = sorted(p for p in FOLDER.glob("*.md") if p.name != "README.md")
SHOWN = TOP / "tests/ops/shown"
NEEDED = ("Arguments", "Example", "Formula", "Statuses", "Decisions")
ORDER = ("Arguments", "Example", "Formula", "Versions", "Rows without keys",
         "Largest workspace", "Statuses", "Strict mode", "Decisions",
         "Measured")
# What every operator answers for, on no page.
EVERYWHERE = {"361001", "561000"}
PHASE_ONE = re.compile(r"(aclnn\w+?)Get(?:Max)?WorkspaceSize\(([^)]*)\)\s*;")
TEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")


def read(path):
    return path.read_text(encoding="utf-8")


def sections(text):
    """{title: text} of the second level."""
    parts = re.split(r"^## ", text, flags=re.M)[1:]
    return {title: body for title, _, body in
            (part.partition("\n") for part in parts)}


def rows(text):
    """The cells of every row of every table but its head."""
    lines = text.split("\n")
    for above, line in zip([""] + lines, lines):
        after_head = above.startswith("|") and not line.startswith("|---")
        if line.startswith("|") and after_head:
            yield [cell.strip() for cell in line.strip("|").split("|")]


def table(text, head):
    """The rows of the table whose first column is called `head`."""
    match = re.search(rf"^\| {head} \|.*\n((?:\|.*\n)+)", text + "\n", re.M)
    return list(rows("|\n" + match[1])) if match else []


def operators():
    """{page: the operators of its row in the folder's page}."""
    found = {}
    for row in table(read(FOLDER / "README.md"), "Page"):
        page = re.search(r"\((\w+)\.md\)", row[0])[1]
        base, names = "", []
        for word in re.findall(r"`(\w+)`|V(\w+(?: to V\d)?)", row[1]):
            if word[0]:
                base = word[0]
                names.append(base)
                continue
            first, _, last = word[1].partition(" to V")
            names += [f"{base}V{n}" for n in range(int(first), int(last) + 1)
                      ] if last else [f"{base}V{first}"]
        found[page] = names
    return found


def declared():
    """{operator: (its header, the names of its parameters)}."""
    found = {}
    for path in sorted((TOP / "include/aclnnop").glob("*.h")):
        text = re.sub(r"//.*", "", read(path))
        for name, parameters in PHASE_ONE.findall(text):
            names = re.findall(r"(\w+)\s*(?:,|$)", parameters.strip())
            found.setdefault(name, (path.name, set()))[1].update(names)
    return found


def answered():
    """{operator: the statuses of its refusals in the golden file}."""
    found, name = {}, ""
    for line in read(TOP / "tests/golden/errors.txt").split("\n"):
        if line and not line.startswith(" "):
            name = line.strip()
        found.setdefault(name, set()).update(
            re.findall(r"^  [^:]*: (\d{6}) ", line))
    return found


def all_tests():
    """Suite.Test of every test, and every suite."""
    names = set()
    for path in (TOP / "tests").rglob("*.cc"):
        for suite, name in TEST.findall(read(path)):
            names |= {suite, f"{suite}.{name}"}
    return names


class Test(unittest.TestCase):
    def test_every_operator_has_a_page(self):
        named = operators()
        self.assertEqual(sorted(named), [p.stem for p in PAGES])
        self.assertEqual(sorted(sum(named.values(), [])), sorted(declared()))

    def test_pages_have_one_order(self):
        for page in PAGES:
            titles = list(sections(read(page)))
            self.assertEqual([t for t in ORDER if t in titles], titles, page)
            self.assertEqual([t for t in NEEDED if t not in titles], [], page)

    def test_every_argument_has_a_row(self):
        headers, names = declared(), operators()
        for page in PAGES:
            text = read(page)
            said = set()
            for row in table(sections(text)["Arguments"], "Argument"):
                said |= {name.strip() for name in row[0].split(",")}
            right = set()
            for name in names[page.stem]:
                self.assertIn(f"`aclnnop/{headers[name][0]}`", text, page)
                right |= headers[name][1]
            self.assertEqual(said, right, page)

    def test_every_status_has_a_line(self):
        given, names = answered(), operators()
        for page in PAGES:
            said = {row[0] for row in rows(sections(read(page))["Statuses"])}
            for name in names[page.stem]:
                found = given.get(name, set()) - EVERYWHERE
                self.assertEqual(found - said, set(), f"{page}: {name}")

    def test_contradictions_are_told_apart(self):
        """The folder's page says what status an operator's contradictions
        have: of those that any operator has, it answers no other."""
        kinds = {"561002", "561103"}
        text = read(FOLDER / "README.md")
        told = [(set(re.findall(r"aclnn\w+", row[0])), row[1])
                for row in table(text, "Operator")]
        for name, statuses in answered().items():
            for base, status in ((b, s) for bases, s in told for b in bases):
                if re.fullmatch(rf"{base}(V\d)?", name):
                    self.assertEqual((statuses & kinds) - {status}, set(), name)

    def test_pages_name_no_tests(self):
        tests = all_tests()
        for page in PAGES:
            text = read(page)
            self.assertNotIn("tests/", text, page)
            named = set(re.findall(r"\b[A-Z]\w+\.[A-Z]\w+", text)) & tests
            self.assertEqual(named, set(), page)

    def test_tests_show_what_pages_say(self):
        tests = all_tests()
        self.assertEqual([p.stem for p in PAGES],
                         [p.stem for p in sorted(SHOWN.glob("*.txt"))])
        for page in PAGES:
            where = SHOWN / f"{page.stem}.txt"
            text = " ".join(read(page).split())
            parts = sections(read(page))
            firsts = {row[0] for row in rows(parts["Arguments"])}
            statuses = [f"{row[0]} {row[1]}" for row in rows(parts["Statuses"])]
            section = ""
            for line in read(where).split("\n"):
                if line.startswith("["):
                    section = line.strip("[]")
                if " -> " not in line or line.startswith("#"):
                    continue
                what, names = line.split(" -> ")
                message = f"{where}: {line}"
                if section == "Statuses":
                    found = any(s.startswith(what) for s in statuses)
                elif section == "Elsewhere":
                    found = what in text
                else:
                    found = what in firsts
                self.assertTrue(found, f"{message}: no such words on the page")
                for name in names.split(", "):
                    self.assertTrue(name in tests, f"{message}: no such test")


if __name__ == "__main__":
    unittest.main()
