"""Compiled kernels on the current CUDA device, through the driver: nvcc, load, launch, time."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import statistics
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from msl_to_cuda import HERE, Specialisation, flatten, translate

BUILD = HERE.parents[1] / "build" / "gpu"
# Fused steps are written as fma; nothing else is fused, and divisions and roots are exact.
FLAGS = ["-std=c++17", "-O3", "--prec-div=true", "--prec-sqrt=true", "-cubin"]
FLAGS += ["-diag-suppress", "128,177"]  # what a specialisation leaves unreachable or unused


# ---- building ----


@dataclass(frozen=True)
class Source:
    """A .metal file with one choice of constants, for nvcc."""

    metal: Path
    choice: Specialisation
    contracts: bool = False  # nvcc may fuse what the source does not

    def cuda(self) -> str:
        """The translation."""
        return translate(flatten(self.metal), self.choice)


def architecture() -> str:
    """Of the current device: sm_90; $MPS_DS_GPU_ARCH where there is none."""
    if chosen := os.environ.get("MPS_DS_GPU_ARCH"):
        return chosen
    return "sm_{}{}".format(*torch.cuda.get_device_capability())


def build(source: Source) -> Path:
    """The cubin of a source; compiled where it is not there yet."""
    flags = [*FLAGS, f"-fmad={str(source.contracts).lower()}", f"-arch={architecture()}"]
    text = source.cuda()
    shim = (HERE / "metal.cuh").read_text()
    key = hashlib.sha256("\0".join([text, shim, *flags]).encode()).hexdigest()[:16]
    cubin = BUILD / f"{source.choice.name}-{key}.cubin"
    if cubin.exists():
        return cubin
    BUILD.mkdir(parents=True, exist_ok=True)
    file = cubin.with_suffix(".cu")
    file.write_text(text)
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    command = [nvcc, *flags, f"-I{HERE}", "-o", str(cubin), str(file)]
    run = subprocess.run(command, text=True, capture_output=True, check=False)
    if run.returncode:
        raise RuntimeError(run.stdout + run.stderr)
    return cubin


def build_all(sources: Sequence[Source]) -> list[Path]:
    """The cubins of many sources, a compiler for each processor."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(build, sources))


# ---- launching ----


class _Driver:
    def __init__(self) -> None:
        torch.cuda.init()
        torch.zeros(1, device="cuda")  # makes the context that modules are loaded into
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, function: str, *arguments: object) -> None:
        status = getattr(self.library, function)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"{function}: {(text.value or b'?').decode()}")


_driver: _Driver | None = None


def driver() -> _Driver:
    """The driver's functions; every status that is not 0 raises."""
    global _driver
    _driver = _driver or _Driver()
    return _driver


class Kernel:
    """One kernel of a cubin."""

    def __init__(self, source: Source, name: str) -> None:
        module = ctypes.c_void_p()
        driver()("cuModuleLoad", ctypes.byref(module), str(build(source)).encode())
        self.function = ctypes.c_void_p()
        symbol = f"{source.choice.name}_{name}".encode()
        driver()("cuModuleGetFunction", ctypes.byref(self.function), module, symbol)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        driver()("cuFuncGetAttribute", ctypes.byref(value), number, self.function)
        return value.value

    @property
    def max_threads(self) -> int:
        """As maxTotalThreadsPerThreadgroup: what its registers allow."""
        return self._attribute(0)

    @property
    def registers(self) -> int:
        """Of a thread."""
        return self._attribute(4)

    def bind(self, groups: int, threads: int, *arguments: object) -> Callable[[], None]:
        """A launch with these arguments: tensors, integers (addresses) or ctypes values."""
        threads = min(threads, self.max_threads // 32 * 32)
        values = [_value(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values)
        )
        call = driver().library.cuLaunchKernel
        function = self.function
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        held = (values, arguments)

        def launch(keep: object = held) -> None:
            status = call(function, groups, 1, 1, threads, 1, 1, 0, stream, pointers, None)
            if status:
                raise RuntimeError(f"cuLaunchKernel: error {status}, {threads} threads")

        return launch


def _value(argument: object) -> ctypes._SimpleCData | ctypes.Array | ctypes.Structure:
    if isinstance(argument, torch.Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    if isinstance(argument, int):
        return ctypes.c_void_p(argument)
    if isinstance(argument, bytes):
        return ctypes.create_string_buffer(argument, len(argument))
    assert isinstance(argument, (ctypes._SimpleCData, ctypes.Array, ctypes.Structure))
    return argument


# ---- timing ----


@dataclass(frozen=True)
class Time:
    """Milliseconds: the median of repeats, and their spread from the 10th to the 90th percent."""

    ms: float
    low: float
    high: float


def time(work: Callable[[], object], repeats: int = 30, warm: int = 3, ahead: bool = True) -> Time:
    """Between two events on the stream.

    `ahead`: the GPU first waits until the host has encoded everything, so that what is measured is
    the GPU's work; without, a host that is slower than the GPU is measured.
    """
    for _ in range(warm):
        work()
    torch.cuda.synchronize()
    taken = []
    for _ in range(repeats):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        if ahead:
            torch.cuda._sleep(100_000)  # cycles
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end))
    taken.sort()
    return Time(statistics.median(taken), taken[len(taken) // 10], taken[len(taken) * 9 // 10])


def copy_bandwidth() -> float:
    """Bytes a millisecond of a copy of 4 GiB: bytes read and bytes written.

    The best of some buffers: where they lie changes it by 1 %.
    """
    best = 0.0
    for _ in range(6):
        source = torch.randn(1 << 30, device="cuda")
        target = torch.empty_like(source)
        best = max(best, 8 * (1 << 30) / time(_copy(target, source), 15).ms)
        del source, target
        torch.cuda.empty_cache()
    return best


def _copy(target: torch.Tensor, source: torch.Tensor) -> Callable[[], object]:
    return lambda: target.copy_(source)
