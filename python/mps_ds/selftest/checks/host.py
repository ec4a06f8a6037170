"""The CPU's side: CPU Adam, and views of the GPU's memory."""

import torch
from torch import Tensor

from mps_ds.selftest.checks.mixed import OPTIONS, SHAPES, float64, share_of_allowed
from mps_ds.selftest.checks.numerics import random_four
from mps_ds.selftest.reference import Values, adam, plain_allowed
from mps_ds.selftest.report import Figure


def cpu_adam() -> list[Figure]:
    """Each type of params on the CPU, against float64; and on `mps`, the same bits."""
    from mps_ds.ops.cpu_adam import cpu_adam_

    figures = []
    differing = 0
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        worst = 0.0
        for seed, shape in enumerate(SHAPES):
            four = [tensor.cpu() for tensor in random_four(shape, seed)]
            four[0] = four[0].to(dtype)
            on_gpu = [tensor.to("mps") for tensor in four]
            param, grad, exp_avg, exp_avg_sq = map(float64, four)
            before = Values(param, exp_avg, exp_avg_sq)
            for tensors in (four, on_gpu):
                p, g, m, v = ([tensor] for tensor in tensors)
                cpu_adam_(p, g, m, v, 3, **vars(OPTIONS))
            wanted = adam(before, grad, 3, OPTIONS)
            allowed = plain_allowed(before, wanted, 3, OPTIONS)
            got = [four[0], four[2], four[3]]
            worst = max(worst, share_of_allowed(got, wanted.values, allowed))
            differing += sum(int((a != b.cpu()).sum()) for a, b in zip(four, on_gpu, strict=True))
        name = str(dtype).removeprefix("torch.")
        figures.append(Figure(f"{name} params: of the error allowed", worst, "<=", 1.0))
    figures.append(Figure("elements that differ where params are on mps", differing, "==", 0))
    return figures


def cpu_views() -> list[Figure]:
    """Either side reads what the other wrote, in the same memory."""
    from mps_ds.ops import multi_tensor_unscale_
    from mps_ds.unified import cpu_view, is_shared

    whole = torch.arange(1000.0).to("mps")
    tensor = whole[3:903].view(30, 30).mT  # an offset, and strides
    if not is_shared(tensor):  # PyTorch before 2.12
        return [Figure("views refused of private memory", _refused(tensor), "==", 1)]
    found_inf = torch.zeros((), device="mps")
    multi_tensor_unscale_([tensor], found_inf, 2.0)  # queued: taking the view waits for it
    view = cpu_view(tensor)
    expected = 2 * torch.arange(3.0, 903.0).view(30, 30).mT
    stale = int((view != expected).sum())
    view.add_(1)
    multi_tensor_unscale_([tensor], found_inf, 3.0)
    unseen = int((tensor.cpu() != 3 * (expected + 1)).sum())
    around = torch.cat([whole[:3], whole[903:]]).cpu()
    touched = int((around != torch.cat([torch.arange(3.0), torch.arange(903.0, 1000.0)])).sum())
    return [
        Figure("elements that the CPU saw too early", stale, "==", 0),
        Figure("writes of the CPU that the GPU did not see", unseen, "==", 0),
        Figure("elements changed outside the view", touched, "==", 0),
    ]


def _refused(tensor: Tensor) -> int:
    from mps_ds.unified import cpu_view

    try:
        cpu_view(tensor)
    except RuntimeError as error:
        return int("storage" in str(error))
    return 0
