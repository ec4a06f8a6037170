"""Loads the native library and completes its operators with what only Python can register."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from . import _fakes
from ._needs_torch import how_to_install

_OLDEST = (2, 10)
NO_METAL = (
    "this build of mps_ds has no Metal operations (MPS_DS_BUILD=cpu). Build them, in the source "
    "folder, with: env -u MPS_DS_BUILD python -m pip install --force-reinstall --no-deps ."
)


def _load() -> Any:
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < _OLDEST:
        raise ImportError(
            f"mps_ds needs PyTorch 2.10 or newer, found {torch.__version__}. {how_to_install()}"
        )
    try:
        library = importlib.import_module("mps_ds._C")
    except ModuleNotFoundError as error:
        raise ImportError(
            "mps_ds was installed without its native library. Reinstall it from its source folder "
            "with: python -m pip install ."
        ) from error
    except ImportError as error:
        if str(error).startswith("mps_ds: "):
            raise  # the library's own words
        raise ImportError(
            f"mps_ds: its native library does not load: {error}. Ask what this machine lacks with: "
            "python -m mps_ds.selftest"
        ) from error
    return library


C = _load()


def _bump_versions(op: torch._ops.OpOverload) -> None:
    """Make autograd see what `op` writes: the dispatcher does so for tensors, not for lists."""
    written = [i for i, arg in enumerate(op._schema.arguments) if arg.alias_info is not None]

    def kernel(*args: Any) -> None:
        with torch._C._AutoDispatchBelowADInplaceOrView():
            op(*args)
        for i in written:
            torch.autograd.graph.increment_version(args[i])

    _library.impl(op, kernel, "ADInplaceOrView")  # type: ignore[no-untyped-call]


def writes_in_place(*names: str) -> None:
    """Complete operators that write to their arguments and return nothing.

    Called by the module that holds their Python side.
    """
    for name in names:
        op = getattr(torch.ops.mps_ds, name).default
        _bump_versions(op)
        _fakes.writes_only(op)


def _refuse_mps(op_name: str) -> None:
    """Say why, where PyTorch would say that MPS lacks the operator and suggest its fallback."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{op_name}: {NO_METAL}")

    _library.impl(op_name, kernel, "MPS")  # type: ignore[no-untyped-call]


_library = torch.library.Library("mps_ds", "IMPL")  # type: ignore[no-untyped-call]
if not C.has_metal:
    for _name in torch._C._dispatch_get_all_op_names():
        if _name.startswith("mps_ds::"):
            _refuse_mps(_name)
