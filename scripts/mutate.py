# SPDX-License-Identifier: Apache-2.0
"""Whether tests notice: makes every mistake of scripts/mutants.txt in turn, runs
the fast tests that reach it until one fails, and fails if none does.

All mistakes are compiled at once into a copy of the tree, each in an if of its
own, and FLASHACL_MUTANT says which one is made: there is one build. A first run
of every test finds out which mistakes it reaches."""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zlib

import tree

CORES = os.cpu_count() or 1
SLOW = {"test_property", "test_conformance"}  # not of the fast set
KEYS = 1 << 20
TRIES = 3  # of a test on a machine that is busy
# What most sources include.
STANDARD = """algorithm array atomic chrono cmath condition_variable cstring
deque filesystem fstream functional map memory mutex optional random set span
string string_view thread variant vector""".split()
QUICK = 0.3  # seconds; tests of less share a process

HEADER = """\
#pragma once
namespace flashacl {
extern int mutant;
extern unsigned char* reached_mutants;
constexpr bool MutantIs(int key) {
  if (__builtin_is_constant_evaluated()) return false;
  if (reached_mutants != nullptr) reached_mutants[key] = 1;
  return mutant == key;
}
}
"""
SOURCE = """\
#include <fcntl.h>
#include <sys/mman.h>
#include <cstdlib>
namespace flashacl {
int mutant = [] {
  const char* const key = std::getenv("FLASHACL_MUTANT");
  return key == nullptr ? 0 : std::atoi(key);
}();
// A file that is shared with whatever processes a test starts.
unsigned char* reached_mutants = []() -> unsigned char* {
  const char* const file = std::getenv("FLASHACL_MUTANTS_REACHED");
  if (file == nullptr) return nullptr;
  return static_cast<unsigned char*>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE,
                                          MAP_SHARED, open(file, O_RDWR), 0));
}();
}
"""


class Mutant:
    """One mistake: `new` instead of `old` in `path`; `number` counts from 1.
    Of equivalent ones `reason` says why nothing can notice."""

    def __init__(self, number, path, old, new):
        self.number, self.path, self.old, self.new = number, path, old, new
        self.reason = None
        # Stays when others are added, so that only what changes is built.
        self.key = zlib.crc32(f"{path}{old}{new}".encode()) % KEYS

    @property
    def folder(self):
        return self.path.parent.relative_to("src").as_posix()

    def __str__(self):
        return f"{self.number:3} {self.path}: {self.old} => {self.new}"


def parse(text):
    """The table's mutants: a line with a path, then indented below it
    `old => new`, each perhaps followed by `equivalent: reason`."""
    mutants, path = [], None
    for number, line in enumerate(text.split("\n"), 1):
        body = line.strip()
        if not body or body.startswith("#"):
            continue
        if not line[0].isspace():
            path = pathlib.Path(body)
        elif body.startswith("equivalent:") and mutants:
            mutants[-1].reason = body.removeprefix("equivalent:").strip()
        elif path is not None and "=>" in body:
            old, new = (part.strip() for part in body.split("=>", 1))
            mutants.append(Mutant(len(mutants) + 1, path, old, new))
        else:
            raise ValueError(f"line {number} is no mutant: {body}")
    if len({m.key for m in mutants} - {0}) != len(mutants):
        raise ValueError("two mutants have one key: write one differently")
    return mutants


def is_whole(expression):
    """Whether a text may be one expression: brackets match, no operator is
    last, no comma is outside of them, and it begins no statement."""
    depth, bare = 0, re.sub(r"'.'|\"[^\"]*\"", "", expression)
    for character in bare:
        depth += (character in "([{") - (character in ")]}")
        if depth < 0 or depth == 0 and character == ",":
            return False
    return depth == 0 and not re.search(
        r"^(if|for|while|return)\b|(&&|\|\||[,+*<=]|[^-]-)$", bare)


