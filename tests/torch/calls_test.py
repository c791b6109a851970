# SPDX-License-Identifier: Apache-2.0
"""Calls that a thread keeps: run again at other addresses they have the bits of
a call that was prepared for these, whatever the arguments are."""

import gc
import itertools
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
import torch

import flashacl
from flashacl import calls
from flashacl.plain import dispatch


def draw(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


@pytest.fixture(autouse=True)
def nothing_kept():
    calls.forget()


def nothing_prepared(monkeypatch):
    """From here on a call that is not kept fails."""
    monkeypatch.setattr(calls, "_Prepared", None)


def same(a, b):
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b) or torch.equal(a.isnan(), b.isnan()) and \
            torch.equal(a.nan_to_num(), b.nan_to_num())
    return a is b or np.array_equal(a, b)


def dense(layout="BSND", heads=4, rows=3, keys=5, dtype=torch.float32):
    shapes = [(2, rows, heads, 16), (2, keys, 2, 16), (2, keys, 2, 16)]
    if layout == "BNSD":
        shapes = [(a, c, b, d) for a, b, c, d in shapes]
    return [draw(*shape, dtype=dtype) for shape in shapes]


def attend(**options):
    """A call, and what draws its arguments."""
    layout = options.get("layout", "BSND")

    def call(q, k, v, *more):
        return flashacl.attention(q, k, v, **options,
                                  **dict(zip(("mask", "sink"), more)))
    return call, lambda: dense(layout)


def with_options():
    def call(q, k, v, mask, bias, sink):
        return flashacl.attention(q, k, v, mask=mask, bias=bias, sink=sink,
                                  return_lse=True)
    return call, lambda: [*dense(), torch.rand(3, 5) < 0.7, draw(4, 3, 5),
                          draw(4)]


def slopes():
    def call(q, k, v, slopes):
        return flashacl.flash_attn_func(q, k, v, alibi_slopes=slopes,
                                        causal=True)
    return call, lambda: [*dense(rows=5), torch.rand(4)]


def strided():
    def call(qkv):
        return flashacl.flash_attn_qkvpacked_func(qkv, causal=True)
    return call, lambda: [draw(2, 7, 3, 4, 16)]


def packed():
    def call(q, k, v):
        return flashacl.flash_attn_varlen_func(
            q, k, v, torch.tensor([0, 2, 6]), torch.tensor([0, 4, 9]),
            causal=True, return_attn_probs=True)
    return call, lambda: [draw(6, 4, 16), draw(9, 2, 16), draw(9, 2, 16)]


def cache(paged):
    def call(q, k, v):
        table = torch.tensor([[2, 0], [1, 3]]).int() if paged else None
        rows = None if paged else [1, 0]
        return flashacl.flash_attn_with_kvcache(
            q, k, v, cache_seqlens=[7, 12], block_table=table,
            cache_batch_idx=rows, causal=True, return_softmax_lse=True)
    page = 16
    half = torch.float16
    return call, lambda: [draw(2, 1, 4, 32, dtype=half),
                          draw(4, page, 2, 32, dtype=half),
                          draw(4, page, 2, 32, dtype=half)]


def listed():
    def call(q, k, v, indices):
        return flashacl.topk_attention(q, k, v, indices, return_lse=True)
    return call, lambda: [
        draw(1, 4, 2, 512, dtype=torch.float16),
        *(draw(1, 9, 1, 512, dtype=torch.float16) for _ in range(2)),
        torch.stack([torch.randperm(9)[:3] for _ in range(4)]).int()[
            None, :, None]]


def merged():
    def call(*parts):
        return flashacl.merge_states(parts[:2], parts[2:])
    return call, lambda: [draw(3, 2, 16), draw(3, 2, 16), draw(3, 2),
                          draw(3, 2)]


def gradients():
    def call(q, k, v):
        inputs = [x.detach().requires_grad_() for x in (q, k, v)]
        out = flashacl.attention(*inputs, causal=True)
        return torch.autograd.grad(out, inputs, torch.ones_like(out))
    return call, dense


def with_dropout():
    def call(q, k, v):
        return flashacl.attention(q, k, v, dropout_p=0.5, seed=7)
    return call, dense


CALLS = {
    "dense": attend(), "lse": attend(return_lse=True),
    "causal": attend(causal=True), "window": attend(window_size=(2, 1)),
    "BNSD": attend(layout="BNSD"), "options": with_options(),
    "slopes": slopes(), "strided": strided(), "packed": packed(),
    "cache": cache(False), "pages": cache(True), "listed": listed(),
    "merged": merged(), "gradients": gradients()}


