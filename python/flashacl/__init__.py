# SPDX-License-Identifier: Apache-2.0
"""FlashACL for Python: attention on ordinary arrays and tensors, by the names
of flash-attn; `flashacl.bridge` lets Ascend's PyTorch adapter run on
FlashACL."""

import importlib

# Nothing is loaded before it is used: `import torch` looks in here, too.
_PLACES = {
    "attention": "flashacl.plain.attention",
    "flash_attn_func": "flashacl.plain.attention",
    "flash_attn_kvpacked_func": "flashacl.plain.attention",
    "flash_attn_qkvpacked_func": "flashacl.plain.attention",
    "flash_attn_varlen_func": "flashacl.plain.attention",
    "flash_attn_with_kvcache": "flashacl.plain.kvcache",
    "merge_states": "flashacl.plain.attention",
    "topk_attention": "flashacl.plain.attention",
    "Error": "flashacl.library",
}
__all__ = sorted(_PLACES)


def __getattr__(name):
    if name not in _PLACES:
        raise AttributeError(f"module 'flashacl' has no attribute {name!r}")
    found = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = found  # which Python finds without asking here
    return found


def __dir__():
    return sorted([*globals(), *_PLACES])
