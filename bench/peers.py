#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast other libraries compute the same problems, in turns with FlashACL.

A peer is a class with a name and prepare(problem), which returns a call that
computes the problem once, or raises Unsupported. Its answer is compared with
fp64 before it is timed. A turn is one `flashacl bench` of the problem and then
the same seconds of each peer, so that whatever else the machine does happens to
all; a ratio is the median over turns of ours over theirs, in FLOP/s."""

import argparse
import dataclasses
import json
import os
import re
import statistics
import subprocess
import sys
import time


class Unsupported(Exception):
    """A peer has no such computation."""


@dataclasses.dataclass
class Problem:
    """What peers understand of a line. Pages are left out: rows of peers lie
    together, which is no harder."""
    line: str
    backward: bool
    dtype: str
    heads: int
    kv_heads: int
    channels: int
    value_channels: int
    q: list  # rows of each sequence
    k: list
    causal: bool = False


def lengths(text):
    """2x33,7 as [33, 33, 7]."""
    every = []
    for part in text.split(","):
        count, _, length = part.rpartition("x")
        every += [int(length)] * int(count or 1)
    return every


def pair(text):
    """8/2 as (8, 2), 8 as (8, 8)."""
    first, _, second = text.partition("/")
    return int(first), int(second or first)


# Words that do not change what a peer computes.
IGNORED = re.compile(r"paged:\d+|list|stats|lse|innerprecise:\d+")


def parse(line):
    """The problem of a line; Unsupported where it says more than peers know."""
    direction, dtype, *words = line.split()
    fields = dict(word.split("=", 1) for word in words if "=" in word)
    rest = [w for w in words if "=" not in w and not IGNORED.fullmatch(w)]
    for word in rest:
        if word != "causal":
            raise Unsupported(f"no {word}")
    if "+" in fields["d"]:
        raise Unsupported("no rope that lies apart")
    channels, value_channels = pair(fields["d"])
    return Problem(line, direction == "bwd", dtype, *pair(fields["h"]),
                   channels, value_channels, lengths(fields["q"]),
                   lengths(fields["k"]), "causal" in rest)


class Torch:
    """torch.nn.functional.scaled_dot_product_attention, a call for all
    sequences of one size."""

    def __init__(self, threads):
        # Ascend's adapter, if it is there, would ask for its libraries.
        os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
        import torch
        self.torch = torch
        if threads:
            torch.set_num_threads(threads)
        self.name = "torch " + torch.__version__.partition("+")[0]

    def prepare(self, problem):
        torch = self.torch
        dtype = {"f32": torch.float32, "f16": torch.float16,
                 "bf16": torch.bfloat16}[problem.dtype]
        sizes = {}
        for size in zip(problem.q, problem.k):
            sizes[size] = sizes.get(size, 0) + 1
        torch.manual_seed(1)
        calls = [self.group(problem, dtype, count, q, k)
                 for (q, k), count in sizes.items()]
        return lambda: [call() for call in calls]

    def group(self, problem, dtype, count, q_rows, k_rows):
        torch = self.torch

        def operand(heads, rows, channels):
            return torch.randn(count, heads, rows, channels, dtype=dtype,
                               requires_grad=problem.backward)

        q = operand(problem.heads, q_rows, problem.channels)
        k = operand(problem.kv_heads, k_rows, problem.channels)
        v = operand(problem.kv_heads, k_rows, problem.value_channels)
        options = {"enable_gqa": problem.heads != problem.kv_heads}
        if problem.causal and q_rows == k_rows:
            options["is_causal"] = True
        elif problem.causal and q_rows > 1:
            seen = torch.ones(q_rows, k_rows, dtype=torch.bool)
            options["attn_mask"] = seen.tril(k_rows - q_rows)

        def forward():
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, **options)

        self.check(problem, q, k, v, forward())
        if not problem.backward:
            return forward
        out = forward()
        gradient = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, (q, k, v), gradient,
                                           retain_graph=True)

    def check(self, problem, q, k, v, out):
        """The last row of the last head, which sees every key."""
        torch = self.torch
        head = problem.kv_heads - 1
        row, keys, values = (t.detach().double() for t in
                             (q[-1, -1, -1], k[-1, head], v[-1, head]))
        weights = torch.softmax(keys @ row / problem.channels**0.5, 0)
        error = (out[-1, -1, -1].double() - weights @ values).abs().max()
        if not error <= {"f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}[problem.dtype]:
            raise Unsupported(f"a wrong answer, off by {error:.2g}")


PEERS = {"torch": Torch}


def seconds_of(call, seconds):
    """The median time of a call that is repeated for so long, after one that
    nobody times."""
    call()
    times = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def ours(line, options):
    """One bench of ours: FLOP of the problem, and the seconds they take."""
    words = [options.tool, "bench", line, "--json", "-", "--repetitions", "3",
             "--seconds", str(options.seconds)]
    if options.threads:
        words += ["--threads", str(options.threads)]
    if options.target:
        words += ["--target", options.target]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(run.stderr.strip() or f"flashacl bench failed: {line}")
    timings = json.loads(run.stdout)["timings"]
    if not timings:
        raise Unsupported("not timed")
    return timings[0]["flops"], timings[0]["seconds"]["median"]


def compare(line, peers, options):
    """A row of the table for each peer, in turns."""
    calls, rows = {}, []
    for peer in peers:
        try:
            calls[peer.name] = peer.prepare(parse(line))
        except Unsupported as reason:
            rows.append({"problem": line, "peer": peer.name,
                         "reason": str(reason)})
    if not calls:
        return rows
    turns = []
    for _ in range(options.turns):
        flops, own = ours(line, options)
        turns.append({"flops": flops, "own": own, **{
            name: seconds_of(call, options.seconds)
            for name, call in calls.items()}})
    for name in calls:
        rows.append({
            "problem": line, "peer": name,
            "own_flops_per_second":
                statistics.median(t["flops"] / t["own"] for t in turns),
            "flops_per_second":
                statistics.median(t["flops"] / t[name] for t in turns),
            "ratio": statistics.median(t[name] / t["own"] for t in turns)})
    return rows


def table(rows):
    """Markdown, as docs/benchmarks.md has it."""
    text = ["| problem | peer | its GFLOP/s | FlashACL | times |",
            "|---|---|---|---|---|"]
    for row in rows:
        if "reason" in row:
            text.append("| {problem} | {peer} | {reason} | | |".format(**row))
        else:
            text.append("| {} | {} | {:.4g} | {:.4g} | {:.2f} |".format(
                row["problem"], row["peer"], row["flops_per_second"] / 1e9,
                row["own_flops_per_second"] / 1e9, row["ratio"]))
    return "\n".join(text)


# What limits PyTorch and its libraries, read when they are loaded, to the
# instructions of a target of ours. AVX3 is whatever they find.
LIMITS = {
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
             "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "SSE4": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41",
             "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
}

# Where nothing else is asked for.
LINES = """fwd f32 h=32/8 d=128 q=2048 k=2048
fwd f32 h=32/8 d=128 q=2048 k=2048 causal
fwd bf16 h=32/8 d=128 q=2048 k=2048
fwd bf16 h=32/8 d=128 q=2048 k=2048 causal
fwd bf16 h=32 d=64 q=1024 k=1024 causal
bwd f32 h=16 d=128 q=1024 k=1024 causal
bwd bf16 h=16 d=128 q=1024 k=1024 causal
bwd bf16 h=16 d=64 q=1024 k=1024
fwd bf16 h=32/8 d=128 q=8x1 k=8x8192""".splitlines()


def found_peers(options):
    """Those that this Python has."""
    peers = []
    for name, make in PEERS.items():
        try:
            peers.append(make(options.threads))
        except ImportError:
            print(f"peers: {sys.executable} has no {name}", file=sys.stderr)
    return peers


def main(arguments):
    parser = argparse.ArgumentParser(prog="flashacl peers",
                                     description=__doc__.partition("\n")[0])
    parser.add_argument("lines", nargs="*", metavar="LINE")
    parser.add_argument("--tool", default="flashacl", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=0, metavar="N")
    parser.add_argument("--target", default="", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=0.5, metavar="X",
                        help="of each peer in a turn (0.5)")
    parser.add_argument("--turns", type=int, default=5, metavar="N")
    parser.add_argument("--json", metavar="FILE|-")
    options = parser.parse_args(arguments)
    os.environ.update(LIMITS.get(options.target, {}))
    peers = found_peers(options)
    if not peers:
        print("peers: nothing to compare with; --python names a Python that "
              "has torch, as make torch installs one", file=sys.stderr)
        return 1
    rows = []
    lines = options.lines or LINES
    for n, line in enumerate(lines):
        print(f"peers: {n + 1}/{len(lines)} {line}", file=sys.stderr)
        rows += compare(line, peers, options)
    if options.json == "-":
        print(json.dumps(rows, indent=1))
        return 0
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
