"""Runs kernels on the software device."""

import numpy as np
import pytest

from mps_ds import softmetal

HEADER = "#include <metal_stdlib>\nusing namespace metal;\n"

MSL_TYPES = {
    "bool": np.bool_,
    "char": np.int8,
    "uchar": np.uint8,
    "short": np.int16,
    "ushort": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "long": np.int64,
    "ulong": np.uint64,
    "half": np.float16,
    "float": np.float32,
    "bfloat": np.uint16,  # as bits: numpy has none
}


@pytest.fixture(scope="session")
def run():
    """`run(source, kernel, buffers, threads, group)`; numpy arrays are the buffers, in order.

    Two lines precede the source: its first line is line 3 of what is compiled.
    `threadgroup_memory` gives the bytes of each [[threadgroup(n)]], `constants` the function
    constants by index or name, `flush_subnormals` says what becomes of subnormal floats.
    """

    def run_kernel(
        source,
        kernel,
        buffers,
        threads,
        group=None,
        *,
        threadgroup_memory=(),
        constants=None,
        flush_subnormals=True,
    ):
        arguments = [*buffers, *(softmetal.Threadgroup(n) for n in threadgroup_memory)]
        values = softmetal.constants(constants) if constants is not None else None
        with softmetal.changed_settings(flush_subnormals=flush_subnormals):
            return softmetal.run(
                HEADER + source,
                kernel,
                arguments,
                threads,
                group or threads,
                constant_values=values,
            )

    return run_kernel


class Expressions:
    """Named expressions over arrays, compiled together: one kernel for each.

    `Expressions({"name": ("result type", "expression of x, y, z", "type of x", ...)})`
    """

    def __init__(self, table):
        self.table = table
        self.source = "\n".join(self._kernel(name, *entry) for name, entry in table.items())

    @staticmethod
    def _kernel(name, result, expression, *types):
        inputs = "".join(f", device const {t}* p{i}" for i, t in enumerate(types))
        loads = " ".join(
            f"{t} {variable} = p{i}[i];"
            for i, (t, variable) in enumerate(zip(types, "xyz", strict=False))
        )
        return (
            f"kernel void {name}(device {result}* out{inputs}, "
            f"uint i [[thread_position_in_grid]]) {{ {loads} out[i] = {expression}; }}"
        )

    def __call__(self, run, name, *inputs, **options):
        """The expression for each element of the inputs."""
        result, _, *types = self.table[name]
        arrays = [
            np.ascontiguousarray(a, dtype=MSL_TYPES[t]) for a, t in zip(inputs, types, strict=True)
        ]
        out = self._results(result, len(arrays[0]))
        run(self.source, name, [out, *arrays], len(out), min(len(out), 256), **options)
        return out

    @staticmethod
    def _results(result, count):
        if result[-1] in "24":
            return np.zeros((count, int(result[-1])), dtype=MSL_TYPES[result[:-1]])
        return np.zeros(count, dtype=MSL_TYPES[result])


@pytest.fixture(scope="session")
def expressions():
    """The class above, as test modules cannot import it."""
    return Expressions
