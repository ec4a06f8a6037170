"""How many kernels of others ran and agreed. Runs last, after all tests of this folder."""

from real_kernels.kernels import Kernels

LEAST = 600


def test_enough_kernels_ran():
    """At least so many different ones; fewer also where only some of the folder's tests ran."""
    assert len(Kernels.ran) >= LEAST, f"{len(Kernels.ran)} kernels ran, at least {LEAST} must"
