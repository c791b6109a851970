# SPDX-License-Identifier: Apache-2.0
"""Calls of attention that the bridge makes in the adapter's place, with what it
keeps of the last ones: the adapter's bits, its errors, its order on streams;
and the adapter itself for all that is out of the ordinary."""

import contextlib
import re
import threading

import pytest
import torch
import torch_npu
from flashacl.bridge import _C

import reference

# Before, PyTorch does not give out the adapter's kernels.
pytestmark = pytest.mark.skipif(
    torch.torch_version.TorchVersion(torch.__version__) < (2, 9),
    reason="PyTorch before 2.9: every call is the adapter's")

HALF, BF16, FLOAT = torch.float16, torch.bfloat16, torch.float32


@contextlib.contextmanager
def by_the_adapter():
    before = _C.set_keeping(False)
    try:
        yield
    finally:
        _C.set_keeping(before)


def again():
    """How many kept calls this thread has run again."""
    return _C.kept_counts()[1]


def draw(*shape, dtype=FLOAT):
    return torch.randn(*shape).to(dtype).npu()


def triangle(size=2048):
    return torch.ones(size, size, dtype=torch.bool).triu(1).npu()


def the_same(got, expected):
    """Bits, shapes, strides, types and devices; numbers and what is not there."""
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        if not isinstance(b, torch.Tensor):
            assert a == b and type(a) is type(b)
            continue
        assert (a.shape, a.stride(), a.dtype, a.device) == \
            (b.shape, b.stride(), b.dtype, b.device)
        assert torch.equal(a.cpu().view(torch.uint8), b.cpu().view(torch.uint8))


def outputs(result):
    return result if isinstance(result, (tuple, list)) else (result,)


def check(call, kept=True):
    """The adapter's results twice: of a first call and of one that is kept."""
    with by_the_adapter():
        expected = outputs(call())
    the_same(outputs(call()), expected)
    before = again()
    the_same(outputs(call()), expected)
    assert kept is None or again() - before == (1 if kept else 0)


def dense(layout, dtype, rows=9, keys=9, heads=4, kv_heads=2, dim=16, batch=2):
    shape = reference.TO_LAYOUT[layout]
    return [shape(draw(batch, n, s, dim, dtype=dtype)).contiguous()
            for n, s in ((heads, rows), (kv_heads, keys), (kv_heads, keys))]


# npu_fusion_attention.

@pytest.mark.parametrize("layout", reference.TO_LAYOUT)
@pytest.mark.parametrize("dtype", [FLOAT, HALF, BF16])
@pytest.mark.parametrize("rows", [1, 9])
def test_layouts_and_types(layout, dtype, rows):
    q, k, v = dense(layout, dtype, rows)
    check(lambda: torch_npu.npu_fusion_attention(q, k, v, 4, layout,
                                                 scale=0.25))


MASKS = {
    "whole": lambda: {"atten_mask": (torch.rand(2, 1, 9, 9) > 0.6).npu()},
    "bytes": lambda: {"atten_mask": (torch.rand(9, 9) > 0.6).byte().npu()},
    "band": lambda: {"atten_mask": triangle(9), "pre_tockens": 3,
                     "next_tockens": 1},
    "all": lambda: {"atten_mask": triangle(9), "sparse_mode": 1},
    "left": lambda: {"atten_mask": triangle(), "sparse_mode": 2},
    "right": lambda: {"atten_mask": triangle(), "sparse_mode": 3},
    "both": lambda: {"atten_mask": triangle(), "sparse_mode": 4,
                     "pre_tockens": 3, "next_tockens": 2},
    "prefix": lambda: {"atten_mask": (torch.rand(2, 1, 9, 9) > 0.6).npu(),
                       "sparse_mode": 5, "prefix": [4, 2]},
    "bias": lambda: {"pse": draw(2, 4, 9, 9)},
    "precise": lambda: {"inner_precise": 1},
}


