"""Lightning modules and Trainers for tests, of either distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import straight
import torch

from mps_ds.optim import FusedAdam

QUIET: dict[str, Any] = {
    "devices": 1,
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


def adam(params: Any) -> torch.optim.Optimizer:
    """With step counts on the device, where a folded step under a scaler has them anyway.

    From counts on the host, bias corrections may round to other last bits.
    """
    return FusedAdam(params, lr=straight.LR, capturable=True)


def plain_adam(params: Any) -> torch.optim.Optimizer:
    """As most people make it."""
    return FusedAdam(params, lr=straight.LR)


def torch_adamw(params: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(params, lr=straight.LR, weight_decay=0.01)


def plugin(lit: Any, precision: str, **options: Any) -> Any:
    """Our plugin for the Trainer."""
    if precision == "32-true":
        return lit.Precision(**options)
    return lit.MixedPrecision(precision, **options)


def module_class(pl: Any, **methods: Callable[..., Any]) -> Any:
    """A LightningModule class on `straight`'s model, with methods of a test's own."""

    class Straight(pl.LightningModule):  # type: ignore[misc]
        def __init__(self, make_optimizer: Callable[[Any], Any] = adam) -> None:
            super().__init__()
            self.layer = straight.model()
            self.make_optimizer = make_optimizer
            self.losses: list[torch.Tensor] = []
            self.ran_in: set[tuple[str, torch.dtype]] = set()
            self.layer.register_forward_hook(self._look)

        def _look(self, layer: torch.nn.Module, _: Any, output: torch.Tensor) -> None:
            self.ran_in.add((output.device.type, output.dtype))

        def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
            loss = straight.loss_of(self.layer, batch)
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self) -> Any:
            return self.make_optimizer(self.parameters())

    return type("Straight", (Straight,), methods)


def fit(pl: Any, module: Any, steps: int = 6, accelerator: Any = "mps", **options: Any) -> Any:
    """Train over `steps` batches, or over `loader`, and return the Trainer."""
    ckpt_path = options.pop("ckpt_path", None)
    loader = options.pop("loader", straight.loader(steps))
    settings = {**QUIET, "accelerator": accelerator, "max_epochs": 1, **options}
    trainer = pl.Trainer(**settings)
    trainer.fit(module, loader, ckpt_path=ckpt_path)
    return trainer


def losses(module: Any) -> list[float]:
    return [float(loss) for loss in module.losses]


def scaler_of(trainer: Any) -> dict[str, Any]:
    """The state of the scaler; empty if there is none."""
    state: dict[str, Any] = trainer.precision_plugin.state_dict()
    return state


def gradients(module: torch.nn.Module) -> list[torch.Tensor]:
    return [p.grad.cpu() for p in module.parameters() if p.grad is not None]


class Manual:
    """Manual optimization with a look at the gradients after each step."""

    def __init__(self, pl: Any, plugin: Any, with_closure: bool) -> None:
        self.seen: list[list[torch.Tensor]] = []

        def training_step(module: Any, batch: torch.Tensor, index: int) -> None:
            optimizer = module.optimizers()

            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                loss = straight.loss_of(module.layer, batch)
                module.manual_backward(loss)
                return loss

            if with_closure:
                optimizer.step(closure=closure)
            else:
                closure()
                optimizer.step()
            self.seen.append(gradients(module))

        module = type("Manual", (module_class(pl),), {"training_step": training_step})()
        module.automatic_optimization = False
        fit(pl, module, plugins=[plugin])
        self.params = straight.params_of(module)
