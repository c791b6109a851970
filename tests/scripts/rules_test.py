# SPDX-License-Identifier: Apache-2.0
"""The checking scripts find what they say they find, and nothing in a good
tree. Each test writes a small tree and breaks one rule."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import forbidden  # noqa: E402
import layering  # noqa: E402
import mirror  # noqa: E402
import symbols  # noqa: E402
import tree  # noqa: E402

LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"


class Rules(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.write("src/base/status.h", LICENCE + "#pragma once\n")
        self.write("src/base/status.cc", LICENCE + '#include "base/status.h"\n')
        self.write("tests/base/status_test.cc", LICENCE)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def source(self, name, code):
        self.write(name, LICENCE + code)

    def expect_one(self, findings, *parts):
        self.assertEqual(len(findings), 1, findings)
        for part in parts:
            self.assertIn(part, findings[0])

    def test_good_tree_passes(self):
        for rule in (layering, mirror, forbidden):
            self.assertEqual(rule.check(self.root), [], rule.__name__)

    def test_implementations_do_not_see_each_other(self):
        self.source("src/cpu/tile/mask-inl.h", '#include "cpu/tuning.h"\n')
        self.source("src/cpu/decode/decode.h",
                    '#include "cpu/forward/forward.h"\n')
        self.assertEqual(layering.check(self.root), [])
        self.source("src/cpu/forward/forward.h",
                    '#include "cpu/decode/decode.h"\n')
        self.expect_one(layering.check(self.root), "src/cpu/forward/forward.h",
                        "cpu/decode/decode.h")

    def test_what_answers_knows_no_cause(self):
        self.source("src/verify/causes/mask.cc",
                    '#include "verify/answer/answer.h"\n')
        self.assertEqual(layering.check(self.root), [])
        self.source("src/verify/answer/answer.cc",
                    '#include "verify/causes/causes.h"\n')
        self.expect_one(layering.check(self.root), "src/verify/answer/answer.cc",
                        "verify/causes/causes.h")

    def test_shared_files_of_cpu_see_no_folder(self):
        self.source("src/cpu/tuning.h", '#include "cpu/tile/mask-inl.h"\n')
        self.expect_one(layering.check(self.root), "src/cpu/tuning.h")

    def test_closed_folders_are_seen_from_inside_alone(self):
        self.source("src/acl/single_op/execute.cc",
                    '#include "acl/single_op/live.h"\n#include "acl/error.h"\n')
        self.assertEqual(layering.check(self.root), [])
        self.source("src/acl/tensor.cc", '#include "acl/single_op/live.h"\n')
        self.expect_one(layering.check(self.root), "src/acl/tensor.cc",
                        "acl/single_op/live.h")
        self.source("src/acl/tensor.cc", "")
        self.source("src/ops/x.cc", '#include "acl/single_op/live.h"\n')
        self.expect_one(layering.check(self.root), "src/ops/x.cc")

    def test_benchmarks_do_not_see_operators(self):
        self.source("bench/x_bench.cc", '#include "ops/operators.h"\n')
        self.expect_one(layering.check(self.root), "bench/x_bench.cc")

    def test_exit_status_tells(self):
        command = [sys.executable, str(SCRIPTS / "layering.py"), "--root",
                   str(self.root)]
        self.assertEqual(subprocess.run(command).returncode, 0)
        self.source("src/base/up.cc", '#include "plan/plan.h"\n')
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("src/base/up.cc: may not include plan/plan.h",
                      done.stderr)

    def test_layering_judges_each_folder(self):
        cases = [
            ("src/problem/a.cc", "plan/plan.h"),
            ("src/plan/a.cc", "cpu/cpu_info.h"),
            ("src/reference/a.cc", "cpu/cpu_info.h"),
            ("src/cpu/a.cc", "acl/executor.h"),
            ("src/acl/a.cc", "ops/x.h"),
            ("src/ops/a.cc", "plan/plan.h"),
            ("src/ops/a.cc", "backends.h"),
            ("tools/flashacl/a.cc", "acl/tensor.h"),
            ("src/plan/a.cc", "aclnn/acl_meta.h"),
        ]
        for path, name in cases:
            self.source(path, f'#include "{name}"\n')
            self.expect_one(layering.check(self.root), path, name)
            (self.root / path).unlink()

    def test_layering_allows_what_lies_below(self):
        self.source("src/ops/a.cc", '#include "acl/executor.h"\n'
                    '#include "aclnnop/aclnn_x.h"\n#include "base/str.h"\n')
        self.source("src/backends.cc", '#include "cpu/cpu_info.h"\n')
        self.assertEqual(layering.check(self.root), [])

    def test_mirror_misses_a_test(self):
        self.source("src/backends.cc", "")
        self.expect_one(mirror.check(self.root), "src/backends.cc",
                        "tests/backends_test.cc")

    def test_mirror_takes_the_test_of_a_folder(self):
        self.source("src/cpu/topk/items.cc", "")
        self.source("tests/problem/a_test.cc", '#include "cpu/topk/items.h"\n')
        self.source("tests/cpu/topk/topk.h", '#include "cpu/topk/items.h"\n')
        self.expect_one(mirror.check(self.root), "src/cpu/topk/items.cc")
        self.source("tests/cpu/topk/topk_test.cc",
                    '#include "cpu/topk/items.h"\n')
        self.assertEqual(mirror.check(self.root), [])
        self.write("tests/cpu/topk/topk_test.cc", LICENCE)
        self.source("tests/cpu/b_test.cc", '#include "cpu/topk/items.h"\n')
        self.assertEqual(mirror.check(self.root), [])

    def test_mirror_knows_headers_of_several_sources(self):
        shared = '#include "cpu/implementations.h"\n'
        self.source("src/cpu/few/few.cc", shared)
        self.source("src/cpu/many/many.cc", shared)
        self.assertEqual(len(mirror.check(self.root)), 2)
        self.source("tests/cpu/right_test.cc", shared)
        self.assertEqual(mirror.check(self.root), [])

    def test_forbidden_words(self):
        cases = ["void F() { throw 1; }", "void F() { std::abort(); }",
                 'void F() { printf("x"); }', "auto& out = std::cout;",
                 'auto* v = std::getenv("X");', "#if 0", "hwy::Add();",
                 "// TODO: more", "void F() { try {} catch (...) {} }",
                 "// like aclrtMalloc"]
        for code in cases:
            self.source("src/base/bad.h", "#pragma once\n" + code + "\n")
            self.expect_one(forbidden.check(self.root), "src/base/bad.h:3")

    def test_vector_words_are_for_tests_of_vector_code(self):
        self.source("tests/base/bad_test.cc", "hwy::Add();\n")
        self.expect_one(forbidden.check(self.root), "tests/base/bad_test.cc")

    def test_words_in_comments_and_texts_are_not_code(self):
        self.source("src/base/good.h", '#pragma once\n// never throw here\n'
                    'const char* kText = "throw // abort()"; /* printf( */\n')
        self.assertEqual(forbidden.check(self.root), [])

    def test_words_are_right_in_their_place(self):
        self.source("src/acl/environment.cc", 'auto* v = getenv("X");\n')
        self.source("src/cpu/tile/dot-inl.h", "using hwy::float16_t;\n")
        self.source("tests/cpu/dot_test.cc", "using hwy::float16_t;\n")
        self.source("src/ops/x.h", "#pragma once\naclTensor* tensor;\n")
        self.assertEqual(forbidden.check(self.root), [])

    def test_shape_of_files(self):
        cases = [("\n" * 500, "500"), ("// caf\u00e9\n", "ASCII"),
                 ("int x; \n", "blanks"), ("// " + "x" * 80 + "\n", "columns")]
        for code, part in cases:
            self.source("src/base/bad.cc", code)
            self.expect_one(forbidden.check(self.root), "bad.cc", part)
        self.write("src/base/bad.cc", "int x;\n")
        self.expect_one(forbidden.check(self.root), "SPDX")
        self.source("src/base/bad.cc", "")
        self.source("src/base/bad.h", "")
        self.expect_one(forbidden.check(self.root), "pragma once")

    def test_long_functions(self):
        body = "  x += 1;\n" * 59
        for head in ("int F(int x) {", "A::A(int x) : x_(x) {",
                     "struct S {\n int F() const {", "TEST(A, B) {",
                     "namespace n {\nextern \"C\" {\nint F() noexcept {"):
            closing = "}\n" * head.count("{")
            self.source("src/base/bad.cc", f"{head}\n{body}{closing}")
            self.expect_one(forbidden.check(self.root), "61 lines")
            shorter = body[:-len("  x += 1;\n")]
            self.source("src/base/bad.cc", f"{head}\n{shorter}{closing}")
            self.assertEqual(forbidden.check(self.root), [], head)

    def test_long_tables_are_not_functions(self):
        calls = "MACRO(a,\n      b)\n" * 40
        self.source("src/base/m.cc", calls + "int F(int a,\n      int b) {}\n")
        rows = "  {F(1), 2},\n" * 90
        self.source("src/base/t.cc", f"const Row kRows[] = {{\n{rows}}};\n"
                    f"struct S {{\n{'  int f(int);' + chr(10)}" +
                    "  int x;\n" * 80 + "};\n")
        self.assertEqual(forbidden.check(self.root), [])

    def test_symbols_compare_all_ways(self):
        self.source("include/acl/a.h",
                    "#pragma once\n#define X(a) aclMacro(a);\n"
                    'extern "C" {\nMACRO aclError aclOne(int a,\n  int b);\n'
                    "typedef void (*aclCallback)(int);\n}\n"
                    "inline int aclTwo() { return aclThree(); }\n")
        self.assertEqual(symbols.declared(self.root).keys(), {"aclOne"})
        self.write(symbols.GOLDEN.as_posix(), "aclOne\n")
        self.assertEqual(symbols.check(self.root, {"aclOne"}), [])
        self.assertEqual(len(symbols.check(self.root, set())), 2)
        self.assertEqual(len(symbols.check(self.root, {"aclOne", "aclNew"})), 2)

    def test_code_only_keeps_lines_and_columns(self):
        text = 'int a; /* x\n y */ int b = 1\'000; // "z\nf("\\"//", \'"\');\n'
        code = tree.code_only(text)
        self.assertEqual([len(l) for l in code.split("\n")],
                         [len(l) for l in text.split("\n")])
        self.assertIn("int b = 1'000;", code)
        self.assertNotIn("y", code)
        self.assertNotIn("z", code)


if __name__ == "__main__":
    unittest.main()
