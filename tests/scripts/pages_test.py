# SPDX-License-Identifier: Apache-2.0
"""Pages say something, those of docs/ that enumerate name everything there is,
and links between pages lead somewhere."""

import pathlib
import re
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([TOP / "README.md", TOP / "DEVELOPING.md",
                *(TOP / "docs").rglob("*.md")])


def texts(folder, *patterns):
    for pattern in patterns:
        for path in sorted((TOP / folder).rglob(pattern)):
            yield path.read_text(encoding="utf-8")


def anchors(path):
    """What headings of a page are linked by."""
    found = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            words = re.sub(r"[`*()\[\]]", "", line.lstrip("# ")).lower()
            found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


class Test(unittest.TestCase):
    def test_every_page_has_a_title_and_text(self):
        for page in PAGES:
            title, _, text = page.read_text(
                encoding="utf-8").lstrip().partition("\n")
            self.assertRegex(title, r"# \S", str(page))
            self.assertTrue(text.strip(), str(page))

    def test_links_lead_somewhere(self):
        for page in PAGES:
            text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"),
                          flags=re.S)
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                other = (page.parent / file).resolve() if file else page
                self.assertTrue(other.exists(), f"{page}: {target}")
                if anchor and other.suffix == ".md":
                    self.assertIn(anchor, anchors(other), f"{page}: {target}")

    def test_the_index_has_every_page(self):
        index = (TOP / "docs/README.md").read_text(encoding="utf-8")
        for page in sorted((TOP / "docs").glob("*")):
            name = page.name + "/README.md" if page.is_dir() else page.name
            if page.name in ("README.md", "notes"):
                continue
            self.assertIn(f"]({name})", index)

    def test_translations_have_the_same_commands(self):
        def blocks(path):
            return re.findall(r"^```\w+\n.*?^```", path.read_text("utf-8"),
                              flags=re.S | re.M)

        pairs = [(TOP / "README.md", TOP / "docs/zh/README.md")]
        for page in sorted((TOP / "docs/howto").glob("*.md")):
            pairs.append((page, TOP / "docs/zh/howto" / page.name))
        for page in sorted((TOP / "docs/operators").glob("*.md")):
            pairs.append((page, TOP / "docs/zh/operators" / page.name))
        for other in sorted((TOP / "docs/zh").glob("*.md")):
            if other.stem != "README":
                pairs.append((TOP / "docs" / other.name, other))
        self.assertGreater(len(pairs), 21)
        for page, other in pairs:
            self.assertEqual(blocks(page), blocks(other), other)

    def test_translations_have_the_same_facts(self):
        """Pages of reference have the same tables, names in their first
        columns, shapes and numbers."""
        name = re.compile(r"`[^`]+`|\b[a-z]+[A-Z]\w*\b|\b[A-Z_]*\d+\b", re.A)

        def facts(path):
            text = re.sub(r"```.*?```|\[[^]]*\]\([^)]*\)", "",
                          path.read_text("utf-8"), flags=re.S)
            for word, english in (("\u6216\u66f4\u591a", "or more"),
                                  ("\u6216", "or")):  # within shapes
                text = text.replace(word, english)
            rows = [line.strip("|").split("|") for line in text.split("\n")
                    if line.startswith("|")]
            return {"columns": [len(row) for row in rows],
                    "names": [name.findall(row[0]) for row in rows],
                    "shapes": sorted(" ".join(shape.split()) for shape in
                                     re.findall(r"\[[^]]*\]", text)),
                    "numbers": sorted(re.findall(
                        r"(?<![\w.])\d{2,}(?![\w])", text, re.A))}

        pairs = [(page, TOP / "docs/zh/operators" / page.name)
                 for page in sorted((TOP / "docs/operators").glob("*.md"))]
        pairs += [(TOP / "docs" / page.name, page)
                  for page in sorted((TOP / "docs/zh").glob("*.md"))
                  if page.stem != "README"]
        self.assertGreater(len(pairs), 17)
        for page, other in pairs:
            translated = facts(other)
            for kind, fact in facts(page).items():
                self.assertEqual(fact, translated[kind], f"{other}: {kind}")

    def test_errors_has_every_code_that_calls_answer(self):
        page = (TOP / "docs/errors.md").read_text(encoding="utf-8")
        values = {}
        for text in texts("include/acl", "*.h"):
            values.update(re.findall(r"(ACL_ERROR_\w+)\s*=?\s*(\d{6})\b", text))
        used = set()
        for text in texts("src", "*.cc", "*.h"):
            used.update(re.findall(r"\bACL_ERROR_\w+", text))
        self.assertGreater(len(used), 50)
        for name in sorted(used):
            self.assertIn(f"| {values[name]} | `{name}` |", page)
        rows = re.findall(r"^\| (\d{6}) \| `(\w+)` \|", page, flags=re.M)
        for value, name in rows:
            self.assertEqual(values[name], value, name)
            self.assertIn(name, used, "answered by no call")

    def test_errors_has_every_status_of_operators(self):
        page = (TOP / "docs/errors.md").read_text(encoding="utf-8")
        golden = (TOP / "tests/golden/errors.txt").read_text(encoding="utf-8")
        given = set(re.findall(r"\b[135]61\d{3}\b", golden))
        self.assertGreaterEqual(len(given), 4)
        for status in sorted(given | {"361001", "561000"}):
            self.assertIn(f"| {status} |", page)

    def test_environment_has_every_variable(self):
        read = [(r"\"([A-Z][A-Z_]{3,})\"", texts("src/acl", "environment.cc")),
                (r"\bgetenv\(\s*\"([A-Z_]+)\"",
                 [*texts("src", "*.cc"), *texts("tools", "*.cc"),
                  *texts("python", "*.cc")]),
                (r"\benviron(?:\.\w+\(|\[)\s*\"([A-Z_]+)\"",
                 texts("python", "*.py")),
                (r"\$\{([A-Z_]+):-", [*texts("scripts", "build.sh"),
                                     *texts("scripts", "package*.sh"),
                                     *texts("scripts", "torch.sh"),
                                     *texts("examples", "run.sh")])]
        found = set()
        for pattern, sources in read:
            names = {n for text in sources for n in re.findall(pattern, text)}
            self.assertTrue(names, pattern)
            found |= names
        page = (TOP / "docs/environment.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| `([A-Z_]+)` \|", page, flags=re.M)
        self.assertEqual(set(rows), found)
        told = page.split("## What set_env.sh sets")[1]
        sets = re.compile(r"^\s*(?:export|_flashacl_prepend|_flashacl_follow)"
                          r" ([A-Z_]+)", re.M)
        for text in texts("cmake", "set_env.sh"):
            for name in sets.findall(text):
                self.assertIn(f"`{name}`", told)

    def test_readme_has_our_environment_variables(self):
        page = (TOP / "README.md").read_text(encoding="utf-8")
        found = set()
        for text in texts("src", "*.cc"):
            found.update(re.findall(r'"(FLASHACL_[A-Z_]+)"', text))
        self.assertGreater(len(found), 4)
        for name in sorted(found):
            self.assertIn(f"`{name}=", page)


if __name__ == "__main__":
    unittest.main()
