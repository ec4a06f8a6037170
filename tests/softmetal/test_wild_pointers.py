"""A pointer that leaves the device's memory altogether finds nothing that it could damage."""

import numpy as np
import pytest

from mps_ds import softmetal as metal


@pytest.mark.parametrize("elements", [-(1 << 20), -(1 << 27), 1 << 20, 1 << 27, (1 << 31) - 1])
def test_far_from_every_buffer(host, elements):
    """Megabytes to gigabytes before and behind the first buffer, where other views are mapped."""
    first = host.floats(4, "first")
    encoding = host.encoder("poke").bind(first, np.int32(elements)).dispatch(1, 1)
    with pytest.raises(metal.MetalError, match="kernel 'poke'"):
        encoding.finish()
