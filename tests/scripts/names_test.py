# SPDX-License-Identifier: Apache-2.0
"""scripts/names.py finds a function that the page forgets, and one that it
keeps too long, and corrects what it may."""

import pathlib
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import names  # noqa: E402

SOURCE = """\
#define FLASHACL_UNSUPPORTED(name, ...)
FLASHACL_UNSUPPORTED(aclOne, int,
                     void*)
FLASHACL_UNSUPPORTED_OBJECT(aclThing*, aclMake, void)
FLASHACL_NO_OP(aclNothing, void)
size_t aclCount(aclThing*) { return 0; }
"""
PAGE = """\
## What works

| `aclWorks` | all |

<!-- works -->
| Header | Functions |
|---|---|
| - | `aclLoose` |
| `acl/works.h` | `aclWorks` |
<!-- end -->

## No effect

| Functions | Why |
|---|---|
| `aclNothing` | nothing |

## Not supported

| Functions | Why |
|---|---|
| `aclOne`, `aclMake` | `aclOther` is better |
| `aclCount` | none |
"""
NAMES = """\
# comment
works aclWorks links=1
refused aclOne links=1
no_effect aclNothing looks_up=1
absent aclAbsent looks_up=1: no use
foreign _ZN2geE
"""
HEADERS = {"include/acl/works.h": "int aclWorks(void);\n",
           "include/aclnnop/aclnn_x.h": "int aclnnX(void);\n"}
EXPORTED = {"aclOne", "aclMake", "aclNothing", "aclCount", "aclWorks",
            "aclLoose", "aclnnX"}


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("src/acl/unsupported.cc", SOURCE)
        self.write(names.PAGE, PAGE)
        self.write(names.NAMES, NAMES)
        for path, text in HEADERS.items():
            self.write(path, text)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(self, exported=frozenset(EXPORTED), update=False):
        return names.check(self.root, set(exported), update)

    def expect_one(self, *parts, exported=frozenset(EXPORTED)):
        found = [f for f in self.check(exported) if "its table" not in f]
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])

    def test_good_tree_passes(self):
        self.assertEqual(self.check(), [])

    def test_the_page_forgets_a_name(self):
        for name in ("aclMake", "aclNothing"):
            self.write(names.PAGE, PAGE.replace(f"`{name}`", "it"))
            self.assertIn(name, " ".join(self.check()))

    def test_the_page_keeps_a_name_too_long(self):
        self.write("src/acl/unsupported.cc", SOURCE.replace("aclOne", "aclMake")
                   .replace("size_t aclCount(aclThing*) { return 0; }\n", ""))
        self.assertEqual(len(self.check()), 2)
        self.assertEqual(self.check(update=True), [])
        page = (self.root / names.PAGE).read_text()
        self.assertIn("| `aclMake` | `aclOther` is better |", page)
        self.assertNotIn("`aclCount` |", page)
        self.assertIn("works aclOne links=1\n",
                      (self.root / names.NAMES).read_text())

    def test_classes_are_what_is_exported(self):
        self.expect_one("aclAbsent is works", exported=EXPORTED | {"aclAbsent"})
        self.assertIn("aclWorks is absent",
                      " ".join(self.check(EXPORTED - {"aclWorks"})))
        self.check(EXPORTED | {"aclAbsent"}, update=True)
        self.assertIn("works aclAbsent looks_up=1\n",
                      (self.root / names.NAMES).read_text())

    def test_the_table_has_every_function_that_works(self):
        self.assertIn("its table", self.check(EXPORTED | {"aclNew"})[0])
        self.assertIn("its table", self.check(EXPORTED - {"aclLoose"})[0])
        self.assertEqual(self.check(EXPORTED | {"aclNew"}, update=True), [])
        page = (self.root / names.PAGE).read_text()
        self.assertIn("| - | `aclLoose`, `aclNew` |", page)
        self.write(names.PAGE, PAGE.replace("<!-- end -->", ""))
        self.assertIn("its table", self.check()[0])

    def test_translations_have_the_same_table(self):
        for path in names.TRANSLATIONS:
            self.write(path, PAGE.replace("`aclLoose`", "`aclLost`"))
            self.assertIn(str(path), self.check()[0])

    def test_what_is_absent_has_a_reason(self):
        self.write(names.NAMES, NAMES.replace(": no use", ""))
        self.expect_one("aclAbsent is absent without a reason")

    def test_what_is_named_is_exported(self):
        self.expect_one("aclCount is named, not exported",
                        exported=EXPORTED - {"aclCount"})

    def test_what_is_foreign_is_not_ours(self):
        self.expect_one("_ZN2geE is works", exported=EXPORTED | {"_ZN2geE"})

    def test_no_name_is_there_twice(self):
        self.write(names.NAMES, NAMES + "works aclWorks\n")
        self.expect_one("aclWorks is there twice")


if __name__ == "__main__":
    unittest.main()