@pytest.mark.parametrize("mask", MASKS)
def test_masks_and_biases(mask):
    q, k, v = dense("BNSD", FLOAT)
    options = MASKS[mask]()
    check(lambda: torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD", scale=0.25,
                                                 **options))


@pytest.mark.parametrize("mode", [0, 3])
def test_packed_sequences(mode):
    q, k, v = draw(17, 4, 16), draw(37, 2, 16), draw(37, 2, 16)
    options = {"atten_mask": triangle(), "sparse_mode": 3} if mode else {}
    for ends in ([5, 16, 17], [5, 5, 17], [0, 0, 17]):
        check(lambda: torch_npu.npu_fusion_attention(
            q, k, v, 4, "TND", scale=0.25, actual_seq_qlen=ends,
            actual_seq_kvlen=(5, 17, 37), **options))


def test_values_of_fewer_channels():
    q, k, _ = dense("BSH", HALF)
    v = draw(2, 9, 2 * 8, dtype=HALF)
    check(lambda: torch_npu.npu_fusion_attention(q, k, v, 4, "BSH"))


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_the_second_version(kind):
    q, k, v = dense("BNSD", FLOAT)
    pse = draw(2, 4, 9, 9) if kind < 2 else draw(4).abs()
    for starts in (None, [2]) if kind > 1 else (None,):
        check(lambda: torch_npu.npu_fusion_attention_v2(
            q, k, v, 4, "BNSD", pse=pse, pse_type=kind, q_start_idx=starts,
            kv_start_idx=starts and [1], scale=0.25))
    flat, mask = dense("BSH", BF16), triangle()
    check(lambda: torch_npu.npu_fusion_attention_v2(
        *flat, 4, "BSH", atten_mask=mask, sparse_mode=2))
    q, k, v = draw(17, 4, 16), draw(37, 2, 16), draw(37, 2, 16)
    check(lambda: torch_npu.npu_fusion_attention_v2(
        q, k, v, 4, "TND", scale=0.25, actual_seq_qlen=[5, 17],
        actual_seq_kvlen=[5, 37], atten_mask=mask, sparse_mode=3))
    rope = draw(17, 4, 16, dtype=BF16), draw(37, 2, 16, dtype=BF16)
    q, k, v = (x.bfloat16() for x in (q, k, v))
    check(lambda: torch_npu.npu_fusion_attention_v2(
        q, k, v, 4, "TND", query_rope=rope[0], key_rope=rope[1], scale=0.25,
        actual_seq_qlen=[5, 17], actual_seq_kvlen=[5, 37], atten_mask=mask,
        sparse_mode=3), kept=False)


def test_views():
    """Parts of one tensor, from an offset, with strides."""
    both = draw(2, 2, 8, 3, 16)
    q, k, v = both[:, :, 2:].unbind(3)
    check(lambda: torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD"))
    check(lambda: torch_npu.npu_fusion_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), 2, "BSND"))


def test_what_differs_is_another_call():
    """-0 and 0, a layout of the same shape, another mode, another type."""
    q, k, v = (draw(1, 4, 4, 16) for _ in range(3))
    mask = (torch.rand(4, 4) > 0.5).npu()
    calls = [dict(input_layout="BNSD"), dict(input_layout="BSND"),
             dict(input_layout="BNSD", scale=0.0),
             dict(input_layout="BNSD", scale=-0.0),
             dict(input_layout="BNSD", atten_mask=mask),
             dict(input_layout="BNSD", atten_mask=mask.byte()),
             dict(input_layout="BNSD", atten_mask=mask, next_tockens=0)]
    for options in calls:
        check(lambda: torch_npu.npu_fusion_attention(q, k, v, 4, **options))


