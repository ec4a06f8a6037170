"""That the native code is there and that its kernels compile."""

import torch

from mps_ds.selftest.report import Figure

OPERATORS = (
    "adam_",
    "multi_tensor_l2norm",
    "multi_tensor_non_finite",
    "norm_and_non_finite",
    "multi_tensor_unscale_",
    "multi_tensor_scale_",
    "multi_tensor_axpby_",
)


def loads() -> list[Figure]:
    """The operators that Python calls are registered, with a kernel for `mps`."""
    import mps_ds.ops  # noqa: F401  (registers them)

    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    found = [name for name in OPERATORS if has_kernel(f"mps_ds::{name}", "MPS")]
    return [Figure("operators with a kernel for mps", len(found), "==", len(OPERATORS))]


def kernels_compile() -> list[Figure]:
    """Every kernel, now rather than at first use; raises with Metal's log."""
    from mps_ds import ops
    from mps_ds._native import C

    C.warm_up()
    tensors = [torch.ones(1, device="mps") for _ in range(4)]
    ops.adam_([tensors[0]], [tensors[1]], [tensors[2]], [tensors[3]], 1, lr=0.5)
    moved = float(tensors[0].item())
    return [Figure("one step of lr 0.5 moves a parameter from 1 to", moved, "<", 1.0)]
