# SPDX-License-Identifier: Apache-2.0
"""Fails on what the house does not want to read: words that end or print
where a library must not, unfinished work, words that crossed a border, files
and functions that grew too long."""

import re
import sys

import tree

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_COLUMNS = 80

# (what, pattern, where it is wrong, files where it is right, why)
WORDS = [
    ("throw", r"\bthrow\b", {"src"}, set(), "return a Status"),
    ("catch", r"\bcatch\s*\(", {"src"}, {"src/base/contain.h"},
     "only Contain catches"),
    ("printing", r"\b(printf|fprintf|vprintf|vfprintf|puts|fputs)\s*\(",
     {"src"}, {"src/acl/app_log.cc"}, "the library never prints"),
    ("std::cout", r"\bstd::(cout|cerr|clog)\b", {"src"}, set(),
     "the library never prints"),
    ("abort", r"\b(abort|exit|_exit|terminate)\s*\(", {"src"},
     {"src/acl/finding.cc"}, "the library never ends the process"),
    ("getenv", r"\bgetenv\s*\(", {"src"}, {"src/acl/environment.cc"},
     "the environment is read in one place"),
    ("#if 0", r"^\s*#\s*if\s+0\b", {"src", "include", "tools", "tests",
     "bench", "examples"}, set(), "delete it; history keeps it"),
    ("Highway", r"\bhwy\b|\bHWY_", {"src", "tools", "include", "tests"},
     {"src/cpu/", "tests/cpu/", "src/dropout/", "src/indexer/", "src/merge/",
      "src/pages/", "src/record/", "src/roof/"},
     "vector code lives in src/cpu, and in the folders beside it that have "
     "some"),
]
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
# CANN's prefix, below the folders that speak CANN.
CANN = re.compile(r"\bacl(?!/)\w*|\bACL_\w+")
CANN_FREE = ("src/base/", "src/problem/", "src/plan/", "src/reference/",
             "src/cpu/", "src/dropout/", "src/indexer/", "src/merge/",
             "src/pages/", "src/roof/", "tools/",
             "tests/base/", "tests/problem/", "tests/plan/",
             "tests/reference/", "tests/cpu/", "tests/property/",
             "tests/dropout/", "tests/indexer/", "tests/merge/",
             "tests/pages/", "tests/roof/")


def check_words(path, text, code):
    name = path.as_posix()
    for word, pattern, folders, right, why in WORDS:
        if path.parts[0] not in folders:
            continue
        if any(name == r or r.endswith("/") and name.startswith(r)
               for r in right):
            continue
        for match in re.finditer(pattern, code, re.M):
            line = code.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: {word}: {why}"
    for number, line in enumerate(text.split("\n"), 1):
        if UNFINISHED.search(line):
            yield f"{name}:{number}: unfinished work; do it or open an issue"
        if name.startswith(CANN_FREE) and CANN.search(line):
            yield (f"{name}:{number}: CANN's names stop in src/acl and "
                   f"src/ops: {CANN.search(line).group()}")


def check_shape(path, text):
    name = path.as_posix()
    lines = text.split("\n")
    if len(lines) - 1 > MAX_FILE_LINES:
        yield (f"{name}: {len(lines) - 1} lines; a file of more than "
               f"{MAX_FILE_LINES} does two things")
    if not any("SPDX-License-Identifier: Apache-2.0" in l for l in lines[:2]):
        yield f"{name}: no SPDX licence line at the top"
    for number, line in enumerate(lines, 1):
        if not line.isascii():
            yield f"{name}:{number}: not ASCII"
        if line != line.rstrip():
            yield f"{name}:{number}: blanks at the end"
        if path.suffix in tree.CODE and len(line) > MAX_COLUMNS:
            yield f"{name}:{number}: {len(line)} columns"
    if path.suffix == ".h" and not path.name.endswith("-inl.h"):
        if "#pragma once" not in text and "#ifndef" not in text:
            yield f"{name}: no #pragma once"


def is_function(head):
    """Whether the text before a brace, back to the last ; or brace, opens the
    body of a function rather than of a type, a namespace or a value."""
    head = re.sub(r"^\s*#.*(\\\n.*)*$", "", head, flags=re.M).strip()
    head = re.sub(r"\btemplate\s*<[^{}]*?>\s*", "", head)
    if "(" not in head or re.match(r"(namespace|extern\s*\"|enum)\b", head):
        return False
    before = head.split("(")[0]
    return not re.search(r"(?<!operator)=|\b(struct|class|union)\s+\w+$", before)


def below(head):
    """How many lines the name of the function stands above its brace: the
    last of the least indented lines, as macro calls may precede it."""
    lines = head.split("\n")
    indents = [len(l) - len(l.lstrip()) if l.strip() else 1000 for l in lines]
    return indents[::-1].index(min(indents))


def functions(code):
    """(first line, last line) of each function body in code_only() text,
    with its head; bodies inside bodies belong to the outer one."""
    depth, inside = 0, None
    start = 0
    for match in re.finditer(r"[{};]", code):
        at, sign = match.start(), match.group()
        if sign == "{":
            head = code[start:at]
            if inside is None and is_function(head):
                inside = (depth, code.count("\n", 0, at) + 1 - below(head))
            depth += 1
        elif sign == "}":
            depth -= 1
            if inside is not None and depth == inside[0]:
                yield inside[1], code.count("\n", 0, at) + 1
                inside = None
        start = at + 1


def check_functions(path, code):
    for first, last in functions(code):
        if last - first + 1 > MAX_FUNCTION_LINES:
            yield (f"{path.as_posix()}:{first}: a function of "
                   f"{last - first + 1} lines; {MAX_FUNCTION_LINES} is the "
                   "limit")


def check(root):
    """One sentence for each finding."""
    bad = []
    for path in tree.files(root, tree.CODE):
        text = (root / path).read_text()
        code = tree.code_only(text)
        bad += check_words(path, text, code)
        bad += check_shape(path, text)
        if path.parts[0] != "examples":  # whole programs, read top to bottom
            bad += check_functions(path, code)
    for path in tree.files(root, tree.SCRIPTS):
        bad += check_shape(path, (root / path).read_text())
    return bad


if __name__ == "__main__":
    sys.exit("\n".join(check(tree.parser(__doc__).parse_args().root)) or 0)
