# SPDX-License-Identifier: Apache-2.0
"""FlashInfer's functions against the definition: shapes, masks, windows, and
logarithms to base 2, on tensors and on NumPy's arrays."""

import pytest
import torch

import flashacl.flashinfer as flashinfer
import reference


def attended(q, k, v, shown):
    """(result, logarithms to base 2) of (S, N, D)."""
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    scale = q.shape[-1] ** -0.5
    out = reference.attend(q, k, v, scale, ~shown).transpose(0, 1)
    k = k.repeat_interleave(q.shape[0] // k.shape[0], 0)
    scores = (scale * q @ k.transpose(1, 2)).masked_fill(~shown, -torch.inf)
    return out, torch.logsumexp(scores, -1).T / torch.tensor(2.0).log()


def shown_by(rows, keys, left=-1, right=-1):
    distance = torch.arange(keys) - torch.arange(rows)[:, None] - keys + rows
    shown = torch.ones(rows, keys, dtype=torch.bool)
    if left >= 0:
        shown &= distance >= -left
    if right >= 0:
        shown &= distance <= right
    return shown


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize("options, left, right", [
    ({}, -1, -1), ({"causal": True}, -1, 0),
    ({"causal": True, "window_left": 3}, 3, 0)])
def test_single_prefill(layout, as_array, options, left, right):
    q, k, v = (torch.randn(n, h, 32) for n, h in ((6, 4), (9, 2), (9, 2)))
    given = [q, *(x.transpose(0, 1) if layout == "HND" else x for x in (k, v))]
    if as_array:
        given = [x.numpy() for x in given]
    out, lse = flashinfer.single_prefill_with_kv_cache(
        *given, kv_layout=layout, return_lse=True, **options)
    reference.check([torch.as_tensor(x) for x in (out, lse)],
                    attended(q, k, v, shown_by(6, 9, left, right)),
                    torch.float32)


def test_custom_masks_and_single_decode():
    q, k, v = (torch.randn(n, h, 32) for n, h in ((6, 4), (9, 2), (9, 2)))
    mask = torch.rand(6, 9) < 0.7
    mask[:, 0] = True
    out = flashinfer.single_prefill_with_kv_cache(
        q, k, v, custom_mask=mask.flatten(), causal=True)
    reference.check([out], [attended(q, k, v, mask)[0]], torch.float32)
    out, lse = flashinfer.single_decode_with_kv_cache(
        q[0], k, v, window_left=4, return_lse=True)
    expected = attended(q[:1], k, v, shown_by(1, 9, 4))
    reference.check([out, lse], [x[0] for x in expected], torch.float32)


def test_merging():
    q, k, v = (torch.randn(n, 4, 32) for n in (6, 9, 9))
    parts = [flashinfer.single_prefill_with_kv_cache(
        q, k[s], v[s], return_lse=True)
        for s in (slice(0, 2), slice(2, 9))]
    expected = attended(q, k, v, shown_by(6, 9))
    reference.check(flashinfer.merge_state(*parts[0], *parts[1]), expected,
                    torch.float32)
    stacked = [torch.stack(x, 1) for x in zip(*parts)]
    reference.check(flashinfer.merge_states(*stacked), expected, torch.float32)
    arrays = flashinfer.merge_states(*(x.numpy() for x in stacked))
    reference.check([torch.from_numpy(x) for x in arrays], expected,
                    torch.float32)


@pytest.mark.parametrize("together", [False, True])
def test_decoding_from_pages(together):
    page, lengths = 4, [9, 1, 8]
    cache = torch.randn(8, 2, page, 2, 32).half()
    pages = [[3, 0, 6], [7], [1, 5]]
    q = torch.randn(3, 4, 32).half()
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper()
    wrapper.plan(torch.tensor([0, 3, 4, 6]), torch.tensor(sum(pages, [])),
                 torch.tensor([1, 1, 4]), 4, 2, 32, page)
    given = cache if together else tuple(
        x.contiguous() for x in cache.unbind(1))
    out, lse = wrapper.run(q, given, return_lse=True)
    for b, length in enumerate(lengths):
        k, v = (cache[pages[b], i].flatten(0, 1)[:length] for i in (0, 1))
        expected = attended(q[b:b + 1], k, v, shown_by(1, length))
        reference.check([out[b], lse[b]], [x[0] for x in expected],
                        torch.float16)


def test_what_is_not_there_is_refused_by_name():
    q = torch.randn(2, 2, 8)
    for options, name in (({"logits_soft_cap": 30.0}, "logits_soft_cap"),
                          ({"pos_encoding_mode": "ROPE_LLAMA"}, "ROPE_LLAMA"),
                          ({"scale_k": 2.0}, "scales")):
        with pytest.raises(NotImplementedError, match=name):
            flashinfer.single_prefill_with_kv_cache(q, q, q, **options)
    with pytest.raises(ValueError, match="kv_layout DHN"):
        flashinfer.single_decode_with_kv_cache(q[0], q, q, "DHN")