@pytest.mark.parametrize("arrays", ["tensors", "numpy"])
@pytest.mark.parametrize("name", CALLS)
def test_a_kept_call_has_a_fresh_ones_bits(name, arrays, monkeypatch):
    """At other addresses, with other contents; and what the first call returned
    stays as it was."""
    call, arguments = CALLS[name]
    if arrays == "numpy" and name == "gradients":
        pytest.skip("NumPy's arrays have none")
    as_given = (lambda x: x.numpy()) if arrays == "numpy" else (lambda x: x)
    first, second = ([as_given(x) for x in arguments()] for _ in range(2))
    fresh = []
    for given in (first, second):
        calls.forget()
        fresh.append(call(*given))
    nothing_prepared(monkeypatch)
    again = [call(*first), call(*second), call(*first)]
    assert same(again[0], fresh[0]) and same(again[2], fresh[0])
    assert same(again[1], fresh[1])
    assert not same(fresh[0], fresh[1])


def variants():
    """Calls of which no two are the same."""
    half = torch.float16
    q, k, v = dense()
    yield from ((q, k, v, {}), (q[:, :2], k, v, {}),
                (q, k[:, :4], v[:, :4], {}), (q, k, v[..., :8], {}),
                (q[..., :8], k[..., :8], v[..., :8], {}),
                (q[:1], k[:1], v[:1], {}), (q, q, q, {}),
                (q.half(), k.half(), v.half(), {}),
                (q.bfloat16(), k.bfloat16(), v.bfloat16(), {}))
    turned = q.transpose(1, 2).contiguous().transpose(1, 2)
    yield turned, k, v, {}
    yield q, draw(2, 2, 5, 16).transpose(1, 2), v, {}
    for options in ({"softmax_scale": 0.5}, {"softmax_scale": 0.0},
                    {"softmax_scale": -0.0}, {"softmax_scale": 1},
                    {"causal": True}, {"window_size": (1, 0)},
                    {"window_size": (0, 1)}, {"window_size": (-1, 1)},
                    {"return_lse": True}, {"layout": "BNSD"},
                    {"dropout_p": 0.5, "seed": 1},
                    {"dropout_p": 0.5, "seed": 2},
                    {"dropout_p": 0.25, "seed": 2}):
        yield (q, k, v, options) if "layout" not in options else \
            (q, q, q, options)
    for shape in ((3, 5), (2, 1, 3, 5), (4, 3, 5)):
        yield q, k, v, {"mask": torch.rand(shape) < 0.7}
        yield q, k, v, {"bias": draw(*shape)}
    yield q.half(), k.half(), v.half(), {"bias": draw(3, 5, dtype=half)}
    for shape in ((4,), (2, 4)):
        yield q, q, q, {"alibi_slopes": torch.rand(shape)}
    yield q, k, v, {"sink": draw(4)}
    yield q, k, v, {"sink": draw(8)[::2]}


@pytest.mark.parametrize("arrays", ["tensors", "numpy", "dispatched"])
def test_calls_that_differ_in_anything_are_not_confused(arrays, monkeypatch):
    """The operator's calls have keys of another kind."""
    if arrays == "dispatched":
        monkeypatch.setattr(dispatch, "asked", lambda *_: dispatch.ALL)

    def call(q, k, v, options):
        if arrays == "numpy":
            q, k, v, *more = (x.numpy() if isinstance(x, torch.Tensor) else x
                              for x in (q, k, v, *options.values()))
            options = dict(zip(options, more))
        return flashacl.attention(q, k, v, **options)
    all_of_them = [v for v in variants() if arrays != "numpy" or
                   v[0].dtype != torch.bfloat16]
    expected = []
    for given in all_of_them:
        calls.forget()
        expected.append(call(*given))
    calls.forget()
    # In every order of two: what one leaves the other would find.
    for i, j in itertools.permutations(range(len(all_of_them)), 2):
        if (i + j) % 5 == 0 or abs(i - j) == 1:
            for one in (i, j):
                assert same(call(*all_of_them[one]), expected[one]), (i, j)


