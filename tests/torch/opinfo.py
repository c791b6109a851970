# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own database of operators, run on npu tensors: results, and
gradients, must be the bits that the CPU gives. As a program it runs all, for
an hour:
  python tests/torch/opinfo.py [--results FILE] [--only NAME ...]
                               [--dtype float32 ...]
FILE gets a line for each operator and type as it comes; with the same FILE the
program goes on where it was stopped, or where an operator ended it."""

import argparse
import collections
import pathlib
import signal
import sys
import time

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


def different(cpu, npu, what, values=True):
    """Why two results are not the same, or None; `values` may be others."""
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
        if values and not same_bits(a, b.cpu()):
            return f"{what} {i}: other values"
    return None


def same_bits(a, b):
    """Whether values are equal, and NaN where the other is."""
    a, b = a.detach().resolve_conj(), b.detach().resolve_conj()
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if a.is_floating_point():
        if a.element_size() == 1:  # which have no operators of their own
            a, b = a.float(), b.float()
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


def check_sample(op, sample, values):
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
    return different(cpu[0], npu[0], "result", values) or \
        different(cpu[1], npu[1], "gradient", values)


def check(op, dtype, limit=None, values=True):
    """Why an operator fails with its samples of a dtype, or None. Without
    `values`, types, shapes and strides are compared."""
    grad = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    samples = op.sample_inputs("cpu", dtype, requires_grad=grad)
    for i, sample in enumerate(samples):
        if limit is not None and i >= limit:
            break
        why = check_sample(op, sample, values)
        if why is not None:
            return f"sample {i}: {why}"
    return None


FACTORIES = {"linspace", "logspace"}


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


def exception(known, op, dtype):
    """The reason, or None."""
    name = name_of(op)
    return known.get((name, short(dtype))) or known.get((name, "*"))


def cases(known):
    """(operator, type, whether values are compared) of all that are run."""
    for op in database.op_db:
        for dtype in sorted(op.supported_dtypes("cpu"), key=str):
            reason = exception(known, op, dtype)
            if reason is None or reason.startswith("values: "):
                yield op, dtype, reason is None


SAME, BEGUN = "same", "begun"


class Results:
    """What the cases gave, also those of runs before, in a file that grows by
    one line when a case begins and one when it ends."""

    def __init__(self, path):
        self.found, self.begun = {}, collections.Counter()
        self.file = None
        if path is None:
            return
        if path.exists():
            for line in path.read_text().splitlines():
                case, result = line.split(": ", 1)
                if result == BEGUN:
                    self.begun[case] += 1
                else:
                    self.found[case] = result
        self.file = path.open("a")
        # Once may be the end of the machine, or of somebody's patience.
        for case, times in self.begun.items():
            if times > 1 and case not in self.found:
                self.add(case, "ended the process twice")

    def add(self, case, result):
        if result != BEGUN:
            self.found[case] = result
        if self.file is not None:
            print(f"{case}: {result}", file=self.file, flush=True)


def limited(op, dtype, limit, values):
    """What check() says, in the time that an operator has."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return check(op, dtype, limit, values)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {str(error)[:160]}".replace("\n", " ")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="names of operators")
    parser.add_argument("--dtype", nargs="*", help="names of types")
    parser.add_argument("--limit", type=int, help="of samples of each")
    parser.add_argument("--minutes", type=float, help="after which to stop")
    parser.add_argument("--results", type=pathlib.Path)
    return parser.parse_args()


def main():
    options = arguments()
    signal.signal(signal.SIGPROF, _alarm)
    end = time.monotonic() + 60 * (options.minutes or float("inf"))
    results = Results(options.results)
    chosen = [(op, dtype, values) for op, dtype, values in cases(exceptions())
              if (not options.only or op.name in options.only)
              and (not options.dtype or short(dtype) in options.dtype)]
    wanted = [f"{name_of(op)} {short(dtype)}" for op, dtype, _ in chosen]
    for case, (op, dtype, values) in zip(wanted, chosen):
        if case in results.found or time.monotonic() > end:
            continue
        results.add(case, BEGUN)
        why = limited(op, dtype, options.limit, values)
        results.add(case, why or SAME)
        if why is not None:
            print(f"{case}: {why}", flush=True)
    found = [results.found[case] for case in wanted if case in results.found]
    bad = len(found) - found.count(SAME)
    print(f"{found.count(SAME)} are the CPU's bits, {bad} are not, "
          f"{len(wanted) - len(found)} have not run")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
