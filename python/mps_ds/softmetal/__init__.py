"""A software Metal device: Metal's object model in Python, kernels executed on the CPU.

The classes are Apple's protocols method for method (`device.new_buffer_with_length(...)` is
`-[MTLDevice newBufferWithLength:options:]`), so a test written here reads like host code. It needs
no torch; arrays are numpy's. ::

    from mps_ds import softmetal as metal

    device = metal.Device()
    library = device.new_library_with_source(source, metal.precise_options())
    pipeline = device.new_compute_pipeline_state_with_function(
        library.new_function_with_name("saxpy")
    )
    x = device.new_buffer_with_bytes(numpy.ones(64, numpy.float32))
    commands = device.new_command_queue().command_buffer()
    encoder = commands.compute_command_encoder()
    encoder.set_compute_pipeline_state(pipeline)
    encoder.set_buffer(x, 0, 0)
    encoder.set_bytes(numpy.float32(2), 1)
    encoder.dispatch_threads((64, 1, 1), (32, 1, 1))
    encoder.end_encoding()
    commands.commit()
    commands.wait_until_completed()
    if commands.error:
        raise commands.error            # MetalError: kernel, buffer, offset, source line
    result = metal.array(x, numpy.float32)

or, for one kernel over arrays that are read and written in place::

    metal.run(source, "saxpy", [array, numpy.float32(2)], grid=64)

Misuse of the API raises `ValidationError` at the call; what goes wrong in a kernel is the error of
its command buffer. A software device proves correctness, never speed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _built  # noqa: F401
from ._C import (
    STORAGE_MANAGED,
    STORAGE_PRIVATE,
    STORAGE_SHARED,
    USAGE_READ,
    USAGE_WRITE,
    Buffer,
    CommandBuffer,
    CommandBufferError,
    CommandBufferStatus,
    CommandQueue,
    CompileOptions,
    ComputeCommandEncoder,
    ComputePipelineDescriptor,
    ComputePipelineState,
    DataType,
    Device,
    DispatchType,
    Function,
    FunctionConstantValues,
    GPUFamily,
    Guard,
    LanguageVersion,
    Library,
    LibraryError,
    MathFloatingPointFunctions,
    MathMode,
    MetalError,
    Order,
    Settings,
    StorageMode,
    ValidationError,
    counters,
    host_code,
    reset_counters,
    set_compiler,
    set_settings,
    settings,
    trim,
    worker_threads,
)
from ._tracing import (
    DataRaceError,
    Race,
    RacingAccess,
    TracedBuffer,
    TracedKernel,
    Tracing,
    Traffic,
    tracing,
)

__all__ = [
    "STORAGE_MANAGED",
    "STORAGE_PRIVATE",
    "STORAGE_SHARED",
    "USAGE_READ",
    "USAGE_WRITE",
    "Buffer",
    "CommandBuffer",
    "CommandBufferError",
    "CommandBufferStatus",
    "CommandQueue",
    "CompileOptions",
    "ComputeCommandEncoder",
    "ComputePipelineDescriptor",
    "ComputePipelineState",
    "DataRaceError",
    "DataType",
    "Device",
    "DispatchType",
    "Function",
    "FunctionConstantValues",
    "GPUFamily",
    "Guard",
    "LanguageVersion",
    "Library",
    "LibraryError",
    "MathFloatingPointFunctions",
    "MathMode",
    "MetalError",
    "Order",
    "Race",
    "RacingAccess",
    "Settings",
    "StorageMode",
    "Threadgroup",
    "TracedBuffer",
    "TracedKernel",
    "Tracing",
    "Traffic",
    "ValidationError",
    "array",
    "changed_settings",
    "constants",
    "counters",
    "host_code",
    "precise_options",
    "reset_counters",
    "run",
    "set_compiler",
    "set_settings",
    "settings",
    "tracing",
    "trim",
    "worker_threads",
]

# Libraries that are not found compiled are compiled by this interpreter.
_MSLC = Path(__file__).parent / "mslc"
if _MSLC.is_dir():
    set_compiler([sys.executable, str(_MSLC)])


class Threadgroup(NamedTuple):
    """Argument of `run`: bytes of threadgroup memory, a multiple of 16."""

    length: int


def precise_options(
    language_version: LanguageVersion = LanguageVersion.V3_1,
    macros: Mapping[str, object] | None = None,
) -> CompileOptions:
    """Compile options as all code of this project sets them: safe math, precise functions."""
    options = CompileOptions()
    options.language_version = language_version
    options.math_mode = MathMode.SAFE
    options.math_floating_point_functions = MathFloatingPointFunctions.PRECISE
    if macros:
        options.set_preprocessor_macros({name: str(value) for name, value in macros.items()})
    return options


def array(buffer: Buffer, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The contents of a buffer as a one-dimensional array that shares its memory."""
    result: npt.NDArray[Any] = np.frombuffer(memoryview(buffer), dtype)
    return result


