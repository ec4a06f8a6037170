"""What Python's fork server imports before it forks the processes of DeepSpeed's tests.

The harness spawns a new Python for each process of each test, because Metal does not outlive a
fork; most of a run is then the import of PyTorch and other libraries. This module imports those
and neither a device nor DeepSpeed: both come to each process anew, as they do with spawn, by the
start-up hooks of this package. On a Mac it is not used.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import multiprocessing.spawn
import os
import sys
from typing import Any

# Whatever DeepSpeed and its tests import of others that takes long.
LIBRARIES = (
    "hjson",
    "numpy",
    "psutil",
    "pydantic.functional_serializers",
    "pytest",
    "setuptools",
    "torch._inductor.compile_fx",
    "torch.distributed._composable.fsdp",
    "torch.distributed.checkpoint",
    "torch.distributed.elastic.agent.server.api",
    "torch.utils.tensorboard",
    "transformers.models.opt.modeling_opt",
)

VERSIONS = json.loads(os.environ["MPS_DS_UPSTREAM_VERSIONS"])

_prepare = multiprocessing.spawn.prepare


def _prepare_with_environment(data: dict[str, Any]) -> None:
    """A spawned process has the environment of its parent, and so the hooks that it names."""
    os.environ.clear()
    os.environ.update(data.pop("environment"))
    if os.environ.get("MPS_DS_SOFT", "0") != "0":
        importlib.import_module("mps_ds._autosoft")
    if os.environ.get("MPS_DS_DEEPSPEED", "0") != "0":
        importlib.import_module("mps_ds._autodeepspeed")
    _prepare(data)
    # A test in bf16 asks for the versions of CUDA and NCCL that DeepSpeed was built with.
    importlib.import_module("deepspeed.git_version_info").torch_info.update(VERSIONS)


for _name in LIBRARIES:
    with contextlib.suppress(ImportError):  # DeepSpeed or its tests do without
        importlib.import_module(_name)
assert not sys.modules.keys() & {"deepspeed", "mps_ds.softmps"}
assert len(os.listdir("/proc/self/task")) == 1, "no process that was forked would have this thread"
multiprocessing.spawn.prepare = _prepare_with_environment
if "numpy" in sys.modules:  # Python's own generator does so itself
    os.register_at_fork(after_in_child=sys.modules["numpy"].random.seed)
gc.freeze()  # a collection would copy every page of what was imported
