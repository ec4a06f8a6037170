"""A small regression that the tests of the strategies train, with Lightning and without it."""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import os
from typing import Any

import torch

from mps_ds.optim import FusedAdam

STEPS = 6
BATCH = 4
LR = 1e-2
NAMES = ("mps_zero1", "mps_zero2", "mps_zero3")
QUIET = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 1)]
    return torch.nn.Sequential(*layers)


def data(batches: int = STEPS, batch: int = BATCH) -> torch.utils.data.DataLoader:
    generator = torch.Generator().manual_seed(1)
    samples = torch.randn(batches * batch, 16, generator=generator)
    return torch.utils.data.DataLoader(samples, batch_size=batch)


def loss_of(network: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return (network(batch).float() - batch.float().sum(1, keepdim=True)).square().mean()


def optimizer_of(params: Any) -> tuple[FusedAdam, torch.optim.lr_scheduler.LRScheduler]:
    optimizer = FusedAdam(params, lr=LR, weight_decay=0.1)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)


def module(pl: Any) -> Any:
    """A LightningModule that keeps its losses, on the device."""

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network()
            self.losses: list[torch.Tensor] = []

        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            loss = loss_of(self.network, batch)
            self.losses.append(loss.detach().clone())
            return loss

        def validation_step(self, batch: torch.Tensor, batch_idx: int) -> None:
            self.log("loss", loss_of(self.network, batch))

        test_step = validation_step

        def predict_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            return self.network(batch)

        def configure_optimizers(self) -> Any:
            optimizer, scheduler = optimizer_of(self.parameters())
            return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    return Module()


def trainer(pl: Any, strategy: str, **options: Any) -> Any:
    arguments = {"max_epochs": 1, "use_distributed_sampler": False, **QUIET, **options}
    return pl.Trainer(accelerator="mps", devices=1, strategy=strategy, **arguments)


def losses(module: Any) -> list[float]:
    """The losses; NaN is not equal to itself, so it must not get this far."""
    told = torch.stack(module.losses).tolist()
    assert all(map(math.isfinite, told))
    return told


class ParamsAtEnd:
    """Copies the params, whole, when fitting ends, before Lightning moves them."""

    @staticmethod
    def callback(pl: Any) -> Any:
        class AtEnd(pl.Callback):  # type: ignore[misc]
            def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
                self.params = whole_params(pl_module.network)

        return AtEnd()


def whole_params(network: torch.nn.Module) -> list[torch.Tensor]:
    """Copies of the params on the CPU; of ZeRO 3's, of which each process has a part, too."""
    params = list(network.parameters())
    gathered: Any = contextlib.nullcontext()
    if any(hasattr(param, "ds_id") for param in params):
        import deepspeed

        gathered = deepspeed.zero.GatheredParameters(params)
    with gathered:
        return [param.detach().cpu().clone() for param in params]


def equal(params: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(params, others, strict=True))


def forget_strategy(name: str) -> None:
    """As if it had never been registered."""
    from mps_ds.lightning import strategies

    strategies._own.pop(name, None)
    for registry, _ in strategies._registries:
        registry.pop(name, None)


def switch_deepspeed_off() -> None:
    """Back to a process without DeepSpeed on mps and without a process group."""
    import deepspeed.comm

    import mps_ds.deepspeed
    import mps_ds.distributed

    _forget_what_zero3_trained()
    gc.collect()
    if deepspeed.comm.comm.cdb is not None:
        deepspeed.comm.destroy_process_group()  # and what DeepSpeed remembers of it
        deepspeed.comm.comm.cdb = None
    mps_ds.deepspeed.disable()
    mps_ds.distributed.disable()  # which stay if mps_replicas, too, has asked for collectives
    leave_process_group()


def leave_process_group() -> None:
    """Back to a process without a process group, and without what Lightning sets for one."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)


def _forget_what_zero3_trained() -> None:
    """DeepSpeed keeps every module that ZeRO 3 has trained, and its own function in torch."""
    from deepspeed.runtime.zero.parameter_offload import FWD_MODULE_STACK
    from deepspeed.runtime.zero.partition_parameters import InsertPostInitMethodToModuleSubClasses

    for module in FWD_MODULE_STACK:
        module._trainer = None  # and with it the engine
    FWD_MODULE_STACK.clear()
    for cache in gc.get_objects():
        if type(cache) is functools._lru_cache_wrapper and "deepspeed" in cache.__module__:
            cache.cache_clear()
    if hasattr(InsertPostInitMethodToModuleSubClasses, "linear_bk"):
        torch.nn.functional.linear = InsertPostInitMethodToModuleSubClasses.linear_bk