def test_lengths_are_of_the_key():
    """Those that C is told by value, by which a call was planned."""
    q, k = draw(6, 4, 16), draw(9, 2, 16)
    half = [x.half() for x in (draw(2, 1, 4, 32), *[draw(2, 20, 2, 32)] * 2)]
    packed_calls = [([0, 2, 6], [0, 4, 9]), ([0, 3, 6], [0, 4, 9]),
                    ([0, 2, 6], [0, 5, 9]), ([0, 6], [0, 9])]
    lengths = [[3, 20], [20, 3], [0, 5], [20, 20]]
    many = draw(9, 40, 2, 32, dtype=torch.float16)
    caches = [many, many[:, :20], many[:, ::2], many[::2], many.bfloat16()]

    def all_of_them(before):
        for a, b in packed_calls:
            before()
            yield flashacl.flash_attn_varlen_func(
                q, k, k, torch.tensor(a), torch.tensor(b), causal=True)
        for each in lengths:
            before()
            yield flashacl.flash_attn_with_kvcache(*half, cache_seqlens=each)
        for each in caches:
            before()
            yield flashacl.flash_attn_with_kvcache(
                half[0].to(each.dtype), each, each, cache_seqlens=[7, 9],
                cache_batch_idx=[3, 1])
    expected = list(all_of_them(calls.forget))
    for _ in range(2):
        assert same(list(all_of_them(lambda: None)), expected)


@pytest.mark.parametrize("arrays", ["tensors", "numpy"])
def test_types_are_of_the_key(arrays):
    """Where shapes and bytes are the same; a type that is refused still is."""
    as_given = (lambda x: x.numpy()) if arrays == "numpy" else (lambda x: x)
    x = draw(1, 2, 2, 16)
    expected = flashacl.attention(*[as_given(x)] * 3)
    with pytest.raises(flashacl.Error, match="type"):
        flashacl.attention(*[as_given(x.view(torch.int32))] * 3)
    assert same(flashacl.attention(*[as_given(x)] * 3), expected)


def test_one_array_may_be_several_arguments(monkeypatch):
    x, (q, k, v) = draw(1, 3, 2, 16), (draw(1, 3, 2, 16) for _ in range(3))
    expected = flashacl.attention(q, k, v)
    calls.forget()
    together = flashacl.attention(x, x, x)
    nothing_prepared(monkeypatch)
    assert same(flashacl.attention(q, k, v), expected)
    assert same(flashacl.attention(x, x, x), together)


def test_nothing_of_a_few_rows_statistics_reaches_other_calls():
    """Without return_lse they lie with the kept call; with it they are new."""
    q, k, v = dense()
    other = dense()
    out, lse = flashacl.attention(q, k, v, return_lse=True)
    kept = lse.clone()
    for _ in range(2):
        assert same(flashacl.attention(q, k, v), out)
        flashacl.attention(*other)
        flashacl.attention(*other, return_lse=True)
    assert same(lse, kept)
    many = [draw(1, 700, 2, 8), *[draw(1, 3, 2, 8)] * 2]
    assert same(flashacl.attention(*many),
                flashacl.attention(*many, return_lse=True)[0])


def prepared_alive():
    gc.collect()
    return sum(type(x) is calls._Prepared for x in gc.get_objects())


def test_the_oldest_go_first_and_are_freed(monkeypatch):
    before = prepared_alive()
    q = draw(1, 1, 2, 16)
    keys = [draw(1, n, 2, 16) for n in range(1, 2 * calls.KEPT_CALLS)]
    expected = [flashacl.attention(q, k, k) for k in keys]
    assert calls.kept() == calls.KEPT_CALLS
    assert prepared_alive() - before == calls.KEPT_CALLS
    oldest = len(keys) - calls.KEPT_CALLS
    assert same(flashacl.attention(q, keys[oldest], keys[oldest]),
                expected[oldest])
    flashacl.attention(q, keys[0], keys[0])  # the second oldest goes
    nothing_prepared(monkeypatch)
    for i in (oldest, *range(oldest + 2, len(keys)), 0):
        assert same(flashacl.attention(q, keys[i], keys[i]), expected[i])
    for i in (1, oldest + 1):
        with pytest.raises(TypeError):
            flashacl.attention(q, keys[i], keys[i])


def test_what_takes_much_memory_is_not_kept(monkeypatch):
    few, many = (draw(n, 1, 1, 8) for n in (calls.KEPT_NUMBERS,
                                            calls.KEPT_NUMBERS + 1))
    flashacl.attention(many, many, many)
    assert calls.kept() == 0
    flashacl.attention(few, few, few)
    assert calls.kept() == 1
    ends = torch.arange(calls.KEPT_NUMBERS + 1)
    flashacl.flash_attn_varlen_func(few[:, 0], few[:, 0], few[:, 0], ends, ends)
    assert calls.kept() == 1
    monkeypatch.setattr(calls, "KEPT_BYTES", 0)
    flashacl.attention(few[:3], few[:3], few[:3])
    assert calls.kept() == 1 and calls._thread().workspace is None


