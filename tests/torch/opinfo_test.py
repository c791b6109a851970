# SPDX-License-Identifier: Apache-2.0
"""A part of what `python tests/torch/opinfo.py` runs whole: the operators that
attention programs call, and every twentieth of the others."""

import pytest
import torch

import opinfo

USED = {
    "abs", "add", "addcdiv", "addcmul", "addmm", "all", "amax", "any",
    "argmax", "argsort", "as_strided", "bmm", "cat", "chunk", "clamp", "clone",
    "contiguous", "cos", "cumsum", "div", "einsum", "eq", "exp", "expand",
    "fill", "flatten", "gather", "ge", "gt", "index_add", "index_copy",
    "index_fill", "index_put", "index_select", "isfinite", "isinf", "isnan",
    "le", "lerp", "log", "log_softmax", "logical_and", "logical_not",
    "logsumexp", "lt", "masked_fill", "masked_scatter", "masked_select",
    "matmul", "max", "maximum", "mean", "min", "mm", "mul", "narrow", "ne",
    "neg", "nn.functional.cross_entropy", "nn.functional.embedding",
    "nn.functional.gelu", "nn.functional.group_norm",
    "nn.functional.layer_norm", "nn.functional.linear",
    "nn.functional.mse_loss", "nn.functional.nll_loss", "nn.functional.pad",
    "nn.functional.relu", "nn.functional.rms_norm", "nn.functional.silu",
    "nn.functional.softmax", "nonzero", "norm", "ones", "outer", "permute",
    "pow", "reciprocal", "repeat", "repeat_interleave", "reshape", "roll",
    "rsqrt", "scatter", "scatter_add", "select", "sigmoid", "sin", "slice",
    "softmax", "sort", "split", "sqrt", "squeeze", "stack", "sub", "sum",
    "tanh", "to", "topk", "transpose", "tril", "triu", "unbind", "unflatten",
    "unique", "unsqueeze", "var", "view", "where", "zeros", "zeros_like"}
TYPES = (torch.float32, torch.bfloat16, torch.int64)
OTHERS = [op for op in opinfo.operators() if op.name not in USED][::20]


def cases():
    known = opinfo.exceptions()
    for op in opinfo.operators():
        if op.name not in USED and op not in OTHERS:
            continue
        for dtype in TYPES if op.name in USED else TYPES[:1]:
            name = opinfo.name_of(op)
            if dtype in op.supported_dtypes("cpu") and \
                    (name, "*") not in known:
                yield pytest.param(op, dtype,
                                   id=f"{name}-{opinfo.short(dtype)}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op, dtype", list(cases()))
def test_operator_gives_the_cpus_bits(op, dtype):
    assert opinfo.check(op, dtype, limit=6) is None
