"""Adam and AdamW in one Metal dispatch for all parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable would import all of dynamo
from torch.optim import Optimizer

from ._flat import zeros_like_each
from ._options import (
    adopt_state,
    check_clip_value,
    check_options,
    check_params,
    check_seed,
    check_state_dtype,
    step_options,
)
from ._registered import Registered
from ._scaling import ScaledStep

_STATES = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")


class FusedAdam(Optimizer):
    r"""Adam or AdamW: one dispatch a step for any number of parameters and param groups.

    A drop-in for `torch.optim.AdamW` and, with `adam_w_mode=False`, `torch.optim.Adam`; also takes
    the options of DeepSpeed's optimizer of this name. The formula is that of
    :func:`mps_ds.ops.adam_`. A step reads nothing back from the GPU and waits for nothing. (One
    dispatch more for each further combination of dtypes among parameters, gradients and amsgrad.)

    State: `exp_avg`, `exp_avg_sq` (and `max_exp_avg_sq` with amsgrad), laid out as the parameter,
    as views of few large buffers (`torch.save` of one of them saves its buffer); `step` of each
    parameter: an int, or a float32 tensor on the device where the step count is kept there
    (`capturable`, or once only the device knows whether a step was skipped: under a GradScaler).
    `state_dict()` is that of `torch.optim.AdamW`, and each loads the other's; the state dict of
    `torch.optim.Adam` too. Whether weight decay is decoupled and what dtype states have is decided
    here, not by a state dict of theirs. Dropped states and parameters are freed at the next step.

    With `torch.amp.GradScaler("mps")`: `scaler.step(optimizer)`, as with every optimizer; or,
    without its wait for the GPU, `optimizer.step(scaler=scaler)` in its place, which reads the
    gradients once for overflow and norm, and once for the step. `scaler.update()` follows either.

    Args:
        params: float32, float16 or bfloat16 parameters of any shape and strides, on one device
            (`mps`, or `cpu`), or param groups, or named parameters. Not sparse, not complex.
        lr: learning rate; a float, or a tensor of one element on the CPU or on the parameters'
            device (read there).
        betas: decay rates of the running means of the gradient and of its square, each in [0, 1).
        eps: added to the root of the second mean.
        weight_decay: decoupled (AdamW), or an L2 penalty (`adam_w_mode=False`).
        amsgrad: divide by the root of the largest second mean so far.
        maximize: ascend instead of descend.
        foreach: accepted for compatibility; without effect.
        capturable: keep the step counts on the device.
        differentiable: not supported; True raises.
        fused: accepted for compatibility; this optimizer is always fused.
        adam_w_mode: True: AdamW; False: Adam.
        bias_correction: False leaves the means uncorrected.
        set_grad_none: what `zero_grad()` does unless told otherwise: drop the gradients (True), or
            fill them with zeros.
        state_dtype: of the states: float32 (None), or the dtype of the parameters, which saves
            memory at the cost of exactness.
        stochastic_rounding: a seed: round bfloat16 parameters (no others) up or down at random, as
            :func:`mps_ds.ops.adam_` says. None: to the nearest.
        step_supports_amp_scaling: let `GradScaler.step` hand scale and overflow to this optimizer
            instead of waiting for the GPU. Off, because stock Lightning refuses to clip with it on.

    Attributes:
        grad_norm: after a step with `max_norm`, the gradients' norm before clipping: a float32
            tensor without dimensions on the device. None after a step without.

    Raises:
        ValueError: an option is outside its range, or not supported.
        RuntimeError: from `step()`, before anything is written: a parameter or gradient is sparse,
            of a dtype that is not accepted or on another device, or shares memory; names which.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        adam_w_mode: bool = True,
        bias_correction: bool = True,
        set_grad_none: bool = True,
        state_dtype: torch.dtype | None = None,
        stochastic_rounding: int | None = None,
        step_supports_amp_scaling: bool = False,
    ) -> None:
        check_state_dtype(state_dtype)
        check_seed(stochastic_rounding)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "adam_w_mode": bool(adam_w_mode),
            "bias_correction": bool(bias_correction),
            "set_grad_none": set_grad_none,
        }
        self._registered: Registered | None = None
        self._device_steps = False
        self._state_dtype = state_dtype
        self._seed = stochastic_rounding
        self._loading: dict[str, Any] | None = None
        self._step_supports_amp_scaling = step_supports_amp_scaling
        self.grad_norm: Tensor | None = None
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a param group, checking its options. See `torch.optim.Optimizer.add_param_group`."""
        if "decoupled_weight_decay" in param_group:  # torch.optim.Adam's name of it
            param_group["adam_w_mode"] = param_group.pop("decoupled_weight_decay")
        check_options({**self.defaults, **param_group})
        self._registered = None
        super().add_param_group(param_group)

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        """Reset the gradients; None means what `set_grad_none` said."""
        if set_to_none is None:
            set_to_none = self.defaults["set_grad_none"]
        super().zero_grad(set_to_none)

    @_disable_dynamo
    @torch.no_grad()
    def step(
        self,
        closure: Callable[[], Any] | None = None,
        *,
        scaler: torch.amp.GradScaler | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        clip_value: float | None = None,
    ) -> Any:
        """One step for every parameter that has a gradient.

        Scaling and clipping happen within the step: the gradients themselves are not written.

        Args:
            closure: reevaluates the model and returns the loss.
            scaler: divides the gradients by its scale and skips the step where one of them is not
                finite, without waiting for the GPU. In place of `scaler.step(optimizer)`.
            max_norm: clip the norm of all gradients together to this, as
                `torch.nn.utils.clip_grad_norm_` does.
            norm_type: 2 or inf.
            clip_value: clip each gradient's elements to this magnitude, as
                `torch.nn.utils.clip_grad_value_` does.

        Returns:
            The closure's loss, or None.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            check_options(group)
        check_clip_value(clip_value)
        scaled = ScaledStep(self, scaler, max_norm, norm_type)
        registered = self._current()
        scalars = scaled.scalars(lambda: registered.gradients()[0])
        scalars.seed = self._seed
        if scalars.skips_on_device() and not self._device_steps:
            self._device_steps = True
            registered = self._register()
        bound = math.inf if clip_value is None else float(clip_value)
        options = list(chain.from_iterable(step_options(g, bound) for g in self.param_groups))
        # False: a tensor's memory has moved.
        if not registered.step(self.param_groups, options, scalars) and not self._register().step(
            self.param_groups, options, scalars
        ):
            raise RuntimeError("the memory of a parameter or of its state keeps moving")
        scaled.finish()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The state as that of `torch.optim.AdamW`: `step` as a float32 tensor.

        On the CPU, or on the device where step counts are kept there.
        """
        state_dict = super().state_dict()
        state_dict["state"] = {
            index: {**state, "step": _step_tensor(state["step"])} if "step" in state else state
            for index, state in state_dict["state"].items()
        }
        for group in state_dict["param_groups"]:
            group["decoupled_weight_decay"] = group["adam_w_mode"]
        return state_dict

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state dict of this class, or of torch.optim's Adam or AdamW, or of DeepSpeed's."""

        # The base class casts states to the parameters' dtype: keep what it casts from. Hooks may
        # replace the state dict, so look at it after them.
        def remember(_: Optimizer, given: dict[str, Any]) -> None:
            self._loading = given

        handle = self.register_load_state_dict_pre_hook(remember)
        try:
            super().load_state_dict(state_dict)
        finally:
            handle.remove()
            self._loading = None

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle needs: all but the native tables."""
        mine = ("_state_dtype", "_seed", "_step_supports_amp_scaling", "_device_steps")
        return {**super().__getstate__(), **{name: self.__dict__[name] for name in mine}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state dict, or what was pickled; all of it or, where it raises, nothing."""
        for name in ("_loading", "_seed", "_state_dtype", "grad_norm"):
            self.__dict__.setdefault(name, None)
        for name in ("_step_supports_amp_scaling", "_device_steps"):
            self.__dict__.setdefault(name, False)
        self._restore_precision(state)
        defaults = state.get("defaults", getattr(self, "defaults", {}))
        before = self.__dict__.get("param_groups", [])
        for index, group in enumerate(state["param_groups"]):
            mine = before[index] if index < len(before) else defaults
            # Another optimizer's options; ours are in `mine`.
            group.pop("decoupled_weight_decay", None)
            group["differentiable"] = False
            for name, value in {**defaults, **mine}.items():
                group.setdefault(name, value)
            group["lr"] = _placed_like(group["lr"], mine.get("lr"))
            check_options(group)
            for position, param in enumerate(group["params"]):
                name = f"state of params[{position}] in param group {index}"
                param_state = state["state"].get(param)
                if param_state:
                    adopt_state(param_state, param, group, name)
        super().__setstate__(state)
        self._registered = None
        self._flatten()

    def _restore_precision(self, state: dict[str, Any]) -> None:
        """Put the states of the state dict being loaded in place of those cast to 16 bits."""
        if self._loading is None:
            return
        saved = chain.from_iterable(g["params"] for g in self._loading["param_groups"])
        params = chain.from_iterable(g["params"] for g in state["param_groups"])
        for index, param in zip(saved, params, strict=True):
            original = self._loading["state"].get(index, {})
            for key in _STATES:
                if isinstance(original.get(key), Tensor):
                    # A copy even where nothing is cast: the state dict stays its owner's.
                    state["state"][param][key] = original[key].to(
                        device=param.device, dtype=self._dtype_of_state(param), copy=True
                    )

    def _dtype_of_state(self, param: Tensor) -> torch.dtype:
        if self._state_dtype not in (None, torch.float32, param.dtype):
            raise RuntimeError(
                f"state_dtype is {self._state_dtype}, a parameter is {param.dtype}; a state must "
                "be torch.float32 or of the parameter's dtype"
            )
        return self._state_dtype or torch.float32

    def _zeros(self, params: list[Tensor]) -> list[Tensor]:
        return zeros_like_each(params, [self._dtype_of_state(p) for p in params])

    def _flatten(self) -> None:
        """Move states that came one by one (a loaded state dict) into few buffers."""
        owners = [p for g in self.param_groups for p in g["params"] if self.state.get(p)]
        for key in _STATES:
            having = [p for p in owners if key in self.state[p]]
            for device in {p.device for p in having}:
                params = [p for p in having if p.device == device]
                with torch.no_grad():
                    for param, flat in zip(params, self._zeros(params), strict=True):
                        self.state[param][key] = flat.copy_(self.state[param][key])

    def _current(self) -> Registered:
        registered = self._registered
        if registered is None or not registered.is_current(self):
            registered = self._register()
        return registered

    @torch.inference_mode(False)  # a first step in inference mode must not leave its tensors here
    @torch.no_grad()
    def _register(self) -> Registered:
        """Make states for parameters that have their first gradient, and a plan for all."""
        groups = self.param_groups
        everyone = [p for g in groups for p in g["params"]]
        check_params([p for p in everyone if p.grad is not None or self.state.get(p)])
        new = [p for p in everyone if p.grad is not None and not self.state.get(p)]
        for param, exp_avg, exp_avg_sq in zip(new, self._zeros(new), self._zeros(new), strict=True):
            self.state[param] = {"step": 0, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
        with_max = [p for g in groups if g["amsgrad"] for p in g["params"] if self.state.get(p)]
        without = [p for p in with_max if "max_exp_avg_sq" not in self.state[p]]
        for param, largest in zip(without, self._zeros(without), strict=True):
            self.state[param]["max_exp_avg_sq"] = largest
        self._device_steps = self._device_steps or any(g["capturable"] for g in groups)
        self._registered = Registered(self, everyone, self._device_steps)
        return self._registered


def _placed_like(lr: float | Tensor, mine: float | Tensor | None) -> float | Tensor:
    """A loaded learning rate where this optimizer had its own: a map_location may have moved it."""
    if not isinstance(lr, Tensor):
        return lr
    return lr.to(mine.device if isinstance(mine, Tensor) else "cpu")


def _step_tensor(step: int | Tensor) -> Tensor:
    if isinstance(step, Tensor):
        return step
    return torch.tensor(step, dtype=torch.float32, device="cpu")