def test_seeds_do_not_fill_the_table():
    q, k, v = dense()
    outs = [flashacl.attention(q, k, v, dropout_p=0.5, seed=seed)
            for seed in range(9)]
    assert calls.kept() == 1
    assert not any(same(a, b) for a, b in zip(outs, outs[1:]))


# Failures.

def test_a_call_that_fails_is_not_kept(monkeypatch):
    q, k, v = dense()
    with pytest.raises(flashacl.Error):
        flashacl.attention(q, k, v[:, :3])
    assert calls.kept() == 0
    expected = flashacl.attention(q, k, v)
    assert calls.kept() == 1
    for method in ("move", "run"):
        def fail(*_):
            raise KeyboardInterrupt
        with monkeypatch.context() as patch:
            patch.setattr(calls._Prepared, method, fail)
            with pytest.raises(KeyboardInterrupt):
                flashacl.attention(*dense())
        assert calls.kept() == 0
        assert same(flashacl.attention(q, k, v), expected)


def test_the_library_refuses_a_run_that_is_then_prepared_anew(monkeypatch):
    q, k, v = dense()
    expected = flashacl.attention(q, k, v)
    prepared, = calls._thread().calls.values()
    prepared.execute = lambda *_: 161001
    with pytest.raises(flashacl.Error, match="161001"):
        flashacl.attention(q, k, v)
    assert calls.kept() == 0
    assert same(flashacl.attention(q, k, v), expected)


def test_a_finaliser_may_call_amid_a_call(monkeypatch):
    """With the same shapes, and on the same stream."""
    q, k, v = dense()
    others = dense()
    inner = flashacl.attention(*others)
    expected = flashacl.attention(q, k, v)
    run, found = calls._Prepared.run, []

    def with_another(prepared, mine):
        if not found:
            found.append(None)
            found[0] = flashacl.attention(*others)
        run(prepared, mine)
    monkeypatch.setattr(calls._Prepared, "run", with_another)
    assert same(flashacl.attention(q, k, v), expected)
    assert same(found[0], inner)
    assert calls.kept() == 1


# Threads and processes.

def test_threads_keep_their_own():
    inputs = [dense() for _ in range(4)]
    expected = [flashacl.attention(*each) for each in inputs]
    wrong, tables = [], []

    def work(i):
        assert calls.kept() == 0
        for n in range(200):
            each = (i + n) % len(inputs)
            if not same(flashacl.attention(*inputs[each]), expected[each]):
                wrong.append((i, n))
        tables.append(weakref.ref(calls._thread()))
        assert calls.kept() == 1
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(tables) == 4
    gc.collect()
    assert not any(table() for table in tables)  # gone with their threads


def run_program(program, **settings):
    done = subprocess.run([sys.executable, "-c", program], timeout=600,
                          capture_output=True, text=True, check=False,
                          env={**os.environ, **settings})
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


# Without PyTorch, which says things of its own at the end.
PROGRAM = """
import os, numpy as np, flashacl
from flashacl import calls
x = np.arange(64, dtype=np.float32).reshape(1, 2, 2, 16) / 64
expected = flashacl.attention(x, x, x)
"""


def test_a_child_keeps_its_own():
    """The parent's executors are left alone, in both."""
    run_program(PROGRAM + """
kept = calls._thread()
child = os.fork()
y = x.copy()
assert calls.kept() == (0 if child == 0 else 1)
for _ in range(3):
    assert np.array_equal(flashacl.attention(y, y, y), expected)
assert (calls._thread() is kept) == (child != 0)
if child == 0: os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert np.array_equal(flashacl.attention(x, x, x), expected)
""")


def test_strict_mode_keeps_nothing():
    """Its memory is announced for each call, and nothing is found."""
    run_program(PROGRAM + """
for _ in range(3):
    assert np.array_equal(flashacl.attention(x, x, x), expected)
assert calls.kept() == 0
""", FLASHACL_STRICT="exit")


def test_a_program_ends_in_silence():
    """Whatever outlives the module's names."""
    run_program(PROGRAM + """
mine = calls._thread()
kept = list(mine.calls.values())
for name in ("os", "ctypes", "threading"):
    delattr(calls, name)
""")


def test_every_run_is_recorded(tmp_path):
    """With the arrays that it was about."""
    run_program(PROGRAM + """
for i in range(3):
    x = x + 1
    flashacl.attention(x, x, x)
assert calls.kept() == 1
""", FLASHACL_RECORD=str(tmp_path))
    recorded = [path.read_text() for path in (tmp_path / "calls").iterdir()]
    assert len(recorded) == 4
    # The bytes of x, and what is like x: every row of the result.
    assert len(list((tmp_path / "tensors").iterdir())) >= 4