def alternatives(old, choices):
    """`old` where none of the mutants `choices` is made."""
    if old.endswith(";"):
        return "".join(f"if (::flashacl::MutantIs({m.key})) {{ {m.new} }} "
                       "else " for m in choices) + f"{{ {old} }}"
    if_of = re.compile(r"if \((.*)\) \{", re.S)
    if of := if_of.fullmatch(old):
        return "if " + conditional(of[1], [
            (m, if_of.fullmatch(m.new)[1]) for m in choices]) + " {"
    for text in (old, *(m.new for m in choices)):
        if not text or not is_whole(text):
            raise ValueError(f"{choices[0]}: no expression: {text}")
    return conditional(old, [(m, m.new) for m in choices])


def conditional(old, choices):
    return "(" + "".join(f"::flashacl::MutantIs({m.key}) ? ({new}) : "
                         for m, new in choices) + f"({old}))"


def mutated(text, mutants):
    """The text of a file with all of its mutants. A mistake in the same text
    as another is its alternative; texts may not overlap otherwise."""
    places, wrong = {}, []
    for mutant in mutants:
        # However the lines are broken.
        words = [re.escape(word) for word in mutant.old.split()]
        found = list(re.finditer(r"\s+".join(words), text))
        if len(found) != 1:
            wrong.append(f"{mutant}: is there {len(found)} times")
        for one in found:
            places.setdefault(one.span(), []).append(mutant)
    if wrong:
        raise ValueError("\n".join(wrong))
    end = len(text)
    for (first, last), choices in sorted(places.items(), reverse=True):
        if last > end:
            raise ValueError(f"{choices[0]}: overlaps another")
        old = text[first:last]
        text = text[:first] + alternatives(old, choices) + text[last:]
        end = first
    return text


