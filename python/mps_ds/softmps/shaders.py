"""``torch.mps.compile_shader``: the objects that it returns on a Mac."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

Dimensions: TypeAlias = "int | Sequence[int] | None"


class MetalKernel:
    """A kernel of a :class:`ShaderLibrary`. Calling it encodes one dispatch on the stream."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    @property
    def max_threads_per_threadgroup(self) -> int:
        """Threads that a threadgroup may have."""
        return int(self._kernel.max_threads_per_threadgroup)

    @property
    def thread_execution_width(self) -> int:
        """Threads of a simdgroup."""
        return int(self._kernel.thread_execution_width)

    @property
    def static_thread_group_memory_length(self) -> int:
        """Bytes of threadgroup memory that the kernel declares."""
        return int(self._kernel.static_threadgroup_memory_length)

    def __call__(
        self,
        *args: Any,
        threads: Dimensions = None,
        group_size: Dimensions = None,
        arg_casts: Any = None,
        error_buf_idx: int | None = None,
    ) -> None:
        """Dispatch the kernel with ``args`` bound to the indices from 0.

        Args:
            args: tensors on mps, numbers, or lists and tuples of numbers.
            threads: threads of the grid, one to three dimensions; by default one for each element
                of the first argument.
            group_size: threads of a threadgroup, as many dimensions as ``threads``.
            arg_casts: type of the numbers in the kernel, by argument index or for all: ``"int32"``,
                ``"int16"``, ``"int8"``, ``"uint8"``, ``"fp16"``, ``"bf16"``.
            error_buf_idx: not supported here.

        Raises:
            RuntimeError: for arguments that PyTorch refuses, with its message.
        """
        if error_buf_idx is not None:
            raise NotImplementedError("softmps: error_buf_idx is not supported")
        grid = _dimensions(threads)
        if grid is None:
            if not args or not isinstance(args[0], torch.Tensor):
                raise RuntimeError("Number of threads is undefined or has wrong dimension")
            grid = [args[0].numel()]
        self._kernel.dispatch(args, grid, self._group(grid, _dimensions(group_size)), arg_casts)

    def _group(self, grid: list[int], group: list[int] | None) -> list[int]:
        limit = self.max_threads_per_threadgroup
        if group is None:
            return [min(limit, grid[0])] + [1] * (len(grid) - 1)
        if len(group) != len(grid):
            raise RuntimeError("size and group_size must have same number of dimensions")
        if math.prod(group) > limit:
            raise RuntimeError(f"Threadgroup size exceeds {limit} limit")
        return group


class ShaderLibrary:
    """Kernels by name, as attributes."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._kernels: dict[str, MetalKernel] = {}

    def __getattr__(self, name: str) -> MetalKernel:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._kernels:
            self._kernels[name] = MetalKernel(self._library.kernel(name))
        return self._kernels[name]

    def __dir__(self) -> list[str]:
        return list(self._library.function_names())


def _dimensions(value: Dimensions) -> list[int] | None:
    if value is None:
        return None
    dimensions = [value] if isinstance(value, int) else list(value)
    if not 0 < len(dimensions) < 4:
        raise RuntimeError("Dispatch dimensions must be less than 3 and non-empty")
    return dimensions
