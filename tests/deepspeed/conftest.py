"""DeepSpeed is an extra: without it, or without an mps device, these tests are skipped."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

# For `import workers`: as a package this folder would hide the library whose name it has.
sys.path.append(str(Path(__file__).parent))


def _why_not() -> str:
    found = importlib.util.find_spec("deepspeed")
    if found is None or found.origin is None:  # this folder alone has that name too
        return "DeepSpeed is not installed: pip install 'mps_ds[deepspeed]' (DS_BUILD_OPS=0)"
    if not torch.backends.mps.is_available():
        return "no mps device in this build"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _why_not()
    for item in items:
        if reason and "tests/deepspeed" in item.path.as_posix():
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def enabled():
    """DeepSpeed on our layer for one test."""
    import mps_ds.deepspeed

    mps_ds.deepspeed.enable()
    yield
    mps_ds.deepspeed.disable()


@pytest.fixture
def one_process(tmp_path, enabled, monkeypatch):
    """A process group of one, as DeepSpeed has it."""
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")):
        monkeypatch.setenv(name, value)
    import deepspeed.comm
    from deepspeed.utils import debug, groups

    deepspeed.comm.init_distributed(
        "gloo",
        init_method=f"file://{tmp_path}/store",
        rank=0,
        world_size=1,
        verbose=False,
        auto_mpi_discovery=False,
    )
    yield
    deepspeed.comm.destroy_process_group()
    deepspeed.comm.comm.cdb = None
    # 0.19.6 would go on with the first, and holds a model through the others, and so its engine.
    groups._WORLD_GROUP = None
    debug.module_names.clear()
    debug.param_names.clear()
