"""Norms, overflow checks, unscaling and clipping of lists of gradients, against float64."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mps_ds.selftest.reference import HALF_ULP
from mps_ds.selftest.report import Figure

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SIZES = (1, 3, 255, 1025, 8193, 70_001)
NORM_ULP = 2.0
"""docs/norms.md derives it, for any number of elements."""
CLIP_ERROR = 8 * HALF_ULP
"""Relative: the norm's 2 ulp are 4 half ulps, its sum with 1e-6, reciprocal and product one each;
and one for rounding the product with the gradient."""


def gradients(dtypes: Sequence[torch.dtype] = DTYPES, scale: float = 1.0) -> list[Tensor]:
    """On the CPU, of every size; dtypes in turn."""
    generator = torch.Generator().manual_seed(5)
    return [
        (scale * torch.randn(size, generator=generator)).to(dtypes[i % len(dtypes)])
        for i, size in enumerate(SIZES * len(dtypes))
    ]


def on_device(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies on `mps`."""
    return [tensor.to("mps") for tensor in tensors]


def exact_norm(tensors: Sequence[Tensor]) -> float:
    """In float64, where no square of a float32 overflows or vanishes."""
    return math.sqrt(math.fsum(float(tensor.double().square().sum()) for tensor in tensors))


def norm_error(got: Tensor, wanted: float) -> float:
    """In ulp of the wanted float32."""
    value = got.item()
    error = abs(value - wanted) / float(np.spacing(np.float32(wanted)))
    return error if math.isfinite(value) else math.inf


def norms() -> list[Figure]:
    """Of mixed dtypes, and of magnitudes whose squares no float32 holds; of all and of each."""
    from mps_ds.ops import multi_tensor_l2norm

    figures = []
    for name, tensors in {
        "float32, float16 and bfloat16": gradients(),
        "elements of about 1e20": gradients((torch.float32, torch.bfloat16), 1e20),
        "elements of about 1e-30": gradients((torch.float32, torch.bfloat16), 1e-30),
    }.items():
        total, each = multi_tensor_l2norm(on_device(tensors), per_tensor=True)
        worst = max(
            norm_error(got, exact_norm([tensor]))
            for got, tensor in zip(each.cpu(), tensors, strict=True)
        )
        error = norm_error(total, exact_norm(tensors))
        figures.append(Figure(f"norm of {name}", error, "<=", NORM_ULP, "ulp"))
        figures.append(Figure("  of each tensor", worst, "<=", NORM_ULP, "ulp"))
    return figures


def overflow() -> list[Figure]:
    """A single infinity or NaN, in each tensor of a list in turn, first, inner or last element."""
    from mps_ds.ops import multi_tensor_non_finite, norm_and_non_finite

    tensors = on_device(gradients())
    found = found_beside = 0
    for i, tensor in enumerate(tensors):
        position = (0, tensor.numel() // 2, -1)[i % 3]
        before = tensor[position].clone()
        tensor[position] = (math.inf, -math.inf, math.nan)[i // 3 % 3]
        found += multi_tensor_non_finite(tensors).item() == 1.0
        found_beside += norm_and_non_finite(tensors)[1].item() == 1.0
        tensor[position] = before
    largest = [torch.full((1000,), torch.finfo(dtype).max, dtype=dtype) for dtype in DTYPES]
    false_alarms = sum(
        multi_tensor_non_finite(finite).item() + norm_and_non_finite(finite)[1].item()
        for finite in (tensors, on_device(largest))
    )
    return [
        Figure("infinities and NaN found", found, "==", len(tensors)),
        Figure("  beside the norm", found_beside, "==", len(tensors)),
        Figure("found where there are none", false_alarms, "==", 0),
    ]


def unscaling() -> list[Figure]:
    """GradScaler's function: every product, rounded once, and the flag."""
    from mps_ds.ops import multi_tensor_unscale_

    factor = torch.tensor(1 / 3)
    tensors = gradients()
    moved, found_inf = on_device(tensors), torch.zeros((), device="mps")
    multi_tensor_unscale_(moved, found_inf, factor.to("mps"))
    wrong = sum(
        int((got.cpu() != (tensor.float() * factor).to(tensor.dtype)).sum())
        for got, tensor in zip(moved, tensors, strict=True)
    )
    finite = found_inf.item()
    moved[-1][-1] = math.nan
    multi_tensor_unscale_(moved, found_inf, factor.to("mps"))
    return [
        Figure("elements that are not the rounded product", wrong, "==", 0),
        Figure("found_inf of finite gradients", finite, "==", 0),
        Figure("found_inf with a NaN", found_inf.item(), "==", 1),
    ]


def clipping() -> list[Figure]:
    """clip_grad_norm_ as in torch.nn.utils, against float64; nothing is written below the limit."""
    from mps_ds.ops import clip_grad_norm_

    tensors = gradients()
    params = [torch.nn.Parameter(tensor) for tensor in on_device(tensors)]
    for param in params:
        param.grad = param.detach().clone()
    wanted = exact_norm(tensors)
    clip_grad_norm_(params, 2 * wanted)
    changed = sum(int((p.grad != p).sum().item()) for p in params if p.grad is not None)
    norm = clip_grad_norm_(params, 0.3)
    worst = 0.0
    for param, tensor in zip(params, tensors, strict=True):
        if param.grad is None:
            raise AssertionError("clip_grad_norm_ dropped a gradient")
        product = tensor.double() * (0.3 / (wanted + 1e-6))
        # One rounding to its own type: half an ulp, or half of the smallest subnormal.
        half = torch.finfo(tensor.dtype).eps / 2
        smallest = torch.finfo(tensor.dtype).smallest_normal * half
        allowed = product.abs() * (CLIP_ERROR + half * (1 + CLIP_ERROR)) + smallest
        error = (param.grad.cpu().double() - product).abs() / allowed
        worst = max(worst, float(error.nan_to_num(math.inf).max()))
    return [
        Figure("norm before clipping", norm_error(norm, wanted), "<=", NORM_ULP, "ulp"),
        Figure("clipped gradients, of the error allowed", worst, "<=", 1.0),
        Figure("gradients changed below the limit", changed, "==", 0),
    ]
