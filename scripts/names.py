# SPDX-License-Identifier: Apache-2.0
"""Fails unless docs/runtime.md and tests/abi/adapter_names.txt tell the truth
about the functions that other programs name: what src refuses as not supported
is in the page's table, and nothing else; every name that an adapter links or
looks up is in the class that the page and the exported functions give it; the
page's last table has every other function, header by header. --update writes
the classes and that table, and takes from the page what src says no more."""

import pathlib
import re
import sys

import symbols
import tree

PAGE = pathlib.Path("docs/runtime.md")
# The same table, with the same words.
TRANSLATIONS = [pathlib.Path("docs/zh/runtime.md")]
NAMES = pathlib.Path("tests/abi/adapter_names.txt")
# Sections of the page whose tables name functions, and the class they give.
UNSUPPORTED = "Not supported"
CLASSES = {UNSUPPORTED: "refused", "Checked, then refused": "refused",
           "No effect": "no_effect"}
# What does nothing without a macro.
WITHOUT_MACRO = {"aclDumpOpTensors", "aclnnInit", "aclnnFinalize",
                 "MsprofReportApi", "MsprofReportCompactInfo",
                 "MsprofReportAdditionalInfo", "MsprofRegisterCallback",
                 "InitHugeMemThreadLocal", "UnInitHugeMemThreadLocal",
                 "ReleaseHugeMem"}
MACRO = re.compile(r"^FLASHACL_(UNSUPPORTED|UNSUPPORTED_OBJECT|NO_OP)"
                   r"\(([^)]*)\)", re.M)
WORKS = re.compile(r"(?<=<!-- works -->\n).*?(?=<!-- end -->)", re.S)
LINE = re.compile(r"(?P<kind>\S+) (?P<name>\S+)(?P<rest>.*)")


def sections(page):
    """{title: the names in the first column of its table}."""
    named = {title: [] for title in CLASSES}
    title = None
    for line in page.split("\n"):
        if line.startswith("## "):
            title = line[3:]
        elif line.startswith("| ") and title in CLASSES:
            named[title] += re.findall(r"`(\w+)`", line.split(" | ")[0])
    return named


def refusals(root):
    """What src says by its macros: names that are not supported, and names
    that do nothing; and all words of the files that say so."""
    unsupported, nothing, words = set(), set(), set()
    for path in tree.files(root, {".cc"}, {"src"}):
        text = (root / path).read_text()
        for kind, arguments in MACRO.findall(text):
            words |= set(re.findall(r"\w+", text))
            fields = [field.strip() for field in arguments.split(",")]
            name = fields[1] if kind == "UNSUPPORTED_OBJECT" else fields[0]
            (nothing if kind == "NO_OP" else unsupported).add(name)
    return unsupported, nothing, words


def stale(named, words):
    """Names that the page says are refused or do nothing, and src does not."""
    said = named[UNSUPPORTED] + named["No effect"]
    return [n for n in said if n not in words | WITHOUT_MACRO]


def check_page(named, exported, unsupported, nothing, words):
    table = set(named[UNSUPPORTED])
    bad = [f"{PAGE}: {n} is not supported, and not in the table of "
           f"'{UNSUPPORTED}'" for n in sorted(unsupported - table)]
    bad += [f"{PAGE}: {n} is said to be refused or to do nothing; src does not "
            "say so; run scripts/names.py --update"
            for n in stale(named, words)]
    bad += [f"{PAGE}: {n} does nothing, and is not in the table of 'No effect'"
            for n in sorted(nothing - set(named["No effect"]))]
    said = {}
    for title, names in named.items():
        for name in names:
            if name in said:
                bad.append(f"{PAGE}: {name} is in '{said[name]}' and '{title}'")
            said[name] = title
    bad += [f"{PAGE}: {n} is named, not exported"
            for n in sorted(said.keys() - exported)]
    return bad


