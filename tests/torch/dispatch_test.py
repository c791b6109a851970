# SPDX-License-Identifier: Apache-2.0
"""Calls without PyTorch's dispatcher: the same bits, and never where something
of PyTorch has to see the operator."""

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import flashacl
from flashacl.plain import dispatch, on_tensors


def draw(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def inputs():
    return [draw(1, 4, 2, 16) for _ in range(3)]


def operators():
    """Every operator on its own: (its name, a call); the first is kept."""
    q, k, v = inputs()
    flashacl.attention(q, k, v)
    half = [x.half() for x in (q, k, v)]
    wide = [draw(1, 4, n, 512, dtype=torch.float16) for n in (2, 1, 1)]
    ends = torch.tensor([0, 1, 4])
    return [
        ("attention", lambda: flashacl.attention(q, k, v)),
        ("attention", lambda: flashacl.attention(q, k, v, return_lse=True)),
        ("attention", lambda: flashacl.attention(
            q, k, v, mask=torch.ones(4, 4, dtype=torch.bool), sink=draw(2))),
        ("attention", lambda: flashacl.attention(q, k, v, dropout_p=0.5,
                                                 seed=3)),
        ("attention", lambda: flashacl.flash_attn_varlen_func(
            q[0], k[0], v[0], ends, ends)),
        ("cached_attention", lambda: flashacl.flash_attn_with_kvcache(
            *half, cache_seqlens=3, return_softmax_lse=True)),
        ("topk_attention", lambda: flashacl.topk_attention(
            *wide, torch.zeros(1, 4, 1, 2).int())),
        ("merge_states", lambda: flashacl.merge_states([q, k],
                                                       [q[..., 0], k[..., 0]]))]


@pytest.fixture
def dispatched(monkeypatch):
    """Names of the operators that were dispatched."""
    names = []
    for name in ("attention", "cached_attention", "topk_attention",
                 "merge_states"):
        def note(*arguments, name=name, operator=getattr(on_tensors, name)):
            names.append(name)
            return operator(*arguments)
        monkeypatch.setattr(on_tensors, name, note)
    return names


def test_the_same_bits_without_it(dispatched, monkeypatch):
    for name, call in operators():
        torch.manual_seed(1)
        alone = call()
        assert not dispatched
        with monkeypatch.context() as patch:
            patch.setattr(dispatch, "asked", lambda *_: dispatch.ALL)
            torch.manual_seed(1)
            expected = call()
        assert dispatched == [name]
        dispatched.clear()
        for a, b in zip(*(x if isinstance(x, tuple) else (x,)
                          for x in (alone, expected))):
            assert torch.equal(a, b)


# Options of attention, and how many inputs have gradients.
DIFFERENTIATED = {
    "none": dict,
    "bias": lambda: {"bias": draw(1, 2, 4, 4)},
    "mask": lambda: {"mask": torch.rand(4, 4) > 0.3, "causal": True},
    "dropout": lambda: {"dropout_p": 0.5, "seed": 3},
    "lse": lambda: {"return_lse": True},
}


def differentiated(inputs, options, wanted):
    """The result and its gradients of the inputs of which they are wanted."""
    given = [x.clone().requires_grad_(x_wanted)
             for x, x_wanted in zip(inputs, wanted)]
    bias = options.get("bias")
    if bias is not None:
        options = {**options, "bias": bias.clone().requires_grad_()}
        given.append(options["bias"])
    out = flashacl.attention(*given[:3], **options)
    if isinstance(out, tuple):
        assert not out[1].requires_grad
        out = out[0]
    out.backward(torch.arange(16.).expand(out.shape))
    return [out, *(x.grad for x in given)]


@pytest.mark.parametrize("options", DIFFERENTIATED)
@pytest.mark.parametrize("wanted", [(True, True, True), (True, False, False),
                                    (False, False, True)])
def test_gradients_are_those_of_the_operator(options, wanted, dispatched,
                                             monkeypatch):
    tensors, options = inputs(), DIFFERENTIATED[options]()
    alone = differentiated(tensors, options, wanted)
    assert not dispatched
    monkeypatch.setattr(dispatch, "asked", lambda *_: dispatch.ALL)
    expected = differentiated(tensors, options, wanted)
    assert dispatched == ["attention"]
    for a, b in zip(alone, expected):
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a, b)


