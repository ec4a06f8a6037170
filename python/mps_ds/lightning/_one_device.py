"""Lightning's strategies for several processes, where all of them have the same device."""

from __future__ import annotations

import os
from typing import Any

import torch


class OneDevice:
    """Mixed in before a strategy of Lightning that derives from ParallelStrategy.

    Lightning has a device for each process of a machine and counts processes by devices. On mps
    `devices` is always 1, and processes of one Mac share its GPU.
    """

    # Of ParallelStrategy.
    cluster_environment: Any
    num_nodes: int
    parallel_devices: list[torch.device] | None
    world_size: int

    @property
    def root_device(self) -> torch.device:
        """The one device, whatever the rank."""
        assert self.parallel_devices is not None
        return self.parallel_devices[0]

    @property
    def num_processes(self) -> int:
        """Processes of this machine: what torchrun has started counts, not devices."""
        environment = self.cluster_environment
        if environment is not None and environment.creates_processes_externally:
            return max(1, int(environment.world_size()) // self.num_nodes)
        return 1

    def check_device_and_processes(self) -> None:
        """Refuse other accelerators, and processes that Lightning does not know of.

        Raises:
            RuntimeError: the accelerator is not mps, or the environment tells of other processes
                than Lightning does.
        """
        if self.root_device.type != "mps":
            raise RuntimeError(
                f"{type(self).__name__} is for accelerator='mps', and the device is "
                f"{self.root_device}: pass accelerator='mps', devices=1, or choose another strategy"
            )
        started = os.environ.get("WORLD_SIZE", str(self.world_size))
        if started != str(self.world_size):
            raise RuntimeError(
                f"WORLD_SIZE={started} in the environment, but Lightning sees {self.world_size} "
                "process(es). Start several with: torchrun --nproc-per-node N script.py, and leave "
                "devices=1"
            )


def need_mps(what: str) -> None:
    """Raise a RuntimeError where there is no mps device."""
    if not torch.backends.mps.is_available():
        raise RuntimeError(
            f"{what} needs an mps device, and this process has none. "
            "`python -m mps_ds.selftest` says why; on Linux, MPS_DS_SOFT=1 gives a software one"
        )
