"""A check of the self test fails where what it looks at is wrong, and passes where it is not."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import mps_ds.ops
import mps_ds.ops.cpu_adam
import mps_ds.optim
import mps_ds.unified
from mps_ds.selftest.checks import CHECKS
from mps_ds.selftest.report import Figure

pytestmark = pytest.mark.usefixtures("mps_device")

BY_NAME = {check.name: check.run for check in CHECKS}
ADDED = (
    "sixteen-bits",
    "norms",
    "overflow",
    "unscaling",
    "clipping",
    "scaled-step",
    "cpu-adam",
    "cpu-view",
)


@pytest.fixture
def mps_device() -> None:
    if not torch.backends.mps.is_available():
        pytest.skip("no mps device in this build")


def failed(name: str) -> list[Figure]:
    figures = BY_NAME[name]()
    assert figures
    return [figure for figure in figures if not figure.passed]


@pytest.mark.parametrize("name", [*ADDED, "bad-input"])
def test_what_is_right_passes(name: str) -> None:
    assert failed(name) == []


def norm_3_ulp_off(tensors: Sequence[Tensor], per_tensor: bool = False) -> Any:
    total, each = real_norm(tensors, per_tensor=True)
    return total * (1 + 3 * 2**-23), each


def norm_that_overflows(tensors: Sequence[Tensor], per_tensor: bool = False) -> Any:
    each = torch.stack([t.float().square().sum().sqrt() for t in tensors])
    return each.square().sum().sqrt(), each


def blind(tensors: Sequence[Tensor]) -> Tensor:
    return torch.zeros((), device="mps")


def blind_to_the_last(tensors: Sequence[Tensor]) -> Tensor:
    return real_non_finite([tensor[:-1] for tensor in tensors])


def sum_as_overflow_check(tensors: Sequence[Tensor], **options: Any) -> Any:
    total = sum(tensor.float().sum() for tensor in tensors)
    return real_norm(tensors), (~torch.isfinite(torch.as_tensor(total))).float()


def unscale_in_16_bits(grads: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor) -> None:
    real_unscale(grads, found_inf, 1.0)
    for grad in grads:
        grad.mul_(inv_scale.to(grad.dtype))


def unscale_without_check(grads: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor) -> None:
    real_unscale(grads, torch.zeros_like(found_inf), inv_scale)


def clip_by_each_norm(params: Sequence[Tensor], max_norm: float) -> Tensor:
    for param in params:
        real_clip([param], max_norm)
    return real_norm([param.grad for param in params if param.grad is not None])


def clip_a_millionth_off(params: Sequence[Tensor], max_norm: float) -> Tensor:
    norm = real_clip(params, max_norm)
    if norm > max_norm:
        for param in params:
            if param.grad is not None:
                param.grad.mul_(1 + 2e-6)
    return norm


def truncating_adam(params: Any, grads: Any, *others: Any, **options: Any) -> None:
    """bfloat16 and float16 toward zero instead of to the nearest."""
    lists = [[t.float() for t in tensors] for tensors in (params, grads, *others[:2])]
    real_adam(*lists, *others[2:], **options)
    for tensors, values in zip((params, *others[:2]), (lists[0], *lists[2:]), strict=True):
        for tensor, value in zip(tensors, values, strict=True):
            nearest = value.to(tensor.dtype)
            away = nearest.float().abs() > value.abs()
            toward = torch.nextafter(nearest, torch.zeros_like(nearest))
            tensor.copy_(torch.where(away, toward, nearest))


def cpu_adam_step_off(params: Any, grads: Any, m: Any, v: Any, step: int, **options: Any) -> None:
    real_cpu_adam(params, grads, m, v, step + 1, **options)


def cpu_adam_on_copies(params: Any, *others: Any, **options: Any) -> None:
    """Where params are on mps: what a forgotten copy back does."""
    if params[0].device.type == "mps":
        params = [param.clone() for param in params]
    real_cpu_adam(params, *others, **options)


class DeafToScaler(mps_ds.optim.FusedAdam):
    def step(self, closure: Any = None, *, scaler: Any = None, **options: Any) -> Any:  # type: ignore[override]
        scaler.unscale_(self)  # so that update() finds a check
        for group in self.param_groups:
            for param in group["params"]:
                param.grad.mul_(2)
        return super().step(closure, **options)


class DeafToMaxNorm(mps_ds.optim.FusedAdam):
    def step(self, closure: Any = None, *, max_norm: Any = None, **options: Any) -> Any:  # type: ignore[override]
        result = super().step(closure, **options)
        grads = [param.grad / 1024.0 for group in self.param_groups for param in group["params"]]
        self.grad_norm = real_norm(grads)
        return result


class Waiting(mps_ds.optim.FusedAdam):
    def step(self, closure: Any = None, **options: Any) -> Any:  # type: ignore[override]
        result = super().step(closure, **options)
        torch.mps.synchronize()
        return result


def copying_view(tensor: Tensor, *, writes: bool = True) -> Tensor:
    return tensor.cpu()


def early_view(tensor: Tensor, *, writes: bool = True) -> Tensor:
    from mps_ds import softmps

    return softmps.host_view(tensor, wait=False)


real_norm = mps_ds.ops.multi_tensor_l2norm
real_non_finite = mps_ds.ops.multi_tensor_non_finite
real_unscale = mps_ds.ops.multi_tensor_unscale_
real_clip = mps_ds.ops.clip_grad_norm_
real_adam = mps_ds.ops.adam_
real_cpu_adam = mps_ds.ops.cpu_adam.cpu_adam_

PLANTED: list[tuple[str, Any, str, Callable[..., Any]]] = [
    ("norms", mps_ds.ops, "multi_tensor_l2norm", norm_3_ulp_off),
    ("norms", mps_ds.ops, "multi_tensor_l2norm", norm_that_overflows),
    ("overflow", mps_ds.ops, "multi_tensor_non_finite", blind),
    ("overflow", mps_ds.ops, "multi_tensor_non_finite", blind_to_the_last),
    ("overflow", mps_ds.ops, "norm_and_non_finite", sum_as_overflow_check),
    ("unscaling", mps_ds.ops, "multi_tensor_unscale_", unscale_in_16_bits),
    ("unscaling", mps_ds.ops, "multi_tensor_unscale_", unscale_without_check),
    ("clipping", mps_ds.ops, "clip_grad_norm_", clip_by_each_norm),
    ("clipping", mps_ds.ops, "clip_grad_norm_", clip_a_millionth_off),
    ("sixteen-bits", mps_ds.ops, "adam_", truncating_adam),
    ("scaled-step", mps_ds.optim, "FusedAdam", DeafToScaler),
    ("scaled-step", mps_ds.optim, "FusedAdam", DeafToMaxNorm),
    ("scaled-step", mps_ds.optim, "FusedAdam", Waiting),
    ("cpu-adam", mps_ds.ops.cpu_adam, "cpu_adam_", cpu_adam_step_off),
    ("cpu-adam", mps_ds.ops.cpu_adam, "cpu_adam_", cpu_adam_on_copies),
    ("cpu-view", mps_ds.unified, "cpu_view", copying_view),
    ("cpu-view", mps_ds.unified, "cpu_view", early_view),
]


@pytest.mark.parametrize(
    ("name", "module", "attribute", "wrong"),
    PLANTED,
    ids=[f"{name}: {wrong.__name__}" for name, _, _, wrong in PLANTED],
)
def test_what_is_wrong_fails(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    module: Any,
    attribute: str,
    wrong: Callable[..., Any],
) -> None:
    if wrong is early_view and not _counts():
        pytest.skip("an instrument of the software device")
    monkeypatch.setattr(module, attribute, wrong)
    assert failed(name) != []


def _counts() -> bool:
    from mps_ds.selftest.checks.dispatch import counters_available

    return counters_available()


def test_every_added_check_has_a_planted_mistake() -> None:
    assert {name for name, *_ in PLANTED} == set(ADDED)
