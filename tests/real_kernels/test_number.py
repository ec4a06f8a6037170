"""How many kernels of others ran and agreed. Runs last, after all tests of this folder."""

import collections

from real_kernels.kernels import Kernels

LEAST = 600


def test_enough_kernels_ran(tell):
    """At least so many different ones; fewer also where only some of the folder's tests ran."""
    by_library = collections.Counter(library for library, _ in Kernels.ran)
    parts = ", ".join(f"{name} {count}" for name, count in sorted(by_library.items()))
    tell(f"kernels of others that ran: {len(Kernels.ran)} ({parts})")
    assert len(Kernels.ran) >= LEAST, f"{len(Kernels.ran)} kernels ran, at least {LEAST} must"
