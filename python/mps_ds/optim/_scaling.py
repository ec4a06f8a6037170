"""Steps that scale, check and clip gradients on the device, without writing them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import OptState

from ._registered import Scalars

if TYPE_CHECKING:
    from .fused_adam import FusedAdam


class ScaledStep:
    """What one step does to gradients, from its arguments or from what a GradScaler has set."""

    def __init__(
        self,
        optimizer: FusedAdam,
        scaler: torch.amp.GradScaler | None,
        max_norm: float | None,
        norm_type: float,
    ) -> None:
        if max_norm is not None and not max_norm >= 0.0:
            raise ValueError(f"max_norm is {max_norm}; it must be >= 0")
        if norm_type not in (2.0, math.inf):
            raise ValueError(f"norm_type is {norm_type}; accepted are 2 and inf")
        self.optimizer = optimizer
        self.max_norm = max_norm
        self.norm_type = float(norm_type)
        self.scaler = scaler if scaler is not None and scaler.is_enabled() else None
        self.scaler_state: dict[str, Any] | None = None

    def scalars(self, gradients: Callable[[], list[Tensor]]) -> Scalars:
        """Scale, overflow and clip coefficient, as tensors on the gradients' device.

        One read of the gradients, where there is something to find out.
        """
        self.optimizer.grad_norm = None
        scale, found_inf = self._from_scaler()
        must_check = self.scaler is not None and found_inf is None
        grads = gradients() if must_check or self.max_norm is not None else []
        if not grads:
            return Scalars(grad_scale=scale, found_inf=found_inf)
        if scale is not None:
            scale = scale.to(grads[0].device)  # a loss on the CPU was scaled there
        bound = math.inf if self.max_norm is None else float(self.max_norm)
        norm, found, coef = torch.ops.mps_ds._grad_norm(grads, scale, bound, self.norm_type)
        scalars = Scalars(grad_scale=scale, found_inf=found_inf)
        if self.max_norm is not None:
            self.optimizer.grad_norm = norm
            scalars.clip_coef = coef
        if must_check:
            scalars.found_inf = found
            self._tell(found)
        return scalars

    def _from_scaler(self) -> tuple[Tensor | None, Tensor | None]:
        """Scale and overflow, as far as they are known already."""
        if self.scaler is None:
            # GradScaler.step sets these for optimizers with _step_supports_amp_scaling.
            optimizer = self.optimizer
            found_inf = getattr(optimizer, "found_inf", None)
            # Without gradients, GradScaler sums no tensors: to the number 0.
            known = found_inf if isinstance(found_inf, Tensor) else None
            return getattr(optimizer, "grad_scale", None), known
        state = self.scaler._per_optimizer_states[id(self.optimizer)]
        self.scaler_state = state
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.UNSCALED:  # scaler.unscale_() has divided and looked
            found = list(state["found_inf_per_device"].values())
            return None, found[0] if found else None
        scale = self.scaler._get_scale_async()
        if scale is None:
            raise RuntimeError("scaler.scale(loss) has not been called: there is no scale yet")
        return scale, None

    def _tell(self, found_inf: Tensor) -> None:
        """Let scaler.update() know: it adapts the scale."""
        assert self.scaler_state is not None
        self.scaler_state["found_inf_per_device"] = {found_inf.device: found_inf}

    def finish(self) -> None:
        """The step is encoded."""
        if self.scaler_state is not None:
            self.scaler_state["stage"] = OptState.STEPPED
