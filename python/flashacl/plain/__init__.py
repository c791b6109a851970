# SPDX-License-Identifier: Apache-2.0
"""Attention on arrays in host memory: NumPy's, PyTorch's, and whatever speaks
DLPack. Nothing of PyTorch is imported before a tensor of it arrives."""
