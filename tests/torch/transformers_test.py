# SPDX-License-Identifier: Apache-2.0
"""transformers' own NPU integration on a small Qwen2 with random weights: its
"flash_attention_2" and "sdpa" on npu against its "eager" on the CPU, padded,
packed and while generating."""

import copy

import pytest
import torch

import reference

transformers = pytest.importorskip("transformers")
ROWS = 12


def model(attention):
    """The same weights for every kind of attention; eager is the CPU's."""
    torch.manual_seed(3)
    config = transformers.Qwen2Config(
        vocab_size=64, hidden_size=64, intermediate_size=96,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=64)
    eager = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager")
    if attention == "eager":
        return eager
    config = copy.deepcopy(config)
    other = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation=attention)
    other.load_state_dict(eager.state_dict())
    return other.npu()


def step(net, device, **inputs):
    """(logits, gradients of all weights) of a training step."""
    inputs = {n: x.to(device) for n, x in inputs.items()}
    out = net(**inputs, use_cache=False)
    out.loss.backward()
    return out.logits, [p.grad for p in net.parameters()]


def batch(padding=None):
    """Two sequences; the second is shorter, padded at either side."""
    tokens = torch.randint(0, 64, (2, ROWS))
    inputs = {"input_ids": tokens, "labels": tokens.clone()}
    if padding is None:
        return inputs, torch.ones(2, ROWS, dtype=torch.bool)
    mask = torch.ones(2, ROWS, dtype=torch.long)
    mask[1, :4] = 0
    if padding == "right":
        mask = mask.flip(1)
    inputs["attention_mask"] = mask
    inputs["labels"][mask == 0] = -100
    # The first token of all is foretold by a row of padding.
    inputs["labels"][1, mask[1].argmax()] = -100
    return inputs, mask.bool()


def check(attention, inputs, kept, dtype=torch.float32):
    """Rows of padding hold what nobody reads."""
    expected, grads = step(model("eager"), "cpu", **inputs)
    net = model(attention)
    if dtype == torch.float32:
        got, on_npu = step(net, "npu", **inputs)
    else:
        with torch.autocast("npu", dtype=dtype):
            got, on_npu = step(net, "npu", **inputs)
    reference.check([got.cpu()[kept], *on_npu], [expected[kept], *grads], dtype)


@pytest.mark.parametrize("attention", ["flash_attention_2", "sdpa"])
@pytest.mark.parametrize("padding", [None, "left", "right"])
def test_training_step(attention, padding):
    inputs, kept = batch(padding)
    dtype = torch.float32 if attention == "sdpa" else torch.bfloat16
    check(attention, inputs, kept, dtype)


def test_packed_sequences():
    """Several in a row without a mask: positions say where they begin."""
    tokens = torch.randint(0, 64, (1, ROWS))
    places = torch.cat([torch.arange(n) for n in (5, 4, 3)])[None]
    inputs = {"input_ids": tokens, "labels": tokens.clone(),
              "position_ids": places}
    check("flash_attention_2", inputs, torch.ones(1, ROWS, dtype=torch.bool),
          torch.bfloat16)


@pytest.mark.parametrize("attention", ["flash_attention_2", "sdpa"])
def test_generation(attention):
    """Greedy, by a cache: the tokens that the CPU finds. Where two logits are
    as close as rounding, either is right."""
    inputs, _ = batch("left")
    inputs.pop("labels")
    net, eager = model(attention), model("eager")
    if attention == "flash_attention_2":
        net, eager = net.bfloat16(), eager.bfloat16()
    out = net.generate(**{n: x.npu() for n, x in inputs.items()},
                       max_new_tokens=6, do_sample=False, pad_token_id=0).cpu()
    assert out.shape == (2, ROWS + 6)
    mask = torch.cat([inputs["attention_mask"], torch.ones(2, 6).long()], 1)
    logits = eager(input_ids=out, attention_mask=mask).logits.float()
    for row in range(ROWS - 1, ROWS + 5):
        chosen = logits[:, row].gather(1, out[:, row + 1:row + 2])[:, 0]
        dtype = eager.dtype
        assert (logits[:, row].amax(1) - chosen <=
                reference.tolerance(dtype)).all()
