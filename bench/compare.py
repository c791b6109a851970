#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two JSON files of `flashacl bench --json`: a verdict per workload.

What is compared is the share of the roof that each repetition reached: the
time the machine would have needed at least, by its arithmetic or by its memory
as measured around that repetition, over the time it took. A machine that was
busy then slows both. `faster` and `slower` are what a Mann-Whitney test finds
unlikely (--p) to be chance and what is large enough to matter (--least).
Ends with 1 if anything is slower, and with 2 if a file is not what it should
be."""

import argparse
import json
import math
import statistics
import sys


def shares(timing):
    """The share of the roof of each repetition."""
    return [
        max(timing["flops"] / s["flops_roof"],
            timing["bytes"] / s["bandwidth_roof"]) / s["seconds"]
        for s in timing["samples"]
    ]


def ways(m, n, limit):
    """How many of the orders of m and n values have a U of 0, 1, ..., limit."""
    # count[j][u]: with so many of the first kind, j of the second.
    count = [[1] + [0] * limit for _ in range(n + 1)]
    for _ in range(m):
        row = [[1] + [0] * limit]
        for j in range(1, n + 1):
            row.append([
                row[j - 1][u] + (count[j][u - j] if u >= j else 0)
                for u in range(limit + 1)
            ])
        count = row
    return count[n]


def exact_p(m, n, u):
    """Two-sided, without ties; u is the smaller of both."""
    low = math.floor(u)
    return min(1.0, 2 * sum(ways(m, n, low)) / math.comb(m + n, n))


def normal_p(m, n, u, ties):
    """Two-sided, with corrections for ties and for continuity."""
    total = m + n
    spread = total + 1 - sum(t**3 - t for t in ties) / (total * (total - 1))
    deviation = math.sqrt(m * n / 12 * spread)
    if deviation == 0:
        return 1.0
    z = max(0.0, m * n / 2 - u - 0.5) / deviation
    return math.erfc(z / math.sqrt(2))


def mann_whitney(a, b):
    """How likely it is that values as far apart as a and b come from the same
    distribution; 1 where either is empty."""
    if not a or not b:
        return 1.0
    less = sum(x < y for x in a for y in b)
    equal = sum(x == y for x in a for y in b)
    u = less + equal / 2
    u = min(u, len(a) * len(b) - u)
    values = sorted(a + b)
    ties = [values.count(v) for v in set(values)]
    if max(ties) == 1 and len(a) * len(b) <= 400:
        return exact_p(len(a), len(b), u)
    return normal_p(len(a), len(b), u, ties)


def name_of(timing):
    return timing["title"] or timing["problem"]


def pairs(old, new):
    """(old, new) timings of the same workload on the same number of threads,
    None where there is none: of the same implementation, or of the only ones."""
    def by(timings, *fields):
        groups = {}
        for timing in timings:
            groups.setdefault(tuple(timing[f] for f in fields), []).append(
                timing)
        return groups

    what = ("problem", "backend", "threads")
    who = what + ("implementation",)
    old_whole, new_whole = by(old, *what), by(new, *what)
    old_each = {key: group[-1] for key, group in by(old, *who).items()}
    taken = set()
    found = []
    for key, group in by(new, *who).items():
        before = old_each.get(key)
        others = old_whole.get(key[:-1], [])
        if before is None and len(others) == len(new_whole[key[:-1]]) == 1:
            before = others[0]
        if before is not None:
            taken.add(id(before))
        found.append((before, group[-1]))
    return found + [(t, None) for t in old_each.values() if id(t) not in taken]


def verdict(old, new, p_limit, least):
    """(word, old share, new share, change, p)."""
    a, b = shares(old), shares(new)
    before, after = statistics.median(a), statistics.median(b)
    change = after / before - 1
    p = mann_whitney(a, b)
    if p > p_limit or abs(change) < least:
        return "same", before, after, change, p
    return "faster" if change > 0 else "slower", before, after, change, p


def report(old, new, p_limit, least):
    """The lines to print, and how often each verdict was given."""
    lines = [f"{'verdict':8}{'old':>8}{'new':>8}{'change':>10}{'p':>8}  workload"]
    counts = {}
    for before, after in pairs(old["timings"], new["timings"]):
        name = name_of(after or before)
        if before is None or after is None:
            word = "new" if before is None else "gone"
            lines.append(f"{word:42}  {name}")
        else:
            word, a, b, change, p = verdict(before, after, p_limit, least)
            who = after["implementation"]
            if before["implementation"] != who:
                who = f"{before['implementation']} -> {who}"
            lines.append(f"{word:8}{a:8.3f}{b:8.3f}{100 * change:+9.1f}%{p:8.4f}"
                         f"  {name} ({who})")
        counts[word] = counts.get(word, 0) + 1
    lines.append(", ".join(f"{n} {word}" for word, n in counts.items())
                 or "nothing to compare")
    for what in ("name", "vector_target"):
        a, b = old["devices"][0].get(what), new["devices"][0].get(what)
        if a != b:
            lines.append(f"warning: the devices' {what} differ: {a}, {b}")
    for side in (old, new):
        if not side["build"]["for_speed"]:
            lines.append("warning: one of the builds is not for speed")
    return lines, counts


class Foreign(Exception):
    """A file that `flashacl bench --json` did not write."""


TIMING = {"title": str, "problem": str, "backend": str, "implementation": str,
          "threads": int, "flops": (int, float), "bytes": (int, float),
          "samples": list}
SAMPLE = ("seconds", "flops_roof", "bandwidth_roof")


def check(what, condition):
    if not condition:
        raise Foreign(what)


def read(path):
    """The content of one file, or Foreign with what is wrong in it."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except OSError as error:
        raise Foreign(error.strerror) from error
    except (ValueError, RecursionError) as error:
        raise Foreign(f"no JSON: {error}") from error
    try:
        check("no flag build.for_speed",
              isinstance(found["build"]["for_speed"], bool))
        check("no devices", isinstance(found["devices"][0], dict))
        for number, timing in enumerate(found["timings"]):
            for field, kind in TIMING.items():
                check(f"timing {number} has no proper {field}",
                      isinstance(timing[field], kind))
            check(f"timing {number} has no samples", timing["samples"])
            for sample in timing["samples"]:
                for field in SAMPLE:
                    check(f"timing {number} has a sample without {field}",
                          sample[field] > 0 and math.isfinite(sample[field]))
    except (KeyError, TypeError, IndexError) as error:
        raise Foreign(f"not of bench --json: {error!r}") from error
    return found


def main(arguments):
    parser = argparse.ArgumentParser(prog="flashacl compare",
                                     description=__doc__.split("\n\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--p", type=float, default=0.01,
                        help="the most likely chance that is not believed in")
    parser.add_argument("--least", type=float, default=0.03,
                        help="the least change that matters")
    options = parser.parse_args(arguments)
    both = []
    for path in (options.old, options.new):
        try:
            both.append(read(path))
        except Foreign as error:
            print(f"flashacl compare: {path}: {error}", file=sys.stderr)
            return 2
    lines, counts = report(*both, options.p, options.least)
    print("\n".join(lines))
    return 1 if counts.get("slower") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
