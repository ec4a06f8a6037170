"""Lightning's DistributedDataParallel on mps: a whole copy of the model in each process."""

from __future__ import annotations

from typing import Any

from ._one_device import OneDevice, need_mps


class ReplicasOnMPS(OneDevice):
    """DistributedDataParallel on mps: Lightning's DDPStrategy, and its arguments."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As the DDPStrategy, after :func:`mps_ds.distributed.enable`.

        Raises:
            RuntimeError: there is no mps device, or PyTorch was built without gloo.
        """
        need_mps(type(self).__name__)
        from mps_ds import distributed

        distributed.enable()
        super().__init__(*args, **options)

    def setup_environment(self) -> None:
        """Check the device and join the processes; see check_device_and_processes."""
        self.check_device_and_processes()
        super().setup_environment()  # type: ignore[misc]

    # DistributedDataParallel takes ids of CUDA devices, and none for others. These are the names
    # of Trainer's and of Fabric's strategy.

    def determine_ddp_device_ids(self) -> None:
        """None: the module's device."""

    def _determine_ddp_device_ids(self) -> None:
        pass
