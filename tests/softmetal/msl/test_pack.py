"""Normalised integers packed in a word, and back."""

import numpy as np
import pytest

FORMATS = {"unorm4x8": 8, "snorm4x8": 8, "unorm2x16": 16, "snorm2x16": 16}
TYPES = {"float": np.float32, "half": np.float16}


def kernels():
    lines = ["#include <metal_pack>"]
    for name, bits in FORMATS.items():
        for t in TYPES:
            lanes = f"{t}{32 // bits}"
            lines.append(
                f"kernel void unpack_{name}_{t}(device {lanes}* out, device const uint* in, "
                f"uint i [[thread_position_in_grid]]) {{ out[i] = unpack_{name}_to_{t}(in[i]); }}\n"
                f"kernel void pack_{name}_{t}(device uint* out, device const {lanes}* in, "
                f"uint i [[thread_position_in_grid]]) {{ out[i] = pack_{t}_to_{name}(in[i]); }}"
            )
    return "\n".join(lines)


SOURCE = kernels()


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("name", FORMATS)
def test_unpack(run, name, t):
    """The integer divided by the largest one, rounded once to float and once to the type."""
    bits = FORMATS[name]
    words = np.random.default_rng(0).integers(0, 2**32, 64, dtype=np.uint32)
    words[:2] = [0x80008080, 0x7FFFFF7F]
    out = np.zeros((64, 32 // bits), TYPES[t])
    run(SOURCE, f"unpack_{name}_{t}", [out, words], 64)
    integer = f"{'u' if name[0] == 'u' else ''}int{bits}"
    values = words.view(integer).reshape(64, -1)
    largest = np.float32(np.iinfo(integer).max)
    expected = np.maximum(values.astype(np.float32) / largest, np.float32(-1)).astype(TYPES[t])
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("name", FORMATS)
def test_pack(run, name, t):
    """To nearest; beyond the range its end, NaN 0. What was unpacked comes back."""
    bits = FORMATS[name]
    values = np.random.default_rng(0).uniform(-1.5, 1.5, (64, 32 // bits)).astype(TYPES[t])
    values[0] = np.nan
    values[1] = np.inf
    values[2] = -np.inf
    out = np.zeros(64, np.uint32)
    run(SOURCE, f"pack_{name}_{t}", [out, values], 64)
    integer = f"{'u' if name[0] == 'u' else ''}int{bits}"
    lowest = 0 if name[0] == "u" else -1
    in_range = np.clip(
        np.nan_to_num(values.astype(np.float32), nan=0, posinf=1, neginf=-1), lowest, 1
    )
    expected = np.rint(in_range * np.float32(np.iinfo(integer).max)).astype(integer)
    np.testing.assert_array_equal(out.view(integer).reshape(64, -1), expected)