def write(path, content):
    """Only what is different, so that little is built again."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def copy(root, to, mutants):
    """The tree at `root` with all mutants, in `to`."""
    paths = set(tree.files(root, None))
    stale = [f"{m}: there is no such file" for m in mutants
             if m.path not in paths]
    for path in sorted(paths):
        content = (root / path).read_bytes()
        here = [m for m in mutants if m.path == path]
        if here:
            try:
                content = mutated(content.decode(), here).encode()
            except ValueError as error:
                stale.append(str(error))
        write(to / path, content)
    if stale:
        raise ValueError("\n".join(stale))
    write(to / "src/mutant.cc", SOURCE.encode())
    paths.add(pathlib.Path("src/mutant.cc"))
    for path in to.rglob("*"):
        if path.is_file() and path.relative_to(to) not in paths:
            path.unlink()


def do(*command):
    # Nor would a compiler cache know what is compiled beforehand.
    environment = {name: value for name, value in os.environ.items()
                   if "LAUNCHER" not in name}
    done = subprocess.run(command, capture_output=True, text=True,
                          env=environment)
    if done.returncode != 0:
        sys.exit(done.stdout[-8000:] + done.stderr[-8000:])


def precompile(header, commands):
    """Compiles the header once for each set of flags that several of the
    commands have: g++ takes the file that fits out of mutant.h.gch. More than
    half of the time goes there otherwise."""
    flags = collections.Counter()
    for entry in json.loads(commands.read_text()):
        words = entry["command"].split()
        of_all = [w for w in words if not w.endswith((".cc", ".o"))
                  and w not in ("-o", "-c")]
        at = of_all.index("-include")
        flags[(*of_all[:at], *of_all[at + 2:])] += 1
    compiled = header.with_name(f"{header.name}.gch")
    compiled.mkdir(exist_ok=True)
    for words, count in flags.items():
        text = " ".join(words) + header.read_text()
        to = compiled / hashlib.md5(text.encode()).hexdigest()
        if count > 7 and not to.exists():
            do(*words, "-x", "c++-header", str(header), "-o", str(to))


def build(source, to):
    """Builds the programs of the fast tests; returns their paths."""
    header = to.parent / "pch/mutant.h"
    write(header, (HEADER + "".join(f"#include <{h}>\n" for h in STANDARD) +
                   "#ifdef GTEST_HAS_PTHREAD\n#include <gtest/gtest.h>\n"
                   "#endif\n").encode())
    # In two widths of vectors, as dev has, but without its checks.
    flags = f"-O1 -DFLASHACL_TWO_WIDTHS -include {header} -w"
    names = sorted(test_targets(source))
    do("cmake", "-S", str(source), "-B", str(to), "-G", "Ninja",
       "-DCMAKE_BUILD_TYPE=None", "-DFLASHACL_WERROR=OFF",
       "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", f"-DCMAKE_CXX_FLAGS={flags}")
    precompile(header, to / "compile_commands.json")
    # All that does not compile is told at once.
    do("cmake", "--build", str(to), "--parallel", str(CORES), "--target",
       *names, "--", "-k", "0")
    return [to / "tests" / name for name in names]


def test_targets(source):
    folders = {p.relative_to(source / "tests").parts[0]
               for p in (source / "tests").rglob("*_test.cc")}
    names = {"test_top" if "." in f else f"test_{f}" for f in folders}
    return names - SLOW


class Tests:
    """The programs' tests: how long each takes and which mutants it reaches."""

    def __init__(self, source, programs, work):
        self.environment = os.environ | {
            "FLASHACL_SOURCE": str(source), "FLASHACL_BUILD": str(work)}
        self.work = work
        self.kills = collections.Counter()  # by folder, program and test
        self.killers = {}  # what noticed a mutant last time, by its key
        if (work / "killers.json").is_file():
            self.killers = json.loads((work / "killers.json").read_text())
        self.known = {}  # program: {test: [seconds, [mutant]]}
        for program in programs:
            digest = hashlib.sha256(program.read_bytes()).hexdigest()
            self.known[program] = self.remembered(program, digest)

    def run(self, program, tests, seconds, **variables):
        """(failed test or None, how, seconds). A program that dies fails in the
        test that it is at, and so does one that takes longer."""
        command = [str(program), "--gtest_fail_fast", "--gtest_color=no",
                   "--gtest_filter=" + ":".join(tests)]
        start = time.monotonic()
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            try:
                code = subprocess.run(
                    command, stdout=output, stderr=subprocess.STDOUT,
                    timeout=seconds, cwd=self.work,
                    env=self.environment | variables).returncode
                how = "" if code == 1 else f" (died, {code})"
            except subprocess.TimeoutExpired:
                code, how = 1, " (hangs)"
            output.seek(0)
            text = output.read()
        took = time.monotonic() - start
        if code == 0:
            return None, "", took
        begun = re.findall(r"^\[ RUN      \] (\S+)", text, re.M)
        failed = re.findall(r"^\[  FAILED  \] (\S+?),? ", text, re.M)
        return (failed or begun[-1:] or ["?"])[0], how, took

    def reaches(self, program, test):
        with tempfile.NamedTemporaryFile() as file:
            file.truncate(KEYS)
            for _ in range(TRIES):
                failed, how, took = self.run(
                    program, [test], 600, FLASHACL_MUTANTS_REACHED=file.name)
                if not failed:
                    break
            else:
                sys.exit(f"{program.name}: {failed}{how} fails without a mutant")
            return [took, [m.start() for m in re.finditer(b"\1", file.read())]]

    def remembered(self, program, digest):
        """From an earlier run of the same program, if there was one."""
        record = self.work / f"{program.name}.json"
        if record.is_file():
            known = json.loads(record.read_text())
            if known["digest"] == digest:
                return known["tests"]
        listed = subprocess.run([str(program), "--gtest_list_tests"],
                                capture_output=True, text=True, check=True,
                                env=self.environment).stdout
        names, suite = [], ""
        for line in listed.split("\n"):
            word = line.split("#")[0].strip()
            if line.startswith("  ") and "DISABLED_" not in suite + word:
                names.append(suite + word)
            elif word.endswith("."):
                suite = word
        with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
            found = pool.map(lambda name: self.reaches(program, name), names)
            tests = dict(zip(names, found))
        record.write_text(json.dumps({"digest": digest, "tests": tests}))
        return tests

    def killer(self, mutant, longest):
        """(the first test that fails, or None; seconds), of tests that take
        less than `longest` seconds: first what has failed before, for this
        mutant or for others of its folder, and quick ones."""
        single, quick = [], []  # (rank, seconds, program, tests)
        for program, tests in self.known.items():
            mine = {name: took for name, (took, hits) in tests.items()
                    if mutant.key in hits and took < longest}
            together = [name for name, took in mine.items() if took < QUICK]
            if together:
                quick.append((1, sum(mine[name] for name in together), program,
                              together))
            for name, took in mine.items():
                known = (program.name, name)
                rank = 0 if self.killers.get(str(mutant.key)) == [*known] else \
                    2 - min(self.kills[(mutant.folder, *known)], 9) / 10
                if rank == 0 or took >= QUICK:
                    single.append((rank, took, program, [name]))
        total = 0.0
        for _, seconds, program, tests in sorted(single + quick,
                                                 key=lambda group: group[:2]):
            failed, how, took = self.run(program, tests, 20 * seconds + 20,
                                         FLASHACL_MUTANT=str(mutant.key))
            total += took
            if failed:
                self.killers[str(mutant.key)] = [program.name, failed]
                self.kills[mutant.folder, program.name, failed] += 1
                name = program.name.removeprefix("test_")
                return f"{name}.{failed}{how}", total
        return None, total