def test_more_kinds_than_are_kept():
    kept = []
    for keys in range(1, 80):
        q, k, v = dense("BNSD", FLOAT, rows=1, keys=keys)
        check(lambda: torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD"))
        kept.append(_C.kept_counts()[0])
    assert max(kept) == kept[-1] == 64


def test_inference_mode_and_no_gradients():
    q, k, v = dense("BNSD", FLOAT)
    for mode in (torch.inference_mode, torch.no_grad):
        with mode():
            check(lambda: torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD"))


def test_scaled_dot_product_attention():
    q, k, v = (draw(2, 4, 9, 16) for _ in range(3))
    check(lambda: torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True))


# Gradients.

@pytest.mark.parametrize("layout", reference.TO_LAYOUT)
@pytest.mark.parametrize("dtype", [FLOAT, BF16])
def test_gradients(layout, dtype):
    inputs = [t.requires_grad_() for t in dense(layout, dtype)]
    options = {"atten_mask": triangle(), "sparse_mode": 2, "scale": 0.25}

    def call(whole=True):
        out = torch_npu.npu_fusion_attention(*inputs, 4, layout, **options)[0]
        dy = torch.ones_like(out) if whole else \
            torch.ones((), dtype=dtype).npu().expand_as(out)
        return torch.autograd.grad(out, inputs, dy)
    for whole in (True, False):
        with by_the_adapter():
            expected = call(whole)
        the_same(call(whole), expected)
        before = again()
        the_same(call(whole), expected)
        assert again() - before == 1  # backward is another thread's


def test_gradient_by_hand():
    q, k, v = dense("BNSD", FLOAT)
    dy = draw(2, 4, 9, 16)
    out = torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD", scale=0.25)

    def call():
        return torch_npu.npu_fusion_attention_grad(
            q, k, v, dy, 4, "BNSD", softmax_max=out[1], softmax_sum=out[2],
            attention_in=out[0], scale_value=0.25)
    with by_the_adapter():
        expected = call()
    # What has no gradient is empty or not there, as the adapter has it.
    check(lambda: [g for g in call() if g is not None and g.numel()])
    for a, b in zip(call(), expected):
        assert (a is None) == (b is None)
        assert a is None or a.shape == b.shape


def test_later_changes_of_saved_tensors_are_noticed():
    for _ in range(2):
        x = draw(1, 2, 8, 16).requires_grad_() * 1
        out = torch_npu.npu_fusion_attention(x, x, x, 2, "BNSD")[0]
        x.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            out.sum().backward()


# Inference.

FORMS = {
    "BSH": lambda n, s, d: (2, s, n * d),
    "BSND": lambda n, s, d: (2, s, n, d),
    "BNSD": lambda n, s, d: (2, n, s, d),
    "BNSD_BSND": lambda n, s, d: (2, n, s, d),
}


@pytest.mark.parametrize("layout", FORMS)
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("lse", [False, True])
def test_fused_inference(layout, rows, lse):
    form = FORMS[layout]
    q = draw(*form(4, rows, 16), dtype=HALF)
    k, v = (draw(*form(2, 9, 16), dtype=HALF) for _ in range(2))
    for lengths in (None, [9, 4]):
        check(lambda: torch_npu.npu_fused_infer_attention_score(
            q, k, v, num_heads=4, num_key_value_heads=2, scale=0.25,
            input_layout=layout, softmax_lse_flag=lse,
            actual_seq_lengths_kv=lengths))


@pytest.mark.parametrize("flat", [False, True])
def test_fused_inference_with_pages(flat):
    shape = (8, 16, 2 * 64) if flat else (8, 2, 16, 64)
    k, v = (draw(*shape, dtype=BF16) for _ in range(2))
    table = torch.tensor([[6, 1, 4], [3, 0, 0]], dtype=torch.int32).npu()
    q = draw(2, 4, 64, dtype=BF16)
    for lengths in ([37, 5], [38, 6]):
        check(lambda: torch_npu.npu_fused_infer_attention_score(
            q, k, v, block_table=table, input_layout="TND", block_size=16,
            num_heads=4, num_key_value_heads=2, scale=0.125,
            actual_seq_lengths=[1, 2], actual_seq_lengths_kv=lengths,
            atten_mask=triangle().byte(), sparse_mode=3))


@pytest.mark.parametrize("layout", ["BSH", "BSND", "BNSD"])
def test_prompt_and_token(layout):
    form = FORMS[layout]
    q = draw(*form(4, 9, 16), dtype=HALF)
    k, v = (draw(*form(4, 9, 16), dtype=HALF) for _ in range(2))
    check(lambda: torch_npu.npu_prompt_flash_attention(
        q, k, v, num_heads=4, input_layout=layout, scale_value=0.25,
        pre_tokens=65535, next_tokens=65535, actual_seq_lengths=[9, 9],
        actual_seq_lengths_kv=[9, 7]))
    check(lambda: torch_npu.npu_prompt_flash_attention(
        q, k, v, num_heads=4, input_layout=layout, scale_value=0.25,
        atten_mask=triangle(), sparse_mode=2))
    token = draw(*form(4, 1, 16), dtype=HALF)
    for lengths in (None, [9, 3]):
        check(lambda: torch_npu.npu_incre_flash_attention(
            token, k, v, num_heads=4, input_layout=layout, scale_value=0.25,
            actual_seq_lengths=lengths))


# What stays the adapter's.

def test_dropout():
    q, k, v = dense("BNSD", FLOAT)

    def call():
        torch.npu.manual_seed(3)
        return torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD",
                                              keep_prob=0.7)
    check(call, kept=False)
    assert torch.npu.default_generators[0].get_offset() > 0


