# SPDX-License-Identifier: Apache-2.0
"""bench/compare.py finds differences that are there, and none that are not."""

import contextlib
import io
import itertools
import json
import pathlib
import random
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import compare  # noqa: E402


def timing(problem, seconds, implementation="cpu/a", flops_roof=100.0):
    """10 FLOP and 10 bytes, on a machine of so much arithmetic, 20 bytes/s."""
    return {
        "title": "", "problem": problem, "backend": "cpu", "threads": 2,
        "implementation": implementation, "flops": 10.0, "bytes": 10.0,
        "samples": [{"seconds": s, "flops_roof": flops_roof,
                     "bandwidth_roof": 20.0} for s in seconds],
    }


def run(*timings, device="some processor"):
    return {"build": {"for_speed": True}, "timings": list(timings),
            "devices": [{"name": device, "vector_target": "AVX2"}]}


class Test(unittest.TestCase):
    def test_u_has_as_many_ways_as_there_are(self):
        for m, n in ((1, 1), (3, 4), (5, 5), (2, 6)):
            counts = [0] * (m * n + 1)
            for first in itertools.combinations(range(m + n), m):
                rest = [x for x in range(m + n) if x not in first]
                counts[sum(a < b for a in first for b in rest)] += 1
            self.assertEqual(compare.ways(m, n, m * n), counts)

    def test_known_values(self):
        # From tables: U = 2 for 5 and 5 values is the limit of 0.05.
        self.assertAlmostEqual(compare.exact_p(5, 5, 0), 2 / 252)
        self.assertAlmostEqual(compare.exact_p(5, 5, 2), 8 / 252)
        self.assertGreater(compare.exact_p(5, 5, 3), 0.05)
        self.assertEqual(compare.mann_whitney([1, 1], [1, 1]), 1)
        self.assertEqual(compare.mann_whitney([], [1]), 1)

    def test_both_ways_to_compute_agree(self):
        a = [float(x) for x in range(0, 40, 2)]
        for shift in (1, 5, 9, 15):
            b = [x + shift for x in a]
            u = min(sum(x < y for x in a for y in b),
                    sum(x > y for x in a for y in b))
            ties = [1] * 40
            self.assertAlmostEqual(compare.exact_p(20, 20, u),
                                   compare.normal_p(20, 20, u, ties), 1)

    def test_chance_is_as_likely_as_p_says(self):
        dice = random.Random(1)
        draw = lambda: [dice.gauss(0, 1) for _ in range(8)]
        found = sum(compare.mann_whitney(draw(), draw()) < 0.05
                    for _ in range(2000))
        self.assertLess(abs(found / 2000 - 0.05), 0.02)


class Verdicts(unittest.TestCase):
    FAST = [1.00, 1.01, 1.02, 1.03, 1.04]
    SLOW = [1.20, 1.21, 1.22, 1.23, 1.24]

    def counts(self, old, new):
        return compare.report(run(*old), run(*new), 0.01, 0.03)[1]

    def test_finds_both_directions(self):
        a, b = timing("x", self.FAST), timing("x", self.SLOW)
        self.assertEqual(self.counts([a], [b]), {"slower": 1})
        self.assertEqual(self.counts([b], [a]), {"faster": 1})
        self.assertEqual(self.counts([a], [a]), {"same": 1})

    def test_small_changes_do_not_matter(self):
        b = timing("x", [s * 1.02 + 0.0001 for s in self.FAST])
        self.assertEqual(self.counts([timing("x", self.FAST)], [b]),
                         {"same": 1})

    def test_a_busy_machine_is_no_slower_program(self):
        # Bound by arithmetic, of which there was half.
        a = timing("x", self.FAST, flops_roof=10.0)
        b = timing("x", [2 * s for s in self.FAST], flops_roof=5.0)
        self.assertEqual(self.counts([a], [b]), {"same": 1})

    def test_roof_is_what_takes_longer(self):
        self.assertEqual(compare.shares(timing("x", [2.0])), [0.25])
        self.assertEqual(compare.shares(timing("x", [2.0], flops_roof=10.0)),
                         [0.5])

    def test_says_what_came_and_went(self):
        old = [timing("x", self.FAST), timing("y", self.FAST)]
        new = [timing("x", self.FAST), timing("z", self.FAST)]
        self.assertEqual(self.counts(old, new),
                         {"same": 1, "new": 1, "gone": 1})

    def test_another_implementation_of_the_same_problem(self):
        a = timing("x", self.SLOW, "reference")
        b = timing("x", self.FAST, "kernel")
        lines, counts = compare.report(run(a), run(b), 0.01, 0.03)
        self.assertEqual(counts, {"faster": 1})
        self.assertIn("reference -> kernel", lines[1])
        # With several, each is compared with itself.
        self.assertEqual(self.counts([a, b], [a, b]), {"same": 2})
        self.assertEqual(self.counts([a], [a, b]), {"same": 1, "new": 1})

    def test_warns_of_other_machines(self):
        a = run(timing("x", self.FAST))
        b = run(timing("x", self.FAST), device="another one")
        lines, _ = compare.report(a, b, 0.01, 0.03)
        self.assertIn("another one", lines[-1])

    def test_command(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [str(pathlib.Path(folder) / n) for n in ("a", "b")]
            for path, seconds in zip(paths, (self.FAST, self.SLOW)):
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(run(timing("x", seconds)), file)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                self.assertEqual(compare.main(paths), 1)
                self.assertEqual(compare.main(paths[::-1]), 0)
            self.assertIn("slower", out.getvalue())

    def test_a_foreign_file_is_neither_slower_nor_equal(self):
        good = run(timing("x", self.FAST))
        # Nothing at all, no JSON, other JSON, parts that are missing or absurd.
        bad = ["", "{", "[]", "{}", "null", "[" * 100000,
               json.dumps({"build": {}, "timings": [], "devices": []}),
               json.dumps(run({"problem": "x"})),
               json.dumps(run(timing("x", []))),
               json.dumps(run(timing("x", [0.0]))),
               json.dumps(run(timing("x", ["1"])))]
        with tempfile.TemporaryDirectory() as folder:
            right, wrong = (str(pathlib.Path(folder) / n) for n in ("a", "b"))
            with open(right, "w", encoding="utf-8") as file:
                json.dump(good, file)
            for text in bad:
                with open(wrong, "w", encoding="utf-8") as file:
                    file.write(text)
                for paths in ((right, wrong), (wrong, right)):
                    err = io.StringIO()
                    with contextlib.redirect_stderr(err):
                        self.assertEqual(compare.main(list(paths)), 2, text)
                    self.assertIn(wrong, err.getvalue())
            err = io.StringIO()
            with contextlib.redirect_stderr(err):
                self.assertEqual(compare.main([right, folder + "/none"]), 2)
            self.assertIn("No such file", err.getvalue())


if __name__ == "__main__":
    unittest.main()
