# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own database of operators, run on npu tensors: results, and
gradients, must be the bits that the CPU gives. As a program it runs all:
  python tests/torch/opinfo.py [--only NAME ...] [--dtype float32 ...]"""

import argparse
import pathlib
import signal
import sys

import torch
from torch.testing._internal import common_methods_invocations as database
from torch.utils._pytree import tree_flatten, tree_map

# What no operator may take of a processor.
SECONDS = 60
EXCEPTIONS = pathlib.Path(__file__).with_name("opinfo_exceptions.txt")


class Slow(Exception):
    pass


def _alarm(*_):
    raise Slow("took too long")


def to_npu(tree):
    """The same with npu tensors, which share no memory with these."""
    def one(x):
        if not isinstance(x, torch.Tensor):
            named = isinstance(x, (str, torch.device)) and str(x) == "cpu"
            return torch.device("npu") if named else x
        y = x.detach().npu()
        if y.stride() != x.stride() and x.layout == torch.strided:
            y = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype,
                                    device="npu").copy_(x.detach())
        return y.requires_grad_(x.requires_grad)
    return tree_map(one, tree)


def to_cpu(tree):
    def one(x):
        return x.detach().clone().requires_grad_(x.requires_grad) if \
            isinstance(x, torch.Tensor) else x
    return tree_map(one, tree)


def tensors(tree):
    return [x for x in tree_flatten(tree)[0] if isinstance(x, torch.Tensor)]


def different(cpu, npu, what):
    """Why two results are not the same, or None."""
    if len(cpu) != len(npu):
        return f"{what}: {len(npu)} tensors, expected {len(cpu)}"
    for i, (a, b) in enumerate(zip(cpu, npu)):
        if b.device.type != "npu":
            return f"{what} {i}: is on {b.device}"
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{what} {i}: {b.dtype} {tuple(b.shape)}, expected " \
                f"{a.dtype} {tuple(a.shape)}"
        if a.stride() != b.stride():
            return f"{what} {i}: strides {b.stride()}, expected {a.stride()}"
        if not same_bits(a, b.cpu()):
            return f"{what} {i}: other values"
    return None


def same_bits(a, b):
    """Whether values are equal, and NaN where the other is."""
    a, b = a.detach().resolve_conj(), b.detach().resolve_conj()
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if a.is_floating_point():
        return torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) and \
            torch.equal(a.isnan(), b.isnan())
    return torch.equal(a, b)


def run(op, sample, device):
    """(results, gradients) of one sample on its own copy of the inputs."""
    convert = to_npu if device == "npu" else to_cpu
    args = convert((sample.input, sample.args, sample.kwargs))
    torch.manual_seed(5)
    if not tensors(args) or op.name in FACTORIES:
        args[2]["device"] = device
    result = op(args[0], *args[1], **args[2])
    if sample.output_process_fn_grad is not None:
        wanted = sample.output_process_fn_grad(result)
    else:
        wanted = result
    results = tensors(result)
    with_grad = [r for r in tensors(wanted) if r.requires_grad]
    inputs = [x for x in tensors(args) if x.requires_grad]
    grads = []
    if with_grad and inputs:
        grads = torch.autograd.grad(
            with_grad, inputs, [torch.ones_like(r) for r in with_grad],
            allow_unused=True)
    return results, [g for g in grads if g is not None]


def check_sample(op, sample):
    """Why a sample fails, or None. What the CPU refuses proves nothing."""
    try:
        cpu = run(op, sample, "cpu")
    except Slow:
        raise
    except Exception:  # noqa: BLE001 - samples may be wrong on purpose
        return None
    try:
        npu = run(op, sample, "npu")
    except Slow:
        raise
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
    return different(cpu[0], npu[0], "result") or \
        different(cpu[1], npu[1], "gradient")


def check(op, dtype, limit=None):
    """Why an operator fails with its samples of a dtype, or None."""
    grad = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    samples = op.sample_inputs("cpu", dtype, requires_grad=grad)
    for i, sample in enumerate(samples):
        if limit is not None and i >= limit:
            break
        why = check_sample(op, sample)
        if why is not None:
            return f"sample {i}: {why}"
    return None


# Their bits come from the device's generator, not from the CPU's.
RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal",
    "multinomial", "nn.functional.alpha_dropout", "nn.functional.dropout",
    "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "nn.functional.rrelu", "normal",
    "pca_lowrank", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "svd_lowrank", "uniform", "bfloat16", "randperm",
    "nn.functional.multi_head_attention_forward"}
FACTORIES = {"linspace", "logspace"}
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided",
                 "new_empty", "new_empty_strided"}


def name_of(op):
    variant = op.variant_test_name
    return op.name + (f".{variant}" if variant else "")


def short(dtype):
    return str(dtype).removeprefix("torch.")


def exceptions():
    """{(operator, type or "*"): why its bits are others}."""
    found = {}
    for line in EXCEPTIONS.read_text().splitlines():
        if line and not line.startswith("#"):
            key, reason = line.split(": ", 1)
            found[tuple(key.split(" "))] = reason
    return found


def operators():
    """All whose bits do not come from a generator or from nowhere."""
    return [op for op in database.op_db
            if op.name not in RANDOM | UNINITIALISED]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--dtype", nargs="*")
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    signal.signal(signal.SIGPROF, _alarm)
    known = exceptions()
    good = bad = 0
    for op in operators():
        if options.only and op.name not in options.only:
            continue
        for dtype in sorted(op.supported_dtypes("cpu"), key=str):
            if options.dtype and short(dtype) not in options.dtype:
                continue
            name = name_of(op)
            if (name, "*") in known or (name, short(dtype)) in known:
                continue
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                why = check(op, dtype, options.limit)
            except Exception as error:  # noqa: BLE001
                why = f"{type(error).__name__}: {str(error)[:160]}"
            signal.setitimer(signal.ITIMER_PROF, 0)
            good, bad = good + (why is None), bad + (why is not None)
            if why is not None:
                print(f"{name} {short(dtype)}: {why}", flush=True)
    print(f"{good} are the CPU's bits, {bad} are not")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
