"""The judge of operators: PyTorch's own samples (OpInfo) on mps and on the CPU, bit for bit.

Bit for bit means: as many results, of the same dtype, shape and strides, and with the same bytes.
Results are all strided tensors among the outputs, then the gradients of the sum of those that can
be differentiated.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import unittest.mock
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing._internal import common_methods_invocations
from torch.utils._pytree import tree_flatten, tree_map

import mps_ds.softmps  # noqa: F401 - gives the process its mps device

REFUSALS = (RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError, IndexError)
MISSING_ON_MAC = "is not currently implemented for the MPS device"
NO_DTYPE_ON_MAC = (
    "MPS framework doesn't support float64",
    "MPS backend but it does not have support for that dtype",
)


@dataclass(frozen=True)
class Verdict:
    """What became of an operator: ``equal`` samples, and why the first other one was not equal."""

    equal: int
    kind: str = "equal"  # or: missing, dtype, differs, refused, nothing
    detail: str = ""


def operators(dtype: torch.dtype) -> list[Any]:
    """PyTorch's operators that have samples of `dtype` on the CPU."""
    return [op for op in common_methods_invocations.op_db if dtype in op.dtypes]


def judge(op: Any, dtype: torch.dtype, limit: int | None = None) -> Verdict:
    """Judge the first `limit` samples of `op`, or all.

    A sample that the CPU refuses is left out. The first sample that is refused or differs on mps
    decides; a dtype that a Mac does not have is no verdict yet, since other samples may do without.
    """
    differentiable = op.supports_autograd and dtype in op.backward_dtypes
    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH), _one_seed_for_both():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        samples = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
        equal, refused = 0, None
        for number, sample in enumerate(itertools.islice(samples, limit)):
            verdict = _judge_sample(op, sample)
            if verdict is None:
                continue
            if verdict.kind == "equal":
                equal += 1
            elif verdict.kind == "dtype":
                refused = refused or verdict
            else:
                return Verdict(equal, verdict.kind, f"sample {number}: {verdict.detail}")
    if refused and not equal:
        return refused
    return Verdict(equal) if equal else Verdict(0, "nothing", "no sample that the CPU takes")


@contextlib.contextmanager
def _one_seed_for_both() -> Iterator[None]:
    """A seed gives other numbers on mps than on the CPU; here both start from the state of mps."""
    seed_all = torch.manual_seed

    def seed_alike(seed: int) -> torch.Generator:
        generator = seed_all(seed)
        torch.set_rng_state(torch.mps.get_rng_state())
        return generator

    with unittest.mock.patch.object(torch, "manual_seed", seed_alike):
        yield


def _judge_sample(op: Any, sample: Any) -> Verdict | None:
    generator = torch.mps.get_rng_state()
    try:
        # The same random numbers: the state of either generator is one of the other.
        torch.set_rng_state(generator)
        expected = _run(op, sample, "cpu")
    except REFUSALS:
        return None
    torch.mps.set_rng_state(generator)
    torch.set_rng_state(generator)  # of what draws from the CPU's
    try:
        actual = _run(op, sample, "mps")
    except REFUSALS as error:
        text = str(error)
        if MISSING_ON_MAC in text:
            return Verdict(0, "missing", text.split("'")[1])
        if isinstance(error, TypeError) and any(words in text for words in NO_DTYPE_ON_MAC):
            return Verdict(0, "dtype", text)
        return Verdict(0, "refused", f"{type(error).__name__}: {text.splitlines()[0]}")
    difference = _difference(actual, expected)
    return Verdict(0, "differs", difference) if difference else Verdict(1)


def _on(device: str, value: Any) -> Any:
    def move(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return _copy_of(x, device)
        if isinstance(x, torch.device) or x == "cpu":
            return torch.device(device)
        return x

    return tree_map(move, value)


def _copy_of(x: torch.Tensor, device: str) -> torch.Tensor:
    if x.layout != torch.strided:
        return x.detach().clone().to(device).requires_grad_(x.requires_grad)
    # With its base: operators such as as_strided see all of the storage.
    if x.untyped_storage().nbytes() == 0:
        copy = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=device)
    else:
        base = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()).detach()
        copy = base.clone().to(device).as_strided(x.size(), x.stride(), x.storage_offset())
    if x.is_conj():
        copy = copy.conj()
    if x.is_neg():
        copy = copy._neg_view()
    return copy.detach().requires_grad_(x.requires_grad)


def _run(op: Any, sample: Any, device: str) -> list[torch.Tensor]:
    first, args, kwargs = _on(device, (sample.input, tuple(sample.args), sample.kwargs))
    inputs = [x for x in tree_flatten((first, args, kwargs))[0] if isinstance(x, torch.Tensor)]
    results = op(first, *args, **kwargs)
    outputs = [
        x
        for x in tree_flatten(results)[0]
        if isinstance(x, torch.Tensor) and x.layout == torch.strided
    ]
    leaves = [x for x in inputs if x.requires_grad and x.is_leaf]
    to_differentiate = [x for x in outputs if x.requires_grad]
    gradients: list[torch.Tensor] = []
    if leaves and to_differentiate:
        loss = sum((x.abs() if x.is_complex() else x).sum() for x in to_differentiate)
        found = torch.autograd.grad(loss, leaves, allow_unused=True)
        gradients = [g for g in found if g is not None and g.layout == torch.strided]
    return outputs + gradients


def _difference(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> str:
    if len(actual) != len(expected):
        return f"{len(actual)} results, the CPU gives {len(expected)}"
    for index, (on_mps, on_cpu) in enumerate(zip(actual, expected, strict=True)):
        for what in ("dtype", "shape"):
            if getattr(on_mps, what) != getattr(on_cpu, what):
                return (
                    f"result {index}: {what} {getattr(on_mps, what)}, not {getattr(on_cpu, what)}"
                )
        if on_mps.stride() != on_cpu.stride():
            return f"result {index}: strides {on_mps.stride()}, not {on_cpu.stride()}"
        if _bytes(on_mps) != _bytes(on_cpu):
            return f"result {index}: {_largest_difference(on_mps, on_cpu)}"
    return ""


def _bytes(x: torch.Tensor) -> bytes:
    x = x.detach().cpu().resolve_conj().resolve_neg()
    dense = x.clone(memory_format=torch.contiguous_format)
    return dense.view(-1).view(torch.uint8).numpy().tobytes()


def _largest_difference(actual: torch.Tensor, expected: torch.Tensor) -> str:
    a, b = actual.detach().cpu(), expected.detach()
    if not a.dtype.is_floating_point:
        return f"{int((a != b).sum())} of {a.numel()} elements differ"
    a, b = a.double(), b.double()
    worst = (a - b).abs().nan_to_num(torch.inf).max().item() if a.numel() else 0.0
    return f"differs by up to {worst:g}"


def main(dtype_name: str) -> None:
    """Judge all samples of all operators and print the verdicts as JSON: {name: verdict}."""
    dtype = getattr(torch, dtype_name)
    verdicts = {op.formatted_name: asdict(judge(op, dtype)) for op in operators(dtype)}
    sys.stdout.write(json.dumps(verdicts))


if __name__ == "__main__":
    main(sys.argv[1])
