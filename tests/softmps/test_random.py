"""Random numbers on mps: seeds, states, generators, and independence from the CPU's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F


def test_a_seed_repeats_the_numbers() -> None:
    torch.mps.manual_seed(3)
    first = torch.randn(8, device="mps")
    torch.manual_seed(3)  # seeds every device
    assert torch.equal(torch.randn(8, device="mps").cpu(), first.cpu())


def test_a_state_repeats_the_numbers() -> None:
    state = torch.mps.get_rng_state()
    first = torch.rand(8, device="mps")
    torch.mps.set_rng_state(state)
    assert torch.equal(torch.rand(8, device="mps").cpu(), first.cpu())


def test_a_state_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        torch.mps.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_mps_and_cpu_differ_for_one_seed() -> None:
    torch.manual_seed(3)
    on_mps = torch.randn(8, device="mps").cpu()
    torch.manual_seed(3)
    assert not torch.equal(on_mps, torch.randn(8))


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: F.dropout(x, 0.5),
        lambda x: torch.bernoulli(x * 0.5),
        lambda x: torch.randperm(5, device="mps"),
        lambda x: torch.randint(0, 9, (3,), device="mps"),
        lambda x: x.normal_(),
        lambda x: x.uniform_(),
        lambda x: torch.multinomial(x, 2),
    ],
)
def test_sampling_on_mps_leaves_the_cpu_generator_alone(draw) -> None:
    before = torch.get_rng_state()
    assert draw(torch.ones(64, device="mps")).device.type == "mps"
    assert torch.equal(torch.get_rng_state(), before)


def test_a_generator_of_its_own() -> None:
    generator = torch.Generator("mps").manual_seed(11)
    assert generator.initial_seed() == 11
    assert generator.device.type == "mps"
    first = torch.randn(4, device="mps", generator=generator)
    copied = generator.clone_state()
    again = torch.randn(4, device="mps", generator=torch.Generator("mps").manual_seed(11))
    assert torch.equal(first.cpu(), again.cpu())
    assert torch.equal(
        torch.randn(4, device="mps", generator=copied).cpu(),
        torch.randn(4, device="mps", generator=generator).cpu(),
    )


def test_a_cpu_generator_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected a 'mps' device type for generator"):
        torch.randn(3, device="mps", generator=torch.Generator())
