"""The tests run on an `mps` device: a Mac's own, or the software one that a build on Linux has.

`--cpu-only` leaves out what needs the `mps` device: for Macs whose GPU cannot run it
(tools/probe_gpu.py says which), and for a PyTorch that the software one was not built for.
"""

import functools
import sys
from collections.abc import Callable

import pytest
import torch
from freedom import same_under_freedom  # noqa: F401
from kernel_watch import race_free  # noqa: F401

if sys.platform == "darwin":
    # Stand-ins for what a Mac has: its devices, its compilers.
    collect_ignore = ["softmetal", "softmps", "msl", "macos", "real_kernels", "sanitizers"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-only", action="store_true", help="skip what needs the mps device")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("cpu_only"):
        # PyTorch caches the answer, and torch.compile looks for the function below the cache.
        torch.backends.mps.is_available = functools.cache(lambda: False)
    elif sys.platform != "darwin":
        try:
            import mps_ds.softmps  # noqa: F401
        except ImportError as error:  # a CPU-only build: only its tests can run
            if "MPS_DS_BUILD" not in str(error):
                raise


@pytest.fixture
def tell(record_property) -> Callable[[str], None]:
    """`tell(text)`: a line at the end of the run, whichever process the test ran in."""
    return functools.partial(record_property, "told")


def pytest_terminal_summary(terminalreporter) -> None:
    """What tests had to tell, passed or not."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, text in report.user_properties:
                if name == "told":
                    terminalreporter.write_line(text)


@pytest.fixture(params=["mps", "cpu"])
def device(request: pytest.FixtureRequest) -> torch.device:
    """Every device that the operations run on."""
    if request.param == "mps" and not torch.backends.mps.is_available():
        pytest.skip("no mps device in this build")
    return torch.device(request.param)
