"""`--report FILE`: one file to attach to an issue; without names of people and places."""

import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mps_ds.selftest.anonymous import Anonymizer, of_this_process
from mps_ds.selftest.machine import versions
from mps_ds.selftest.report import Report

PACKAGES = (
    "mps_ds", "torch", "numpy", "deepspeed", "lightning", "pytorch-lightning", "transformers",
    "accelerate",
)  # fmt: skip
VARIABLES = ("MPS_DS", "PYTORCH", "TORCH", "MTL_", "METAL_", "SOFTMETAL_", "OMP_", "DISABLE_MPS")
"""Beginnings of the names of variables that change what happens here."""
_SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL")


def environment(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that change what happens here, but none that could hold a secret."""
    return {
        name: value
        for name, value in sorted(variables.items())
        if name.startswith(VARIABLES) and not any(word in name for word in _SECRET)
    }


def content(report: Report, anonymizer: Anonymizer) -> dict[str, Any]:
    """What the file holds: the JSON report, and what else an issue needs."""
    whole = {
        "about": "python -m mps_ds.selftest --report; names of people and places are taken out",
        "versions": versions(PACKAGES),
        "python": {
            "version": sys.version,
            "implementation": platform.python_implementation(),
            "platform": platform.platform(),
            "processor": platform.processor(),
        },
        "environment": environment(),
        **report.as_json(),
    }
    cleaned: dict[str, Any] = anonymizer.value(whole)
    return cleaned


def write(report: Report, path: Path) -> None:
    """Write the file."""
    text = json.dumps(content(report, of_this_process()), indent=2, allow_nan=True)
    path.write_text(text + "\n", encoding="utf-8")