def test_gradients_of_parameters(dispatched):
    half = [x.half() for x in inputs()]
    sink = torch.nn.Parameter(draw(2))
    flashacl.attention(*half, sink=sink).sum().backward()
    assert sink.grad.abs().sum() > 0
    with torch.no_grad():
        assert not flashacl.attention(*half, sink=sink).requires_grad
    q, k, v = inputs()
    ends = torch.tensor([0, 1, 4])
    q.requires_grad_()
    flashacl.flash_attn_varlen_func(q[0], k[0], v[0], ends,
                                    ends).sum().backward()
    assert q.grad.abs().sum() > 0
    assert not dispatched


def test_what_a_gradient_saves_is_seen(dispatched):
    """By hooks; and a later change of it is noticed."""
    q, k, v = (x.requires_grad_() for x in inputs())
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
            lambda x: saved.append(x) or x, lambda x: x):
        out = flashacl.attention(q, k, v)
    assert {x.data_ptr() for x in saved} >= {
        x.data_ptr() for x in (q, k, v, out)}
    changed = q * 1
    out = flashacl.attention(changed, k, v)
    changed.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    assert not dispatched


def test_there_are_no_second_derivatives(monkeypatch):
    q, k, v = (x.requires_grad_() for x in inputs())
    for asked in (dispatch.asked, lambda *_: dispatch.ALL):
        monkeypatch.setattr(dispatch, "asked", asked)
        grad, = torch.autograd.grad(flashacl.attention(q, k, v).sum(), q,
                                    create_graph=True)
        with pytest.raises(RuntimeError, match="attention_backward"):
            grad.sum().backward()


def test_inference_and_frozen_parameters_do_not(dispatched):
    q, k, v = inputs()
    expected = flashacl.attention(q, k, v)
    frozen = [torch.nn.Parameter(x, requires_grad=False) for x in (q, k, v)]
    assert torch.equal(flashacl.attention(*frozen), expected)
    with torch.inference_mode():
        tensors = [x.clone() for x in (q, k, v)]
        out = flashacl.attention(*tensors)
        assert out.is_inference() and torch.equal(out, expected)
    assert torch.equal(flashacl.attention(*tensors), expected)
    assert not dispatched


def test_modes_see_the_operators():
    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(function.name())
            return function(*args, **(kwargs or {}))

    class Function(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))
    for mode in (Dispatch, Function):
        for name, call in operators():
            seen = []
            with mode():
                call()
            assert any(f"flashacl.{name}" in one or f"flashacl::{name}" in one
                       for one in seen)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_profiles_and_traces_show_the_operators():
    for name, call in operators():
        with torch.profiler.profile() as profile:
            call()
        assert f"flashacl::{name}" in {e.key for e in profile.key_averages()}
    traced = torch.jit.trace(lambda q: flashacl.attention(q, q, q),
                             inputs()[0], check_trace=False)
    assert "attention" in str(traced.graph)
    x = draw(1, 5, 2, 16)
    assert torch.equal(traced(x), flashacl.attention(x, x, x))


def test_compiled_programs_have_the_operators():
    graphs = []

    def look(graph, _):
        graphs.append(str(graph.graph))
        return graph.forward
    for name, call in operators()[:3]:
        torch.compile(call, backend=look, fullgraph=True)()
        assert f"flashacl.{name}" in graphs.pop()


def test_what_is_no_plain_memory_is_dispatched(dispatched):
    q, k, v = inputs()
    expected = flashacl.attention(-q, k, v)
    negated = torch._neg_view(q)  # memory of q
    assert torch.equal(flashacl.attention(negated, k, v), expected)
    assert dispatched == ["attention"]

    class Logging(torch.Tensor):
        pass
    out = flashacl.attention(q.as_subclass(Logging), k, v)
    assert isinstance(out, Logging) and len(dispatched) == 2


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_transforms_are_dispatched(dispatched):
    q, k, v = inputs()
    many = draw(3, *q.shape)
    out = torch.func.vmap(lambda x: flashacl.attention(x, k, v))(many)
    assert dispatched == ["attention"]
    assert torch.equal(out, torch.stack([flashacl.attention(x, k, v)
                                         for x in many]))
    with torch.autograd.forward_ad.dual_level():
        flashacl.attention(q, k, v)
    assert dispatched == ["attention", "attention"]


def test_without_pytorchs_private_functions_all_is_dispatched(dispatched,
                                                              monkeypatch):
    monkeypatch.setattr(dispatch, "_keys", None)
    for name, call in operators():
        call()
        assert dispatched.pop() == name
