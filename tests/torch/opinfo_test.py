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
NAMES = sorted({op.name for op in opinfo.database.op_db} - USED)
OTHERS = set(NAMES[::20])


def cases():
    for op, dtype, values in opinfo.cases(opinfo.exceptions()):
        if dtype in (TYPES if op.name in USED else TYPES[:1]) and \
                op.name in USED | OTHERS:
            yield pytest.param(op, dtype, values, id=f"{opinfo.name_of(op)}-"
                               f"{opinfo.short(dtype)}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op, dtype, values", list(cases()))
def test_operator_gives_the_cpus_bits(op, dtype, values):
    assert opinfo.check(op, dtype, limit=6, values=values) is None


def test_results_go_on_where_they_stopped(tmp_path):
    """What ended is not run again; what did not is, but not for ever."""
    path = tmp_path / "results"
    first = opinfo.Results(path)
    first.add("abs float32", opinfo.BEGUN)
    first.add("abs float32", opinfo.SAME)
    first.add("add float32", opinfo.BEGUN)
    second = opinfo.Results(path)
    assert second.found == {"abs float32": opinfo.SAME}
    second.add("add float32", opinfo.BEGUN)
    third = opinfo.Results(path)
    assert third.found["add float32"] == "ended the process twice"


def test_other_values_are_seen_unless_they_may_be_others():
    a = torch.ones(3)
    assert opinfo.different([a], [2 * a.npu()], "result") == \
        "result 0: other values"
    assert opinfo.different([a], [2 * a.npu()], "result", False) is None
    assert "strides" in opinfo.different(
        [torch.ones(2, 2)], [torch.ones(2, 2).t().npu()], "result", False)
