# SPDX-License-Identifier: Apache-2.0
"""Attention of which a call before had the like: found before its arguments are
looked at, and yet refused where it is wrong."""

import itertools

import numpy as np
import pytest
import torch

import flashacl
from flashacl import calls


@pytest.fixture(autouse=True)
def nothing_kept():
    calls.forget()


def given(arrays):
    """q, k and v."""
    shapes = [(2, 3, 4, 16), (2, 5, 2, 16), (2, 5, 2, 16)]
    return [x.numpy() if arrays == "numpy" else x
            for x in (torch.randn(shape) for shape in shapes)]


def same(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("arrays", ["tensors", "numpy"])
def test_a_call_like_a_kept_one_is_checked(arrays):
    """What is no argument at all is refused as if nothing were kept."""
    q, k, v = given(arrays)
    wrong = [((q, k, v), {"layout": ["BSND"]}, ValueError),
             ((q, k, v), {"window_size": (1,)}, ValueError),
             ((q, k, v), {"softmax_scale": "1/4"}, ValueError),
             ((q[0], k, v), {}, ValueError),
             ((q[..., 0], k, v), {}, ValueError),
             ((q.sum(), k, v), {}, ValueError), ((q, k, v[0]), {}, Exception),
             ((q, k, k.tolist()), {}, TypeError)]

    def refusal(inputs, options, error):
        with pytest.raises(error) as raised:
            flashacl.attention(*inputs, **options)
        # What failed before, elsewhere, may follow.
        return type(raised.value), str(raised.value).split(" TraceBack")[0]
    expected = [refusal(*each) for each in wrong]
    out = flashacl.attention(q, k, v)
    assert [refusal(*each) for each in wrong] == expected
    assert calls.kept() == 1 and same(flashacl.attention(q, k, v), out)


@pytest.mark.parametrize("arrays", ["tensors", "numpy"])
def test_numbers_of_any_type_find_the_kept_call(arrays, monkeypatch):
    q, k, v = given(arrays)
    expected = flashacl.attention(q, k, v, softmax_scale=0.25, causal=True)
    monkeypatch.setattr(calls, "_Prepared", None)
    for scale, causal, window in itertools.product(
            (None, 0.25, np.float32(0.25), torch.tensor(0.25)), (True, 1),
            ((-1, -1), [None, 7], np.array([-1, 0]))):
        assert same(flashacl.attention(q, k, v, softmax_scale=scale,
                                       causal=causal, window_size=window),
                    expected)
