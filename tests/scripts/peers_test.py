#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers.py reads lines, takes turns, and says what peers do not have."""

import contextlib
import io
import json
import pathlib
import stat
import sys
import tempfile
import unittest
import unittest.mock

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import peers  # noqa: E402

LINE = "fwd bf16 h=8/2 d=64/32 q=2x3,5 k=2x7,5 paged:16 causal"


class Sleeper:
    """Takes 10 ms for everything but gradients, which it does not know."""

    def __init__(self, threads):
        self.name = f"sleeper of {threads}"
        self.calls = 0

    def prepare(self, problem):
        if problem.backward:
            raise peers.Unsupported("no gradients")

        def call():
            peers.time.sleep(0.01)
            self.calls += 1
        return call


def fake_tool(folder, code=0, says_words=False):
    """A flashacl whose bench takes 1 s for 2e9 FLOP; it may leave its words in
    a file of that name."""
    timing = {"timings": [{"flops": 2e9, "seconds": {"median": 1.0}}]}
    path = pathlib.Path(folder) / "flashacl"
    say = f'echo "$@" > {folder}/words\n' if says_words else ""
    path.write_text(f"#!/bin/sh\n{say}echo '{json.dumps(timing)}'\n"
                    f"exit {code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def run(*words, kinds):
    """The exit code, stdout and stderr of the script."""
    out, err = io.StringIO(), io.StringIO()
    before = peers.PEERS
    peers.PEERS = kinds
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = peers.main(list(words))
    finally:
        peers.PEERS = before
    return code, out.getvalue(), err.getvalue()


class Lines(unittest.TestCase):
    def test_all_fields(self):
        problem = peers.parse(LINE)
        self.assertEqual((problem.heads, problem.kv_heads), (8, 2))
        self.assertEqual((problem.channels, problem.value_channels), (64, 32))
        self.assertEqual((problem.q, problem.k), ([3, 3, 5], [7, 7, 5]))
        self.assertTrue(problem.causal)
        self.assertFalse(problem.backward)

    def test_what_peers_do_not_have(self):
        for word in ("sink", "topk:8", "int8:channel", "window:3:0", "mask"):
            with self.assertRaisesRegex(peers.Unsupported, word.split(":")[0]):
                peers.parse(f"fwd f32 h=2 d=8 q=4 k=4 {word}")
        with self.assertRaisesRegex(peers.Unsupported, "rope"):
            peers.parse("fwd f32 h=2 d=8+4/8 q=4 k=4")


class Turns(unittest.TestCase):
    def test_table(self):
        backward = LINE.replace("fwd", "bwd")
        with tempfile.TemporaryDirectory() as folder:
            words = ["--tool", fake_tool(folder), "--threads", "3",
                     "--seconds", "0", "--turns", "2", "--", LINE, backward]
            code, out, _ = run(*words, kinds={"sleeper": Sleeper})
        self.assertEqual(code, 0)
        rows = [row.split(" | ") for row in out.splitlines()[2:]]
        self.assertEqual(rows[0][:2], ["| " + LINE, "sleeper of 3"])
        self.assertEqual(rows[0][3], "2")
        theirs = float(rows[0][2])
        self.assertTrue(20 <= theirs <= 200, theirs)  # 2 GFLOP in 10 ms or more
        self.assertAlmostEqual(float(rows[0][4].rstrip(" |")), 2 / theirs,
                               delta=0.006)
        self.assertEqual(rows[1][2], "no gradients")

    def test_target_is_that_of_both(self):
        seen = {}

        def peer(threads):
            seen.update(peers.os.environ)
            return Sleeper(threads)
        with tempfile.TemporaryDirectory() as folder:
            tool = fake_tool(folder, says_words=True)
            words = ["--tool", tool, "--seconds", "0", "--turns", "1",
                     "--target", "AVX2", "--", LINE]
            with unittest.mock.patch.dict(peers.os.environ):
                self.assertEqual(run(*words, kinds={"sleeper": peer})[0], 0)
            said = pathlib.Path(folder, "words").read_text()
        self.assertIn("--target AVX2", said)
        self.assertEqual(seen["ATEN_CPU_CAPABILITY"], "avx2")

    def test_json(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ["--tool", fake_tool(folder), "--seconds", "0", "--turns",
                     "1", "--json", "-", "--", LINE]
            code, out, _ = run(*words, kinds={"sleeper": Sleeper})
        self.assertEqual(code, 0)
        self.assertEqual(json.loads(out)[0]["own_flops_per_second"], 2e9)

    def test_wrong_answers_of_ours_end_it(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ["--tool", fake_tool(folder, code=1), "--", LINE]
            with self.assertRaises(SystemExit):
                run(*words, kinds={"sleeper": Sleeper})

    def test_no_peers(self):
        def missing(threads):
            raise ImportError
        code, out, err = run(LINE, kinds={"torch": missing})
        self.assertEqual((code, out), (1, ""))
        self.assertIn("has no torch", err)


if __name__ == "__main__":
    unittest.main()
