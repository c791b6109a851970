# SPDX-License-Identifier: Apache-2.0
"""One setting for the threads of FlashACL and of PyTorch. Both follow
OMP_NUM_THREADS, which torchrun sets; here PyTorch follows FlashACL's own."""

import os


def follow():
    """FLASHACL_NUM_THREADS is PyTorch's number, too, unless OMP_NUM_THREADS
    says another one for it. What a program sets later stays."""
    wanted = os.environ.get("FLASHACL_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted) > 0 and \
            not os.environ.get("OMP_NUM_THREADS"):
        import torch
        torch.set_num_threads(int(wanted))