def verdict(mutant, killer):
    """(a kind of outcome, how the table says it)"""
    if killer and not mutant.reason:
        return "killed", killer
    if killer:
        return "alive", f"{killer} notices, so it is not equivalent"
    if mutant.reason:
        return "equivalent", f"equivalent: {mutant.reason}"
    return "alive", "SURVIVES"


def report(results):
    """Prints the results as they come, then totals; returns how many mutants
    are not as they should be."""
    alive, folders = [], {}
    for mutant, killer, seconds in results:
        kind, words = verdict(mutant, killer)
        print(f"{mutant.number:4}  {mutant.folder:14} {seconds:7.1f} s  "
              f"{words}", flush=True)
        row = folders.setdefault(mutant.folder, collections.Counter())
        row[kind] += 1
        row["seconds"] += seconds
        if kind == "alive":
            alive.append(f"{mutant}\n     {words}")
    print("\nfolder          killed  equivalent   alive  seconds")
    total = sum(folders.values(), collections.Counter())
    for folder, row in [*sorted(folders.items()), ("all", total)]:
        print(f"{folder:14} {row['killed']:7} {row['equivalent']:11} "
              f"{row['alive']:7} {row['seconds']:8.0f}")
    print("\n".join(alive))
    return len(alive)


def main(arguments):
    parser = tree.parser(__doc__.split("\n\n")[0])
    parser.add_argument("--only", type=int, nargs="+", help="their numbers")
    parser.add_argument("--folder", default="", help="of src, as in cpu/tile",
                        type=lambda name: name and name.rstrip("/") + "/")
    parser.add_argument("--longest", type=float, default=float("inf"),
                        metavar="SECONDS", help="leave out slower tests")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    mutants = parse((options.root / "scripts/mutants.txt").read_text())
    work = options.root / "build/mutants"
    try:
        copy(options.root, work / "source", mutants)
    except ValueError as error:
        sys.exit(str(error))
    programs = build(work / "source", work / "build")
    built = time.monotonic()
    tests = Tests(work / "source", programs, work / "build")
    known = time.monotonic()
    chosen = [m for m in mutants
              if (not options.only or m.number in options.only)
              and f"{m.folder}/".startswith(options.folder)]
    def run(mutant):
        # All tests would pass all mutants of which nobody can notice.
        longest = QUICK if mutant.reason else options.longest
        return mutant, *tests.killer(mutant, longest)

    # Twice as many, for some wait for what a mistake never lets come.
    with concurrent.futures.ThreadPoolExecutor(2 * CORES) as pool:
        running = [pool.submit(run, mutant) for mutant in chosen]
        alive = report(one.result() for one in
                       concurrent.futures.as_completed(running))
    write(work / "build/killers.json", json.dumps(tests.killers).encode())
    print(f"{len(chosen)} mutants: {built - start:.0f} s to build, "
          f"{known - built:.0f} s to see what tests reach, "
          f"{time.monotonic() - known:.0f} s to run them")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
