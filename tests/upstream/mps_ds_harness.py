"""A pytest plugin: DeepSpeed's harness on our layer, and how many processes it may start."""

from __future__ import annotations

import os

import deepspeed
from deepspeed.accelerator import get_accelerator

import mps_ds.deepspeed

mps_ds.deepspeed.enable()
assert deepspeed.mps_ds_enabled

_processes = int(os.environ.get("MPS_DS_UPSTREAM_PROCESSES", "1"))
if _processes > 1:
    type(get_accelerator()).device_count = lambda self: _processes
