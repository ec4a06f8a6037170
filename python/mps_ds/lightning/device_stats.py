"""A callback that logs what the device and the machine use, once a step."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any, ClassVar

import torch

from ._family import Family, derive


class StatsOfTraining:
    """Logs, for the training steps that Lightning logs (``log_every_n_steps``):

    * `allocated_bytes`: what tensors hold on the device;
    * `driver_bytes`: what the process holds from Metal, PyTorch's pool included;
    * `recommended_bytes`: what Metal recommends to use at most;
    * `cpu_percent`: use of all CPU cores since the step logged before, 100 when all are busy
      (0 the first time);
    * `memory_percent`: use of the machine's memory, which CPU and GPU share, by all programs.

    The names are prefixed with `DeviceStats` and the logger's separator. A step has the number that
    it has for `self.log`. Nothing waits for the GPU.

    Raises:
        ModuleNotFoundError: psutil is not installed.
    """

    misconfiguration: ClassVar[type[Exception]]  # Lightning's MisconfigurationException

    def __init__(self) -> None:
        if importlib.util.find_spec("psutil") is None:
            raise ModuleNotFoundError(
                "DeviceStats needs psutil, which is not installed: pip install psutil"
            )
        super().__init__()
        self._steps_before = 0

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Check that there is something to measure and somewhere to log it.

        Raises:
            MisconfigurationException: the trainer has no logger, or does not train on mps.
        """
        if stage != "fit":
            return
        if not trainer.loggers:
            raise self.misconfiguration(
                "DeviceStats has nowhere to log to: the Trainer has logger=False. Give it a "
                "logger, or leave the callback out"
            )
        device = trainer.strategy.root_device
        if device.type != "mps":
            raise self.misconfiguration(
                f"DeviceStats is for accelerator='mps', and this Trainer is on {device}: use "
                "Lightning's DeviceStatsMonitor there"
            )

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Remember how many steps were taken."""
        self._steps_before = trainer.global_step

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Log, if the batch ended in a step (others are accumulated) and the step is logged."""
        if trainer.global_step == self._steps_before:
            return
        if not trainer._logger_connector.should_update_logs:
            return
        stats = device_stats()
        # The count that self.log goes by: batches, where several optimizers step for each.
        step = trainer.fit_loop.epoch_loop._batches_that_stepped
        for logger in trainer.loggers:
            prefix = f"{type(self).__name__}{logger.group_separator}"
            logger.log_metrics({prefix + name: value for name, value in stats.items()}, step=step)


def device_stats() -> dict[str, float]:
    """The figures of :class:`StatsOfTraining`, now; bytes and percent."""
    import psutil

    return {
        "allocated_bytes": torch.mps.current_allocated_memory(),
        "driver_bytes": torch.mps.driver_allocated_memory(),
        "recommended_bytes": torch.mps.recommended_max_memory(),
        "cpu_percent": psutil.cpu_percent(),
        "memory_percent": psutil.virtual_memory().percent,
    }


@cache
def build(family: Family) -> dict[str, type]:
    """The callback of one distribution of Lightning, by its public name."""
    if family.trainer is None:
        return {}
    callback: Any = derive("DeviceStats", StatsOfTraining, family.of_trainer("callbacks").Callback)
    errors = family.of_trainer("utilities.exceptions")
    callback.misconfiguration = errors.MisconfigurationException
    return {"DeviceStats": callback}