def constants(values: Mapping[int | str, np.generic]) -> FunctionConstantValues:
    """Function constants from numpy scalars, by index or by name."""
    result = FunctionConstantValues()
    for where, value in values.items():
        result.set_constant_value(np.asarray(value), _DATA_TYPES[value.dtype.name], where)
    return result


_DATA_TYPES = {
    "float32": DataType.FLOAT,
    "float16": DataType.HALF,
    "int64": DataType.LONG,
    "uint64": DataType.ULONG,
    "int32": DataType.INT,
    "uint32": DataType.UINT,
    "int16": DataType.SHORT,
    "uint16": DataType.USHORT,
    "int8": DataType.CHAR,
    "uint8": DataType.UCHAR,
    "bool": DataType.BOOL,
}


@contextmanager
def changed_settings(**changes: Any) -> Iterator[None]:
    """Settings of the device for the length of a `with` block (see softmetal/softmetal.h)."""
    before = settings()
    now = settings()
    for name, value in changes.items():
        setattr(now, name, value)
    set_settings(now)
    try:
        yield
    finally:
        set_settings(before)


Argument = npt.NDArray[Any] | np.generic | bytes | Threadgroup | Buffer | None
Extent = int | Sequence[int]


def _extent(size: Extent) -> tuple[int, int, int]:
    sizes = (size,) if isinstance(size, int) else tuple(size)
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def run(
    source: str,
    kernel: str,
    arguments: Sequence[Argument],
    grid: Extent,
    group: Extent = 32,
    *,
    groups: bool = False,
    options: CompileOptions | None = None,
    constant_values: FunctionConstantValues | None = None,
) -> CommandBuffer:
    """Compile `source` and run one dispatch of one of its kernels, and wait for it.

    `arguments` fill the buffer slots in order: an array is copied into a buffer, and back when the
    kernel is done; a numpy scalar or `bytes` is set with setBytes:; a `Buffer` is bound as it is;
    None leaves the slot unset. Each `Threadgroup(n)` takes the next threadgroup slot instead.
    `grid` counts threads, or threadgroups where `groups` is true.

    Raises ValidationError or MetalError. Returns the completed command buffer.
    """
    device = Device()
    library = device.new_library_with_source(source, options or precise_options())
    function = library.new_function_with_name(kernel, constant_values)
    if function is None:
        raise LookupError(f"no kernel {kernel!r}; there are {library.function_names}")
    commands = device.new_command_queue().command_buffer()
    encoder = commands.compute_command_encoder()
    copies: list[tuple[npt.NDArray[Any], Buffer]] = []
    try:
        encoder.set_compute_pipeline_state(
            device.new_compute_pipeline_state_with_function(function)
        )
        _set_arguments(device, encoder, arguments, copies)
        dispatch = encoder.dispatch_threadgroups if groups else encoder.dispatch_threads
        dispatch(_extent(grid), _extent(group))
    finally:
        encoder.end_encoding()
    commands.commit()
    commands.wait_until_completed()
    if commands.error is not None:
        raise commands.error
    for out, buffer in copies:
        out[...] = array(buffer, out.dtype).reshape(out.shape)
    return commands


def _set_arguments(
    device: Device,
    encoder: ComputeCommandEncoder,
    arguments: Sequence[Argument],
    copies: list[tuple[npt.NDArray[Any], Buffer]],
) -> None:
    index = threadgroup_index = 0
    for argument in arguments:
        if isinstance(argument, Threadgroup):
            encoder.set_threadgroup_memory_length(argument.length, threadgroup_index)
            threadgroup_index += 1
            continue
        if isinstance(argument, Buffer):
            encoder.set_buffer(argument, 0, index)
        elif isinstance(argument, np.ndarray):
            buffer = device.new_buffer_with_bytes(np.ascontiguousarray(argument))
            buffer.label = f"argument {index}"
            encoder.set_buffer(buffer, 0, index)
            copies.append((argument, buffer))
        elif argument is not None:
            data = argument if isinstance(argument, bytes) else np.asarray(argument)
            encoder.set_bytes(data, index)
        index += 1
