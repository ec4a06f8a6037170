"""PyTorch's own samples of its operators (OpInfo): mps equals the CPU bit for bit, forward and
backward. opinfo_exceptions.py lists the operators that do not, with the reason.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("expecttest", reason="PyTorch's internal test library needs it")
pytest.importorskip("torch.testing._internal.common_methods_invocations")
from softmps.opinfo_exceptions import EXCEPTIONS, MISSING_ON_MAC, exceptions
from softmps.opinfo_judge import judge, operators

FEW = 2  # samples
# Of so many operators all samples are equal, at least. A PyTorch with other operators changes it.
LEAST = {"float32": 620, "bfloat16": 500, "float16": 500}


@pytest.mark.parametrize("op", operators(torch.float32), ids=lambda op: op.formatted_name)
def test_a_few_samples(op: Any) -> None:
    name = op.formatted_name
    verdict = judge(op, torch.float32, FEW)
    if verdict.kind == "missing":
        assert name in MISSING_ON_MAC, verdict.detail
    elif verdict.kind != "equal":
        assert name in exceptions("float32"), verdict.detail


@pytest.fixture(params=LEAST)
def all_samples(request: pytest.FixtureRequest) -> tuple[str, dict[str, dict[str, Any]]]:
    """Verdicts on all samples of a type, with those operators that a Mac runs on its CPU."""
    paths = [str(Path(__file__).parents[1]), *(path for path in sys.path if path)]
    environment = {"PYTHONPATH": os.pathsep.join(paths), "PYTORCH_ENABLE_MPS_FALLBACK": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "softmps.opinfo_judge", request.param],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return request.param, json.loads(done.stdout)


@pytest.mark.slow
def test_all_samples(all_samples, tell) -> None:
    dtype, verdicts = all_samples
    kinds = collections.Counter(verdict["kind"] for verdict in verdicts.values())
    samples = sum(verdict["equal"] for verdict in verdicts.values())
    equal = {name for name, verdict in verdicts.items() if verdict["kind"] == "equal"}
    tell(
        f"{dtype}: {len(equal)} of {len(verdicts)} operators equal the CPU bit for bit "
        f"(of these a Mac has no kernel for {len(equal & set(MISSING_ON_MAC))}); "
        f"{samples} samples; the others: {dict(kinds - collections.Counter(equal=len(equal)))}"
    )
    others = {name: verdict["detail"] for name, verdict in verdicts.items() if name not in equal}
    assert {n: why for n, why in others.items() if n not in exceptions(dtype)} == {}
    assert len(equal) >= LEAST[dtype]


@pytest.mark.slow
def test_what_a_mac_lacks_is_refused() -> None:
    refused = set()
    for op in operators(torch.float32):
        if op.formatted_name in MISSING_ON_MAC:
            verdict = judge(op, torch.float32)
            assert verdict.kind == "missing", op.formatted_name
            refused.add(op.formatted_name)
    assert refused == set(MISSING_ON_MAC)


def test_every_exception_is_an_operator() -> None:
    names = {op.formatted_name for op in operators(torch.float32)}
    assert set(EXCEPTIONS) <= names
    assert set(MISSING_ON_MAC) <= names
