"""What Metal leaves open and hardware decides: results must not depend on it.

    def test_adam(same_under_freedom):
        same_under_freedom(lambda: adam_of_some_tensors())

runs the function once as usual and once under each of `SETTINGS`, and compares its results bit by
bit. It must make its inputs itself and return tensors or arrays (or lists of them).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

# Of mps_ds.softmetal.changed_settings; third_party/softmetal/README.md says what each does.
SETTINGS: dict[str, dict[str, Any]] = {
    "subnormals kept": {"flush_subnormals": False},
    "896 threads": {"max_threads": 896},
    "448 threads": {"max_threads": 448},
    "reversed": {"order": "REVERSE"},
    "shuffled": {"order": "SHUFFLED", "seed": 1},
    "shuffled otherwise": {"order": "SHUFFLED", "seed": 2},
    "delayed": {"delay": 5},
    "one worker": {"workers": 1},
    "two workers": {"workers": 2},
    "together": {"order": "SHUFFLED", "seed": 3, "max_threads": 448, "delay": 2, "workers": 2},
}


@contextmanager
def freedom(setting: str) -> Iterator[None]:
    """Work of the block, and only that, runs under one of `SETTINGS`."""
    from mps_ds import softmetal

    changes = dict(SETTINGS[setting])
    if "order" in changes:
        changes["order"] = getattr(softmetal.Order, changes["order"])
    torch.mps.synchronize()
    with softmetal.changed_settings(**changes):
        yield
        torch.mps.synchronize()


def bits(results: Any) -> list[torch.Tensor]:
    """Copies of all tensors as bytes."""
    if isinstance(results, (list, tuple)):
        return [tensor for result in results for tensor in bits(result)]
    tensor = torch.as_tensor(results).detach().to("cpu", copy=True).contiguous()
    return [tensor.reshape(-1).view(torch.uint8)]


def assert_same_bits(results: list[torch.Tensor], expected: list[torch.Tensor], when: str) -> None:
    """Equal, tensor by tensor; the message says how many bytes differ and where."""
    assert len(results) == len(expected), f"{when}: another number of results"
    for n, (one, other) in enumerate(zip(results, expected, strict=True)):
        assert one.shape == other.shape, f"{when}: result {n} has another size"
        where = (one != other).nonzero()
        assert not len(where), (
            f"{when}: {len(where)} of {len(one)} bytes of result {n} differ, the first is byte "
            f"{int(where[0])}"
        )


@pytest.fixture
def same_under_freedom() -> Callable[[Callable[[], Any]], None]:
    """The function of the module's docstring; `without` names settings to leave out."""
    if sys.platform == "darwin":
        pytest.skip("only the software device can choose what hardware leaves open")

    def check(compute: Callable[[], Any], without: tuple[str, ...] = ()) -> None:
        expected = bits(compute())
        assert expected, "the function must return its results"
        for setting in SETTINGS:
            if setting in without:
                continue
            with freedom(setting):
                results = bits(compute())
            assert_same_bits(results, expected, setting)

    return check
