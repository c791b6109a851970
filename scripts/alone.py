# SPDX-License-Identifier: Apache-2.0
"""Fails if a source that a build compiles together with others of its folder
(cmake/join.cmake) lacks an include when it is compiled alone, as everyday and
sanitizer builds do. Looks at sources that changed, or include what changed,
since they were last found well in this build folder, else since origin/main or
main; comments do not count. About a second a source. Exits with 77 where nothing
was built yet or no history says what changed, and in CI, which has a sanitizer
build."""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import tree

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.M)


def git(root, *words):
    """What git prints, or None where it fails."""
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True,
                          text=True)
    return done.stdout if done.returncode == 0 else None


def first_unproved(root, stamp):
    """The commit after which sources count as changed; None where no history
    says."""
    proved = [stamp.read_text().strip()] if stamp.exists() else []
    for commit in proved + ["origin/main", "main"]:
        base = git(root, "merge-base", commit, "HEAD")
        if base:
            return base.strip()
    return None


def changed_code(root, base):
    """Paths, relative to root, of C++ that differs from the commit's by more
    than comments, among them files of which git does not know."""
    def code(text):
        return tree.code_only(text).split()

    listed = git(root, "diff", "--name-only", "--diff-filter=d", base)
    listed += git(root, "ls-files", "--others", "--exclude-standard")
    result = set()
    for name in listed.splitlines():
        if pathlib.Path(name).suffix not in tree.CODE:
            continue
        text = (root / name).read_text()
        before = git(root, "show", f"{base}:{name}")
        # What is included stands in texts, which code_only empties.
        if (before is None or code(before) != code(text)
                or INCLUDE.findall(before) != INCLUDE.findall(text)):
            result.add(name)
    return result


def joined_sources(root, build):
    """{source: command that compiles it alone, without an output}."""
    result = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        joined = pathlib.Path(entry["file"])
        if build / "generated/joined" not in joined.parents:
            continue
        words = shlex.split(entry["command"])
        output = words.index("-o")
        words = [w for w in words[:output] + words[output + 2:]
                 if w not in ("-c", entry["file"])]
        for name in INCLUDE.findall(joined.read_text()):
            source = name if (root / name).exists() else f"src/{name}"
            result[source] = words + ["-fsyntax-only", "-w", str(root / source)]
    return result


class Includes:
    """Which of the project's files a file includes, also through others."""

    def __init__(self, root):
        self.root = root
        self.direct = {}

    def of(self, path):
        found, todo = {path}, [path]
        while todo:
            for name in self._direct(todo.pop()) - found:
                found.add(name)
                todo.append(name)
        return found

    def _direct(self, path):
        if path not in self.direct:
            names = INCLUDE.findall((self.root / path).read_text())
            self.direct[path] = {
                place + name for name in names
                for place in ("src/", "include/", "")
                if (self.root / (place + name)).is_file()}
        return self.direct[path]


def to_compile(root, build, base):
    """Commands of the sources that a change since the commit can have broken."""
    commands = joined_sources(root, build)
    changed = changed_code(root, base)
    includes = Includes(root)
    return {source: command for source, command in commands.items()
            if (root / source).exists() and includes.of(source) & changed}


def failures(commands, folder):
    """What compilers said of each source that is not well, in order of names."""
    def compile_one(source):
        done = subprocess.run(commands[source], cwd=folder, capture_output=True,
                              text=True)
        return f"{source}, compiled alone:\n{done.stderr}" * (
            done.returncode != 0)

    jobs = int(os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", os.cpu_count()))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return [text for text in pool.map(compile_one, sorted(commands)) if text]


def main():
    parser = tree.parser(__doc__)
    parser.add_argument("--build", type=pathlib.Path,
                        help="build folder; default: build/release")
    parser.add_argument("--all", action="store_true",
                        help="all joined sources, whether changed or not")
    options = parser.parse_args()
    root = options.root.resolve()
    build = (options.build or root / "build/release").resolve()
    if os.environ.get("CI") or not (build / "compile_commands.json").exists():
        return 77
    stamp = build / "alone.commit"
    base = first_unproved(root, stamp)
    if options.all:
        commands = joined_sources(root, build)
    elif base:
        commands = to_compile(root, build, base)
    else:
        return 77
    if len(commands) > 20:
        print(f"alone: {len(commands)} sources", file=sys.stderr, flush=True)
    bad = failures(commands, build)
    if not bad and git(root, "status", "--porcelain") == "":
        stamp.write_text(git(root, "rev-parse", "HEAD"))
    return "\n".join(bad) or 0


if __name__ == "__main__":
    sys.exit(main())
