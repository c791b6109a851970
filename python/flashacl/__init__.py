# SPDX-License-Identifier: Apache-2.0
"""FlashACL for Python: `flashacl.bridge` lets Ascend's PyTorch adapter run on
FlashACL."""
