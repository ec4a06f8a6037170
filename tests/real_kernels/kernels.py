"""A Metal library made of instances of kernel templates, and its launches with torch tensors."""

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from mps_ds import softmetal

MSLC = Path(softmetal.__file__).parent / "mslc"

# MSL's name of an element type, and torch's.
DTYPES = {
    "float": torch.float32,
    "half": torch.float16,
    "bfloat": torch.bfloat16,
    "bool": torch.bool,
    "char": torch.int8,
    "short": torch.int16,
    "int": torch.int32,
    "long": torch.int64,
    "uchar": torch.uint8,
    "ushort": torch.uint16,
    "uint": torch.uint32,
    "ulong": torch.uint64,
}
FLOATS = ("float", "half", "bfloat")


@dataclass(frozen=True)
class Instance:
    """`name` is what the host asks for, `template` the instance that it stands for."""

    name: str
    template: str  # such as "unary_v<float, float, Exp>"

    def declaration(self) -> str:
        """The explicit instantiation, as Metal wants it."""
        return (
            f'template [[host_name("{self.name}")]] [[kernel]] '
            f"decltype({self.template}) {self.template};"
        )


def instances(table: Iterable[tuple[str, str]]) -> str:
    """The instantiations of (name, template), one a line."""
    return "\n".join(Instance(name, template).declaration() for name, template in table)


Argument = torch.Tensor | np.generic | bytes | softmetal.Threadgroup | None


class Kernels:
    """A compiled library. Each kernel that ran is noted in `ran`; a wrong result fails its test."""

    ran: ClassVar[set[tuple[str, str]]] = set()  # (library, kernel), of the whole session

    def __init__(
        self, label: str, source: str, include: Path, folder: Path, version: str = "3.1"
    ) -> None:
        self.label = label
        text = folder / f"{label}.metal"
        text.write_text(source)
        binary = folder / f"{label}.metallib"
        command = [sys.executable, str(MSLC), str(text), "-o", str(binary), "-I", str(include)]
        if softmetal.settings().trace:
            command.append("--trace")
        done = subprocess.run(
            [*command, "--language-version", version], capture_output=True, text=True
        )
        assert done.returncode == 0, f"{label}: not compiled\n{done.stderr}"
        self.device = softmetal.Device()
        self.library = self.device.new_library_with_url(str(binary))
        self.queue = self.device.new_command_queue()

    def __call__(
        self,
        kernel: str,
        arguments: Sequence[Argument],
        grid: Sequence[int] | int,
        group: Sequence[int] | int,
        *,
        groups: bool = False,
        constants: Mapping[int, np.generic] | None = None,
        orders: Sequence[softmetal.Order] = (softmetal.Order.FORWARD, softmetal.Order.REVERSE),
    ) -> None:
        """Run a kernel over tensors that it reads and writes in place.

        It runs once in each of `orders` of its threads, and must give the same bits: what depends
        on the order is a race. `grid` counts threads, or threadgroups where `groups` is true.
        """
        before = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
        results = []
        for order in orders:
            copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in before]
            with softmetal.changed_settings(order=order, poison=True):
                self._launch(kernel, copies, grid, group, groups, constants)
            results.append([a for a in copies if isinstance(a, torch.Tensor)])
        for other in results[1:]:
            for one, two in zip(results[0], other, strict=True):
                assert same_bits(one, two), f"{kernel}: the result depends on the order of threads"
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        for given, computed in zip(tensors, results[0], strict=True):
            given.copy_(computed)
        Kernels.ran.add((self.label, kernel))

    def _launch(self, kernel, arguments, grid, group, groups, constants) -> None:
        values = softmetal.constants(constants) if constants is not None else None
        function = self.library.new_function_with_name(kernel, values)
        assert function is not None, f"no kernel {kernel}; {self.library.function_names}"
        commands = self.queue.command_buffer()
        encoder = commands.compute_command_encoder()
        copies: list[tuple[torch.Tensor, softmetal.Buffer]] = []
        try:
            encoder.set_compute_pipeline_state(
                self.device.new_compute_pipeline_state_with_function(function)
            )
            self._bind(encoder, arguments, copies)
            dispatch = encoder.dispatch_threadgroups if groups else encoder.dispatch_threads
            dispatch(extent(grid), extent(group))
        finally:
            encoder.end_encoding()
        commands.commit()
        commands.wait_until_completed()
        if commands.error is not None:
            raise commands.error
        for tensor, buffer in copies:
            if tensor.numel():
                bytes_of(tensor)[...] = softmetal.array(buffer, np.uint8)

    def _bind(self, encoder, arguments, copies) -> None:
        slot = threadgroup_slot = 0
        for argument in arguments:
            if isinstance(argument, softmetal.Threadgroup):
                encoder.set_threadgroup_memory_length(argument.length, threadgroup_slot)
                threadgroup_slot += 1
                continue
            if isinstance(argument, torch.Tensor):
                buffer = self.device.new_buffer_with_bytes(bytes_of(argument))
                buffer.label = f"argument {slot}"
                encoder.set_buffer(buffer, 0, slot)
                copies.append((argument, buffer))
            elif argument is not None:
                encoder.set_bytes(np.asarray(argument), slot)
            slot += 1


def extent(size: Sequence[int] | int) -> tuple[int, int, int]:
    """One to three sizes as three."""
    sizes = (size,) if isinstance(size, int) else tuple(size)
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def bytes_of(tensor: torch.Tensor) -> np.ndarray:
    """The memory of a contiguous tensor."""
    assert tensor.is_contiguous()
    return tensor.reshape(-1).view(torch.uint8).numpy()


def same_bits(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Equal bit for bit: NaN equals NaN, 0 differs from -0."""
    return bool(np.array_equal(bytes_of(one.contiguous()), bytes_of(two.contiguous())))


def unwritten(size: Sequence[int] | int, dtype: torch.dtype) -> torch.Tensor:
    """An output that shows what was not written: NaN, or a pattern where there is none."""
    result = torch.empty(size, dtype=dtype)
    bytes_of(result)[...] = 1 if dtype is torch.bool else 0xFF
    return result


def dense(shape: Sequence[int], t: str) -> torch.Tensor:
    """Normally distributed numbers of an MSL type."""
    return torch.randn(tuple(shape)).to(DTYPES[t])
