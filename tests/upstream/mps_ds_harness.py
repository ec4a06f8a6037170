"""A pytest plugin: DeepSpeed's harness on our layer, and how many processes it may start."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.spawn
import os
import sys
from typing import Any

import deepspeed
import torch.multiprocessing
from deepspeed.accelerator import get_accelerator
from deepspeed.git_version_info import torch_info

_HOOKS = ("MPS_DS_SOFT", "MPS_DS_DEEPSPEED")


def _fork_instead_of_spawning() -> None:
    """From a process that has imported the libraries: see mps_ds_fork_server.py."""
    set_method = torch.multiprocessing.set_start_method
    data = multiprocessing.spawn.get_preparation_data

    def set_start_method(method: str | None, force: bool = False) -> None:
        _start_fork_server()
        set_method("forkserver" if method == "spawn" else method, force=force)

    def data_and_environment(name: str) -> dict[str, Any]:
        return {**data(name), "environment": dict(os.environ)}

    torch.multiprocessing.set_start_method = set_start_method
    multiprocessing.spawn.get_preparation_data = data_and_environment
    multiprocessing.set_forkserver_preload(["mps_ds_fork_server"])


def _start_fork_server() -> None:
    """Without the device and the layer, which come to each process that it forks."""
    hooks = {name: os.environ.pop(name) for name in _HOOKS if name in os.environ}
    multiprocessing.forkserver.ensure_running()
    os.environ.update(hooks)


if os.environ["DS_ACCELERATOR"] == "mps":  # else DeepSpeed's own is looked at
    import mps_ds.deepspeed

    mps_ds.deepspeed.enable()
    assert deepspeed.mps_ds_enabled

_processes = int(os.environ.get("MPS_DS_UPSTREAM_PROCESSES", "1"))
if _processes > 1:
    type(get_accelerator()).device_count = lambda self: _processes
if sys.platform != "darwin":
    _fork_instead_of_spawning()
torch_info.update(json.loads(os.environ["MPS_DS_UPSTREAM_VERSIONS"]))
