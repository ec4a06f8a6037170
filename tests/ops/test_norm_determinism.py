"""The same input gives the same bits: on every device, in every run, in any order of threads."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from norm_reference import BOUNDARIES, DTYPES, bits, on_softmetal, values

from mps_ds.ops import multi_tensor_l2norm, norm_and_non_finite

NORM_TYPES = [2.0, math.inf]


def sample() -> list[torch.Tensor]:
    """All types, sizes and scales; flat, strided and unaligned."""
    tensors = [values(n, DTYPES[n % 3], n) * 2.0 ** (n % 11 - 5) for n in BOUNDARIES[::5]]
    tensors += [values((30, 40)).t(), values((9, 50), torch.float16)[:, ::3]]
    tensors += [values(9001, torch.bfloat16)[1:], 1e-25 * values(5000), 1e30 * values(777)]
    return tensors


def results(tensors, norm_type=2.0) -> list[int]:
    total, norms = multi_tensor_l2norm(tensors, True, norm_type=norm_type)
    groups, found = norm_and_non_finite(
        tensors, [i % 3 for i in range(len(tensors))], norm_type=norm_type
    )
    return bits(total) + bits(norms) + bits(groups) + bits(found)


@pytest.mark.skipif(not torch.backends.mps.is_available(), reason="needs two devices")
@pytest.mark.parametrize("norm_type", NORM_TYPES)
def test_mps_and_cpu_agree(norm_type):
    tensors = sample()
    on_mps = [t.to("mps") for t in tensors[:-5]]
    # .to() makes dense copies; views of views keep their strides.
    on_mps += [values((30, 40)).to("mps").t(), values((9, 50), torch.float16).to("mps")[:, ::3]]
    on_mps += [values(9001, torch.bfloat16).to("mps")[1:]] + [t.to("mps") for t in tensors[-2:]]
    assert results(on_mps, norm_type) == results(tensors, norm_type)


@pytest.mark.parametrize("norm_type", NORM_TYPES)
def test_many_runs_agree(device, norm_type):
    tensors = [t.to(device) for t in sample()]
    assert len({tuple(results(tensors, norm_type)) for _ in range(20)}) == 1


def test_the_number_of_cpu_threads_changes_no_bit():
    tensors = [*sample(), values(1_000_000)]
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = results(tensors)
        torch.set_num_threads(3)
        assert results(tensors) == alone
    finally:
        torch.set_num_threads(threads)


@on_softmetal
@pytest.mark.parametrize("norm_type", NORM_TYPES)
def test_the_order_of_threads_changes_no_bit(norm_type):
    from mps_ds import softmetal

    tensors = [t.to("mps") for t in sample()]
    wanted = results(tensors, norm_type)
    with softmetal.changed_settings(order=softmetal.Order.REVERSE):
        assert results(tensors, norm_type) == wanted


def limited(threads: int, script: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process whose pipelines have that many threads at most."""
    environment = dict(os.environ, MPS_DS_SOFT="1", SOFTMETAL_MAX_THREADS=str(threads))
    environment["PYTHONPATH"] = os.pathsep.join(
        [*map(str, (Path(__file__).parent, Path(__file__).parents[1])), *sys.path]
    )
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )


@on_softmetal
@pytest.mark.parametrize("threads", [896, 448])
def test_thread_limits_change_no_bit(threads):
    script = (
        "from test_norm_determinism import results, sample\n"
        "print(*results([t.to('mps') for t in sample()]))"
    )
    run = limited(threads, script)
    assert run.stdout.split() == [str(b) for b in results([t.to("mps") for t in sample()])], run


@on_softmetal
def test_too_few_threads_are_an_error_not_another_result():
    script = (
        "import torch; from mps_ds.ops import multi_tensor_l2norm\n"
        "multi_tensor_l2norm([torch.ones(4, device='mps')])"
    )
    assert "norm_partials can have 128 threads on this device; it needs 256" in (
        limited(128, script).stderr
    )
