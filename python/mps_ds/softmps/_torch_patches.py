"""The Python side of "this PyTorch was built with MPS", which a Linux build leaves out."""

from __future__ import annotations

import os
import platform
from types import ModuleType
from typing import Any, NoReturn

import torch

from .shaders import ShaderLibrary


def patch_torch(extension: ModuleType) -> None:
    """Fill in what PyTorch's Linux build lacks. Safe after anything has asked for MPS already."""
    torch_c: Any = torch._C
    torch_c._has_mps = True
    torch_c._mps_get_name = extension.device_name
    torch_c._mps_get_core_count = lambda: os.cpu_count() or 1
    torch_c._mps_compileShader = lambda source: ShaderLibrary(extension.ShaderLibrary(source))
    torch_c._mps_loadMetalllib = _refuse_metallib
    torch_c._mps_loadMetallibFromPath = _refuse_metallib
    torch_c._mps_host_alias_storage = extension.host_alias_storage
    torch_c._mps_isCaptureEnabled = lambda: False
    torch_c._mps_isCapturing = lambda: False
    torch_c._mps_startCapture = _refuse_capture
    torch_c._mps_stopCapture = lambda: None
    _forget_cached_answers()
    _teach_untyped_storage()


def name_the_processor() -> None:
    """Answer "arm" to ``platform.processor()``, as Python does on every Mac that has ``mps``.

    Libraries tell an Apple Silicon Python from one under Rosetta by it (Lightning). The machine and
    the system stay what they are: code that is chosen by these would not run.
    """
    platform.processor = lambda: "arm"


def _forget_cached_answers() -> None:
    for question in (
        torch.backends.mps.is_available,
        torch.backends.mps.is_macos_or_newer,
        torch.backends.mps.is_macos13_or_newer,
        torch.backends.mps.get_name,
        torch.backends.mps.get_core_count,
    ):
        question.cache_clear()


def _refuse_metallib(source: object) -> NoReturn:
    raise RuntimeError(
        "softmps: a .metallib holds code for Apple's compiler; compile from source with "
        "torch.mps.compile_shader"
    )


def _refuse_capture(path: str) -> NoReturn:
    raise RuntimeError(
        "softmps: a capture of the GPU is for Xcode; set MTL_CAPTURE_ENABLED on a Mac"
    )


def _teach_untyped_storage() -> None:
    """``torch.UntypedStorage(size_or_bytes, device="mps")``: what ``storage.mps()`` and
    ``torch.load(map_location="mps")`` make.
    """
    storage: Any = torch.UntypedStorage
    original = storage.__new__

    def new(cls: type, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None:
            return original(cls, *args, **kwargs)
        if torch.device(device).type != "mps":
            return original(cls, *args, device=device, **kwargs)
        content = args[0] if args else kwargs.get("size", 0)
        if isinstance(content, int):
            return torch.empty(content, dtype=torch.uint8, device=device).untyped_storage()
        values = torch.tensor(content, dtype=torch.uint8)
        return values.to(device).untyped_storage()

    storage.__new__ = staticmethod(new)
