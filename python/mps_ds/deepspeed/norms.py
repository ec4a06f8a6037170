"""DeepSpeed's gradient norms, on one kernel each.

Each function here takes DeepSpeed's own and gives what replaces it (replacements.py). Which
gradients count, which processes add up and that -1 stands for a norm that is not finite are
DeepSpeed's rules. Norms other than of order 2 stay DeepSpeed's own. What the kernel does not take
(_plain.py) counts all the same: of sparse gradients the stored entries, and PyTorch's norm of
float64. It is not left to DeepSpeed's own, which take no norm of gradients on several devices, and
whose clipping leaves sparse gradients as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import torch

from ._plain import is_plain


def _entries(grad: torch.Tensor) -> torch.Tensor:
    """Of a sparse gradient the stored entries, each once; any other as it is."""
    return grad.detach().coalesce()._values() if grad.is_sparse else grad.detach()


def _norm(grad: torch.Tensor) -> torch.Tensor:
    """Of one gradient, 0-dim float32 on its device."""
    from mps_ds import ops

    entries = _entries(grad)
    norm = ops.multi_tensor_l2norm([entries]) if is_plain(entries) else entries.norm().float()
    assert isinstance(norm, torch.Tensor)
    return norm


def sum_of_squares(grads: Sequence[torch.Tensor], device: str) -> torch.Tensor:
    """Of all elements, 0-dim float32 on `device`. Exact to some ulp as far as fp32 reaches.

    The norms themselves neither overflow nor vanish; their square is what processes add up.
    """
    from mps_ds import ops

    by_device: dict[torch.device, list[torch.Tensor]] = {}
    total = torch.zeros((), dtype=torch.float32, device=device)
    for entries in map(_entries, grads):
        if is_plain(entries):
            by_device.setdefault(entries.device, []).append(entries)
        else:
            total += _norm(entries).to(device).square()
    for tensors in by_device.values():
        total += ops.multi_tensor_l2norm(tensors).to(device).square()  # type: ignore[union-attr]
    return total


def _or_minus_one(norm: torch.Tensor) -> torch.Tensor:
    return torch.where(norm.isfinite(), norm, -1.0)


def _counts_once(owner: Any, param: torch.Tensor) -> bool:
    """Not on each process of a model-parallel group, if all of them hold the same gradient."""
    from deepspeed.runtime.utils import is_model_parallel_parameter

    return bool(is_model_parallel_parameter(param)) or owner.model_parallel_rank == 0


def stage_1_and_2(own: Callable[..., Any]) -> Callable[..., Any]:
    """DeepSpeedZeroOptimizer.get_grad_norm_direct."""

    @wraps(own)
    def replacement(
        self: Any,
        gradients: Iterable[torch.Tensor],
        params: Iterable[torch.Tensor],
        norm_type: float = 2,
    ) -> torch.Tensor:
        if float(norm_type) != 2.0:
            return own(self, gradients, params, norm_type)  # type: ignore[no-any-return]
        import deepspeed.comm as dist
        from deepspeed.accelerator import get_accelerator

        # Zero padding is a gradient without a param. 0.19.6 pairs it with one all the same; its
        # norm is 0, but the params behind it are off by one there. Here they are not.
        real = (g for g in gradients if not getattr(g, "_zero_padding", False))
        counted = [
            g.data
            for g, p in zip(real, params, strict=False)
            if not getattr(p, "ds_pipe_replicated", False) and _counts_once(self, p)
        ]
        total = sum_of_squares(counted, get_accelerator().current_device_name())
        dist.all_reduce(total, op=dist.ReduceOp.SUM, group=self.dp_process_group)
        self._model_parallel_all_reduce(tensor=total, op=dist.ReduceOp.SUM)
        return _or_minus_one(total.sqrt()).to(self.device)

    return replacement


def stage_3(own: Callable[..., Any]) -> Callable[..., Any]:
    """DeepSpeedZeroOptimizer_Stage3.get_grad_norm_direct."""

    @wraps(own)
    def replacement(
        self: Any,
        gradients: Sequence[torch.Tensor],
        params: Sequence[torch.Tensor],
        norm_type: float = 2,
    ) -> torch.Tensor:
        if float(norm_type) != 2.0:
            return own(self, gradients, params, norm_type)  # type: ignore[no-any-return]
        import deepspeed.comm as dist
        from deepspeed.accelerator import get_accelerator

        self._assert_same_partition_group(params)
        group = self._get_param_partition_group(params[0])
        # From 0.19.7 on: partitions that differ between all processes of a model-parallel group.
        every_rank = getattr(self, "_grad_norm_counts_every_rank", lambda *_: False)
        all_count = every_rank(params, group)
        counted = [
            g for g, p in zip(gradients, params, strict=False) if all_count or _counts_once(self, p)
        ]
        total = sum_of_squares(counted, get_accelerator().current_device_name())
        dist.all_reduce(total, op=dist.ReduceOp.SUM, group=group)
        if not all_count:
            self._model_parallel_all_reduce(tensor=total, op=dist.ReduceOp.SUM)
        experts = self._autoep_expert_parallel_group(params)
        if experts is not None and dist.get_world_size(group=experts) > 1:
            dist.all_reduce(total, op=dist.ReduceOp.SUM, group=experts)
        return _or_minus_one(total.sqrt()).to(self.device)

    return replacement


def one_grad(own: Callable[..., Any]) -> Callable[..., Any]:
    """DeepSpeedZeroOptimizer_Stage3._constant_buffered_norm2: of one gradient, under offload."""

    @wraps(own)
    def replacement(self: Any, input: torch.Tensor, buffer_size: int = 0) -> torch.Tensor:
        return _norm(input)

    return replacement


def one_partition(own: Callable[..., Any]) -> Callable[..., Any]:
    """DeepSpeedZeroOptimizer.set_norm_for_param_grad_in_gpu: of what is ours of a gradient."""

    @wraps(own)
    def replacement(self: Any, param: torch.Tensor) -> None:
        accumulated = self.get_param_gradient_attribute(param)
        grad: Any = param.grad if accumulated is None else accumulated
        name = self.get_param_id(param)
        _, start, _, count = self.grad_position[name]
        part = grad.detach().view(-1).narrow(0, start, count)
        self.norm_for_param_grads[name] = _norm(part)

    return replacement


def flattened(own: Callable[..., Any]) -> Callable[..., Any]:
    """runtime.utils.get_flattened_grad_norm: fp16 and bf16 training without ZeRO."""

    @wraps(own)
    def replacement(
        parameters: torch.Tensor | Iterable[torch.Tensor],
        norm_type: float = 2,
        mpu: Any = None,
        grad_norm_mask: Sequence[Sequence[Any]] | None = None,
    ) -> float:
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        grads = [p.grad.data for p in parameters if p.grad is not None]
        masked = any(len(ranges) > 0 for ranges in grad_norm_mask or ())
        if float(norm_type) != 2.0 or masked or not grads:
            return own(parameters, norm_type, mpu, grad_norm_mask)  # type: ignore[no-any-return]
        import deepspeed.comm as dist
        from deepspeed.accelerator import get_accelerator

        total = sum_of_squares(grads, get_accelerator().current_device_name())
        if mpu is not None:
            dist.all_reduce(total, op=dist.ReduceOp.SUM, group=mpu.get_model_parallel_group())
        return float(_or_minus_one(total.sqrt()))  # DeepSpeed's own reads once for each gradient

    return replacement


def of_tensors(own: Callable[..., Any]) -> Callable[..., Any]:
    """runtime.utils.get_global_norm_of_tensors: bf16 training without ZeRO."""

    @wraps(own)
    def replacement(
        input_tensors: Iterable[torch.Tensor],
        norm_type: float = 2,
        mpu: Any = None,
        *more: Any,
        **named: Any,
    ) -> torch.Tensor:
        tensors = list(input_tensors)
        # Models in parallel, experts and graphs, whose parameters differ between versions.
        special = mpu is not None or any(value for value in (*more, *named.values()))
        if float(norm_type) != 2.0 or special or not tensors:
            return own(tensors, norm_type, mpu, *more, **named)  # type: ignore[no-any-return]
        from deepspeed.accelerator import get_accelerator

        total = sum_of_squares(tensors, get_accelerator().current_device_name())
        return _or_minus_one(total.sqrt()).to(tensors[0].device)

    return replacement


def clip_grad_norm_(own: Callable[..., Any]) -> Callable[..., Any]:
    """runtime.utils.clip_grad_norm_: fp32 training without ZeRO."""

    @wraps(own)
    def replacement(
        parameters: torch.Tensor | Iterable[torch.Tensor],
        max_norm: float,
        norm_type: float = 2,
        mpu: Any = None,
    ) -> torch.Tensor:
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        params: list[Any] = [p for p in parameters if p.grad is not None]
        if float(norm_type) != 2.0 or not params:
            return own(params, max_norm, norm_type, mpu)  # type: ignore[no-any-return]
        import deepspeed.comm as dist
        from deepspeed.accelerator import get_accelerator
        from deepspeed.runtime.utils import is_model_parallel_parameter
        from deepspeed.utils import groups

        first = mpu is None or mpu.get_model_parallel_rank() == 0
        counted = [p.grad.data for p in params if first or is_model_parallel_parameter(p)]
        total = sum_of_squares(counted, get_accelerator().current_device_name())
        if mpu is not None:
            parallel = mpu.get_model_parallel_group()
            dist.all_reduce(total, op=dist.ReduceOp.SUM, group=parallel)
        # DeepSpeed takes the mean over data-parallel processes: experts make their norms differ.
        data = groups._get_data_parallel_group()
        norm = total.sqrt() / dist.get_world_size(group=data)
        dist.all_reduce(norm, group=data)
        coefficient = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        _scale([p.grad.data for p in params], coefficient)
        result: torch.Tensor = norm.to(params[0].device)
        return result

    return replacement


def _scale(grads: Iterable[torch.Tensor], coefficient: torch.Tensor) -> None:
    """In place; of a sparse gradient what it stores, whose duplicates add up to what is scaled."""
    from mps_ds import ops

    by_device: dict[torch.device, list[torch.Tensor]] = {}
    for grad in grads:
        stored = grad._values() if grad.is_sparse else grad
        if is_plain(stored):
            by_device.setdefault(stored.device, []).append(stored)
        else:
            stored.mul_(coefficient.to(stored.device))
    for device, tensors in by_device.items():
        unused = torch.zeros((), device=device)  # found_inf
        ops.multi_tensor_unscale_(tensors, unused, coefficient.to(device))
