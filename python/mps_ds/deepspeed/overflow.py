"""DeepSpeed's overflow checks, on one kernel each.

Each function here takes DeepSpeed's own and gives what replaces it (replacements.py). They look at
the bits of the gradients; DeepSpeed's own reduce them first. Both answer the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import torch

from ._plain import is_plain


def found_inf(grads: Iterable[torch.Tensor], own: Callable[[torch.Tensor], Any]) -> list[Any]:
    """What says, one for each device and one for each odd tensor, that something is not finite."""
    from mps_ds import ops

    by_device: dict[torch.device, list[torch.Tensor]] = {}
    answers = []
    for grad in grads:
        if is_plain(grad):
            by_device.setdefault(grad.device, []).append(grad)
        else:  # sparse or float64
            answers.append(own(grad))
    return [*answers, *(ops.multi_tensor_non_finite(tensors) for tensors in by_device.values())]


def has_inf_or_nan(own: Callable[..., Any]) -> Callable[..., Any]:
    """Of one tensor, as a bool tensor on its device: nothing is read on the host."""

    @wraps(own)
    def replacement(x: torch.Tensor) -> torch.Tensor:
        from mps_ds import ops

        if not is_plain(x):
            answer: torch.Tensor = own(x)
            return answer
        return ops.multi_tensor_non_finite([x]) != 0

    return replacement


def has_overflow_serial(own: Callable[..., Any]) -> Callable[..., Any]:
    """Of the gradients of a list of params: CheckOverflow's and DynamicLossScaler's.

    DeepSpeed's own reads the host once for each param.
    """

    @wraps(own)
    def replacement(self: Any, params: Iterable[torch.Tensor]) -> bool:
        from deepspeed.runtime import utils

        grads = [p.grad.data for p in params if p.grad is not None]
        return any(bool(answer) for answer in found_inf(grads, utils.has_inf_or_nan))

    return replacement


def partitioned_grads(own: Callable[..., Any]) -> Callable[..., Any]:
    """ZeRO 1 and 2: of all averaged gradients, as a bool tensor of one element on the device."""

    @wraps(own)
    def replacement(self: Any) -> torch.Tensor:
        from deepspeed.accelerator import get_accelerator
        from deepspeed.runtime import utils

        device = get_accelerator().current_device_name()
        groups = (self.averaged_gradients[i] for i in range(len(self.bit16_groups)))
        grads = [grad for group in groups for grad in group if grad is not None]
        count = torch.zeros(1, dtype=torch.float32, device=device)
        for answer in found_inf(grads, utils.has_inf_or_nan):
            count += answer.to(device)
        return count != 0

    return replacement


def flat_buffer(own: Callable[..., Any]) -> Callable[..., Any]:
    """ZeRO 3: of the flat buffer of gradient partitions, and of what its tracker has kept."""

    @wraps(own)
    def replacement(self: Any, partition_gradients: bool = True) -> bool:
        if not partition_gradients or not is_plain(self.grad_partitions_flat_buffer):
            return bool(own(self, partition_gradients))
        import deepspeed.comm as dist
        from deepspeed.accelerator import get_accelerator

        from mps_ds import ops

        tracker = self.inf_or_nan_tracker
        found = ops.multi_tensor_non_finite([self.grad_partitions_flat_buffer]) != 0
        found = found.to(tracker.device).logical_or(tracker)
        tracker.zero_()
        overflow = found.to(get_accelerator().current_device_name(), torch.uint8)
        dist.all_reduce(overflow, op=dist.ReduceOp.MAX, group=self.dp_process_group)
        self._model_parallel_all_reduce(tensor=overflow, op=dist.ReduceOp.MAX)
        return bool(overflow.item())

    return replacement
