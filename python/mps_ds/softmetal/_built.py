"""Says in one sentence why mps_ds.softmetal cannot be imported where it was not built."""

from pathlib import Path

if not list(Path(__file__).parent.glob("_C.*.so")):
    raise ImportError(
        "mps_ds.softmetal was not built: this installation of mps_ds has no software Metal device "
        "(it is built on Linux only, and not with MPS_DS_BUILD=cpu)."
    )
