"""What `make test` sets up is really there: a skipped test would hide a missing framework."""

import importlib.metadata
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "setup"))
from packaging.requirements import Requirement
from requirements import requirements

sys.path.pop(0)


@pytest.mark.skipif(
    not Path(sys.prefix, ".mps_ds", "requirements-frameworks").exists(),
    reason="not an environment of tools/setup.sh test",
)
@pytest.mark.parametrize("line", [*requirements("deepspeed"), *requirements("frameworks")])
def test_frameworks_are_installed_in_the_versions_named(line):
    wanted = Requirement(line)
    assert importlib.metadata.version(wanted.name) in wanted.specifier