def test_no_random_numbers_are_drawn_without_dropout():
    q, k, v = dense("BNSD", FLOAT)
    torch.npu.manual_seed(3)
    for _ in range(2):
        result = torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD")
        assert result[4:] == (0, 0, 2 * 4 * 9 * 9)
    assert torch.npu.default_generators[0].get_offset() == 0


def test_sinks_and_orders_of_statistics():
    q, k, v = dense("BNSD", BF16)
    sink = draw(4)
    check(lambda: torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD", sink=sink),
          kept=False)
    q, k, v = (x[0].transpose(0, 1).contiguous() for x in (q, k, v))
    check(lambda: torch_npu.npu_fusion_attention(
        q, k, v, 4, "TND", actual_seq_qlen=[9], actual_seq_kvlen=[9],
        softmax_layout="TND"), kept=False)


def test_longer_lists_than_are_kept():
    ends = list(range(1, 101))
    q = draw(100, 2, 16)
    check(lambda: torch_npu.npu_fusion_attention(
        q, q, q, 2, "TND", actual_seq_qlen=ends, actual_seq_kvlen=ends),
        kept=False)


def test_profiles_see_the_adapters_calls():
    q, k, v = dense("BNSD", FLOAT)
    with torch.profiler.profile():
        check(lambda: torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD"),
              kept=False)
    check(lambda: torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD"))


def test_captured_streams():
    q, k, v = dense("BNSD", HALF)

    def call():
        return torch_npu.npu_fused_infer_attention_score(
            q, k, v, num_heads=4, num_key_value_heads=2, input_layout="BNSD")[0]
    check(call)
    torch.npu.synchronize()
    graph, before = torch.npu.NPUGraph(), again()
    with torch.npu.graph(graph):
        out = call()
    assert again() == before
    q.copy_(torch.randn(q.shape))
    graph.replay()
    torch.npu.synchronize()
    assert torch.equal(out.cpu(), call().cpu())


# Errors.

def said(call):
    with pytest.raises(RuntimeError) as error:
        call()
    # Without dates and numbers of processes, which head some lines.
    return re.sub(r"\d{4}-\d\d-\d\d-[\d:.]+|PID:? ?\d+", "",
                  str(error.value))


def test_errors_are_the_adapters():
    q, k, v = (draw(1, 2, 8, 16) for _ in range(3))
    wrong = [
        lambda: torch_npu.npu_fusion_attention(q, k, v, 3, "BNSD"),
        lambda: torch_npu.npu_fusion_attention(q, k.half(), v, 2, "BNSD"),
        lambda: torch_npu.npu_fusion_attention(q, k.cpu(), v, 2, "BNSD"),
        lambda: torch_npu.npu_fusion_attention(q, k, v, 2, "BNDS"),
        lambda: torch_npu.npu_fusion_attention(q, k[:, :, :, :8], v, 2, "BNSD"),
        lambda: torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD",
                                               sparse_mode=9),
        lambda: torch_npu.npu_fusion_attention(
            q, k, v, 2, "BNSD", atten_mask=torch.ones(3, 3).bool().npu()),
        lambda: torch_npu.npu_fusion_attention(q, k, v, 2, "TND"),
        lambda: torch_npu.npu_fusion_attention(q, k, v, 0, "BNSD"),
        lambda: torch_npu.npu_fusion_attention_v2(q, k, v, 2, "BNSD",
                                                  pse_type=7),
        lambda: torch_npu.npu_fusion_attention_v2(q, k, v, 3, "BNSD"),
        lambda: torch_npu.npu_fusion_attention_grad(
            q, k, v, v, 2, "BNSD", softmax_max=q, softmax_sum=q,
            attention_in=q),
        lambda: torch_npu.npu_prompt_flash_attention(
            q.half(), k.half(), v.half(), num_heads=3, input_layout="BNSD"),
        lambda: torch_npu.npu_fused_infer_attention_score(
            q.half(), k.half(), v.half(), num_heads=2, input_layout="XYZ"),
    ]
    with by_the_adapter():
        said(wrong[0])  # also tells what failed before
    for call in wrong:
        with by_the_adapter():
            expected = said(call)
        kept = _C.kept_counts()
        assert said(call) == expected
        assert _C.kept_counts() == kept
    check(lambda: torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD"))


# Order.

def test_launches_take_their_addresses_along():
    """Behind long work on the stream: calls of one kind with different tensors
    have not begun when the next one is made."""
    long = draw(2, 8, 700, 64)
    sets = [dense("BNSD", FLOAT, rows=1, keys=40) for _ in range(30)]

    def call(q, k, v):
        return torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD")[0]
    expected = [call(*one).cpu() for one in sets]
    torch_npu.npu_fusion_attention(long, long, long, 8, "BNSD")
    got = [call(*one) for one in sets]
    torch.npu.synchronize()
    for a, b in zip(got, expected):
        assert torch.equal(a.cpu(), b)


def test_streams_and_events():
    """On another stream, behind an event of work on the first."""
    long, side = draw(2, 8, 700, 64), torch.npu.Stream()

    def chain():
        out = torch_npu.npu_fusion_attention(long, long, long, 8, "BNSD")[0]
        event = torch.npu.Event()
        event.record()
        with torch.npu.stream(side):
            event.wait()
            row = out[:, :, :1]
            second = torch_npu.npu_fusion_attention(row, out, long, 8,
                                                    "BNSD")[0]
        torch.npu.current_stream().wait_stream(side)
        third = torch_npu.npu_fusion_attention(second, out, out, 8, "BNSD")[0]
        torch.npu.synchronize()
        return third
    check(chain, kept=None)


def test_memory_is_given_back():
    q, k, v = dense("BNSD", FLOAT)

    def call():
        return torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD")
    call()
    torch.npu.synchronize()
    before = torch.npu.memory_allocated()
    for _ in range(100):
        call()
    assert torch.npu.memory_allocated() == before


def test_threads_keep_their_own():
    q, k, v = dense("BNSD", FLOAT)
    expected = torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD")[0].cpu()
    found = []

    def work():
        start = _C.kept_counts()
        same = all(torch.equal(torch_npu.npu_fusion_attention(
            q, k, v, 4, "BNSD")[0].cpu(), expected) for _ in range(50))
        found.append((start, _C.kept_counts(), same))
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [((0, 0), (1, 49), True)] * 3