def works_table(root, named, exported):
    """The functions that work, but operators: a row for each header."""
    said = {name for names in named.values() for name in names}
    headers = symbols.declared(root)
    found = {}
    for name in sorted(exported - said):
        path = headers.get(name)
        if path is None:
            found.setdefault("-", []).append(name)
        elif "aclnnop" not in path.parts:
            header = path.relative_to("include").as_posix()
            found.setdefault(f"`{header}`", []).append(name)
    table = "| Header | Functions |\n|---|---|\n"
    for header, names in sorted(found.items()):
        table += f"| {header} | {', '.join(f'`{n}`' for n in names)} |\n"
    return table


def check_tables(root, table, update):
    """Writes or compares the table in every language."""
    bad = []
    for path in [PAGE, *TRANSLATIONS]:
        if not (root / path).exists():
            continue
        page = (root / path).read_text(encoding="utf-8")
        if update:
            page = WORKS.sub(lambda _: table, page)
            (root / path).write_text(page, encoding="utf-8")
        match = WORKS.search(page)
        if match is None or match[0] != table:
            bad.append(f"{path}: its table of functions that work is not that "
                       "of src; run scripts/names.py --update")
    return bad


def class_of(name, named, exported):
    if name not in exported:
        return "absent"
    for title, kind in CLASSES.items():
        if name in named[title]:
            return kind
    return "works"


def check_names(text, named, exported):
    bad, seen = [], set()
    for line in text.split("\n"):
        if not line or line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        if not match:
            bad.append(f"{NAMES}: cannot read: {line}")
            continue
        kind, name = match["kind"], match["name"]
        if name in seen:
            bad.append(f"{NAMES}: {name} is there twice")
        seen.add(name)
        right = class_of(name, named, exported)
        if kind == "foreign" and right == "absent":
            continue
        if kind != right:
            bad.append(f"{NAMES}: {name} is {right}, not {kind}; after a look, "
                       "run scripts/names.py --update")
        if right == "absent" and ": " not in match["rest"]:
            bad.append(f"{NAMES}: {name} is absent without a reason")
    return bad


def corrected_names(text, named, exported):
    lines = []
    for line in text.split("\n"):
        match = LINE.fullmatch(line)
        if match and not line.startswith(("#", "foreign ")):
            kind = class_of(match["name"], named, exported)
            rest = match["rest"]
            if kind != "absent":
                rest = rest.split(": ")[0]
            line = f"{kind} {match['name']}{rest}"
        lines.append(line)
    return "\n".join(lines)


def corrected_page(page, names):
    for name in names:
        page = re.sub(rf"`{name}`, |, `{name}`", "", page, count=1)
        page = re.sub(rf"^\| `{name}` \|.*\n", "", page, count=1, flags=re.M)
    return page


def check(root, exported, update=False):
    """One sentence for each name that is not where it belongs."""
    page = (root / PAGE).read_text()
    names = (root / NAMES).read_text()
    unsupported, nothing, words = refusals(root)
    if update:
        page = corrected_page(page, stale(sections(page), words))
        (root / PAGE).write_text(page)
        names = corrected_names(names, sections(page), exported)
        (root / NAMES).write_text(names)
    named = sections(page)
    table = works_table(root, named, exported)
    return (check_tables(root, table, update) +
            check_page(named, exported, unsupported, nothing, words) +
            check_names(names, named, exported))


def main():
    parser = tree.parser(__doc__)
    parser.add_argument("library", nargs="?",
                        help=f"libascendcl.so of a build; else what "
                             f"{symbols.GOLDEN} says of it")
    parser.add_argument("--update", action="store_true",
                        help=f"write the classes into {NAMES}")
    options = parser.parse_args()
    if options.library:
        exported = symbols.exported(options.library)
    else:
        exported = set((options.root / symbols.GOLDEN).read_text().split())
    sys.exit("\n".join(check(options.root, exported, options.update)) or 0)


if __name__ == "__main__":
    main()
