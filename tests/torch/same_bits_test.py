# SPDX-License-Identifier: Apache-2.0
"""Attention through the adapter gives the bits of the C functions, called here
without it on the same tensors."""

import ctypes

import torch
import torch_npu

FLOAT, BOOL, ND = 0, 12, 2  # aclDataType, aclFormat
library = ctypes.CDLL("libopapi.so")
library.aclCreateTensor.restype = ctypes.c_void_p


def acl_tensor(tensor):
    """An aclTensor over a tensor; None is no tensor."""
    if tensor is None:
        return ctypes.c_void_p(None)
    shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
    strides = (ctypes.c_int64 * tensor.dim())(*tensor.stride())
    kind = BOOL if tensor.dtype == torch.bool else FLOAT
    return ctypes.c_void_p(library.aclCreateTensor(
        shape, ctypes.c_uint64(tensor.dim()), kind, strides, ctypes.c_int64(0),
        ND, shape, ctypes.c_uint64(tensor.dim()),
        ctypes.c_void_p(tensor.data_ptr())))


def forward(q, k, v, mask, heads, scale, outputs):
    """aclnnFlashAttentionScore, layout BNSD, sparse mode 2."""
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    none, integer = acl_tensor(None), ctypes.c_int64
    status = library.aclnnFlashAttentionScoreGetWorkspaceSize(
        acl_tensor(q), acl_tensor(k), acl_tensor(v), none, none, none,
        acl_tensor(mask), none, ctypes.c_double(scale), ctypes.c_double(1.0),
        integer(2147483647), integer(2147483647), integer(heads), b"BNSD",
        integer(0), integer(2), *(acl_tensor(x) for x in outputs),
        ctypes.byref(size), ctypes.byref(executor))
    assert status == 0
    workspace = torch.empty(max(1, size.value), dtype=torch.uint8,
                            device="npu")
    stream = ctypes.c_void_p(torch.npu.current_stream().npu_stream)
    status = library.aclnnFlashAttentionScore(
        ctypes.c_void_p(workspace.data_ptr()), size, executor, stream)
    assert status == 0
    torch.npu.synchronize()


def test_forward():
    q, k, v = (torch.randn(2, n, 70, 64).npu() for n in (4, 2, 2))
    mask = torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu()
    result = torch_npu.npu_fusion_attention(
        q, k, v, 4, "BNSD", atten_mask=mask, scale=0.125, sparse_mode=2)
    torch.npu.synchronize()
    outputs = [torch.empty_like(result[1]), torch.empty_like(result[2]),
               torch.empty(0, device="npu"), torch.empty_like(result[0])]
    forward(q, k, v, mask, 4, 0.125, outputs)
    for got, expected in zip((*result[1:3], result[0]),
                             (outputs[0], outputs[1], outputs[3])):
        assert torch.equal(got.cpu(), expected.cpu())
