"""Switches DeepSpeed to this package, and back."""

from __future__ import annotations

import gc
import os
import sys
import threading
from contextlib import ExitStack
from typing import Any

import torch

from mps_ds import distributed

from ._replace import replace, sweep
from .replacements import SUPPORTED, apply, complain

VARIABLE = "MPS_DS_DEEPSPEED"

_lock = threading.Lock()
_undo: ExitStack | None = None


def is_enabled() -> bool:
    """Whether :func:`enable` is in force in this process."""
    return _undo is not None


def enable() -> None:
    """Make DeepSpeed train on mps with the operations of this package, in this process.

    Imports deepspeed, sets our accelerator, rebinds the op builders and the memory functions that
    DeepSpeed bound when it was imported (bindings.py) and replaces its overflow checks and norms
    (the table in replacements.py). Call it before or after ``import deepspeed``, from any thread,
    again if you like, but before the first engine.

    Two changes concern all of the process, DeepSpeed or not: ``torch.Tensor.copy_`` and
    ``torch.Tensor.to`` wait for copies between host and mps, ``non_blocking`` or not (copies.py
    says why), and collectives take mps tensors (:mod:`mps_ds.distributed`).

    Sets ``MPS_DS_DEEPSPEED=1`` in the environment: child processes (spawn, torchrun, DeepSpeed's
    launcher) then do the same when they import deepspeed.

    Raises:
        ImportError: deepspeed is not installed.
        RuntimeError: there is no mps device; an engine exists already, built on what was there
            before; ``DS_ACCELERATOR`` asks for another device; this DeepSpeed is too old or too new
            to be enabled; or, with ``MPS_DS_STRICT=1``, its sources differ from those of the
            supported versions. Without it they give one warning that names the functions that stay
            DeepSpeed's own.
    """
    global _undo
    if is_enabled():
        return
    _check_device()
    # Not under the lock: the start-up hook calls enable() where deepspeed is being imported, and
    # the thread that does so would wait for a lock whose holder waits for the import.
    deepspeed = _import()
    with _lock:
        if is_enabled():
            return
        with ExitStack() as undo:
            _enable(undo, deepspeed)
            _undo = undo.pop_all()


def disable() -> None:
    """Undo :func:`enable`: DeepSpeed is what it was.

    What others have done meanwhile stays: patches of theirs over ours, and collectives on mps
    tensors where they have called :func:`mps_ds.distributed.enable`.

    Raises:
        RuntimeError: an engine exists that was built on what would go.
    """
    global _undo
    with _lock:
        if _undo is None:
            return
        _refuse_engines("disable()")
        undo, _undo = _undo, None
        undo.close()


def _check_device() -> None:
    if not torch.backends.mps.is_available():
        raise RuntimeError(
            "mps_ds.deepspeed: there is no mps device in this process; `python -m mps_ds.selftest` "
            "says why"
        )
    wanted = os.environ.get("DS_ACCELERATOR", "mps")
    if wanted != "mps":
        raise RuntimeError(
            f"mps_ds.deepspeed: DS_ACCELERATOR={wanted} asks for another device; unset it"
        )


def _import() -> Any:
    try:
        import deepspeed
    except ModuleNotFoundError as error:
        if error.name != "deepspeed":
            raise
        raise ImportError(
            "DeepSpeed is not installed. Install it with: DS_BUILD_OPS=0 python -m pip install "
            "'mps_ds[deepspeed]'"
        ) from error
    return deepspeed


def _enable(undo: ExitStack, deepspeed: Any) -> None:
    _refuse_engines("enable()")
    sweep(undo, "deepspeed")
    distributed.enable_until(undo)
    try:
        unknown = _replace_parts(undo)
    except (AttributeError, ImportError, KeyError, TypeError) as error:
        if deepspeed.__version__ in SUPPORTED:
            raise
        raise RuntimeError(
            f"mps_ds.deepspeed: DeepSpeed {deepspeed.__version__} is too old or too new for this "
            f"package, which is written for {' and '.join(SUPPORTED)}: install "
            f"deepspeed=={SUPPORTED[-1]} ({error})"
        ) from error
    complain(deepspeed.__version__, unknown)
    replace(undo, deepspeed, "mps_ds_enabled", True)
    _set_variable(undo)


def _replace_parts(undo: ExitStack) -> list[str]:
    """All of DeepSpeed that is replaced; the names of functions whose source is not known."""
    from . import bindings, copies

    copies.make_blocking(undo)
    bindings.rebind(undo)
    return apply(undo)


def _refuse_engines(call: str) -> None:
    """An engine holds the optimizers, builders and functions of the time when it was made."""
    module: Any = sys.modules.get("deepspeed.runtime.engine")
    if module is None:
        return
    engine = module.DeepSpeedEngine

    def exists() -> bool:
        # By type: isinstance() would wake lazy objects, which warn or import.
        return any(issubclass(kind, engine) for kind in set(map(type, gc.get_objects())))

    if not exists():
        return
    gc.collect()  # an engine is in reference cycles: one that is gone must not count
    if exists():
        raise RuntimeError(
            f"mps_ds.deepspeed.{call}: a DeepSpeed engine exists already. Call it before the first "
            "deepspeed.initialize(), or drop all engines first."
        )


def _set_variable(undo: ExitStack) -> None:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "1"
    if before is None:
        undo.callback(os.environ.pop, VARIABLE, None)
    else:
        undo.callback(os.environ.__setitem__, VARIABLE, before)
