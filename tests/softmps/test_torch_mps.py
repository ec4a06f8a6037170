"""What ``torch.mps`` and ``torch.accelerator`` offer beside tensors."""

from __future__ import annotations

import pytest
import torch


def test_fork_rng_gives_the_numbers_back() -> None:
    torch.mps.manual_seed(7)
    expected = torch.rand(5, device="mps")
    torch.mps.manual_seed(7)
    with torch.random.fork_rng(devices=[0], device_type="mps"):
        torch.manual_seed(1)
        torch.rand(100, device="mps")
    assert torch.equal(torch.rand(5, device="mps"), expected)


def test_seeding_everything_reaches_the_device() -> None:
    torch.manual_seed(3)
    first = torch.rand(5, device="mps")
    torch.rand(5, device="mps")
    torch.manual_seed(3)
    assert torch.equal(torch.rand(5, device="mps"), first)
    torch.mps.seed()
    assert not torch.equal(torch.rand(5, device="mps"), first)


def test_one_device() -> None:
    assert torch.mps.device_count() == torch.accelerator.device_count() == 1
    assert torch.zeros(1, device="mps").device == torch.device("mps", 0)
    assert torch.zeros(1, device="mps:0").get_device() == 0
    for use in (
        lambda: torch.zeros(1, device="mps:1"),
        lambda: torch.zeros(1).to("mps:1"),
        lambda: torch.zeros(1, device="mps").to("mps:1"),
        lambda: torch.accelerator.set_device_index(1),
        lambda: torch.nn.Linear(1, 1).to("mps:1"),
    ):
        with pytest.raises(RuntimeError, match="MPS has one device, mps:0, but got mps:1"):
            use()


@pytest.mark.parametrize("mode", ["interval", "event", "interval,event", "Interval, Event"])
def test_the_profiler_accepts_what_pytorch_does(mode: str) -> None:
    with torch.mps.profiler.profile(mode, wait_until_completed=True):
        torch.ones(3, device="mps").sum()
    torch.mps.profiler.start(mode)
    with pytest.raises(RuntimeError, match="Tracing Signposts is already enabled"):
        torch.mps.profiler.start(mode)
    torch.mps.profiler.stop()


def test_the_profiler_refuses_another_mode() -> None:
    with pytest.raises(RuntimeError, match="Invalid Signpost trace mode: everything"):
        torch.mps.profiler.start("everything")  # type: ignore[arg-type]
    torch.mps.profiler.stop()


def test_captures_are_for_a_mac(tmp_path) -> None:
    assert not torch.mps.profiler.is_metal_capture_enabled()
    assert not torch.mps.profiler.is_capturing_metal()
    with (
        pytest.raises(RuntimeError, match="capture of the GPU is for Xcode"),
        torch.mps.profiler.metal_capture(str(tmp_path / "x.gputrace")),
    ):
        pass


def test_pytorchs_own_profiler_sees_the_operators() -> None:
    x = torch.ones(3, device="mps")
    with torch.profiler.profile() as profile:
        x.add_(1)
    assert "aten::add_" in {event.key for event in profile.key_averages()}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_casts_and_gradients_come_back_in_full(dtype: torch.dtype) -> None:
    layer = torch.nn.Linear(4, 4, device="mps")
    with torch.autocast("mps", dtype=dtype):
        y = layer(torch.ones(2, 4, device="mps"))
        assert y.dtype == dtype
        assert torch.nn.functional.softmax(y, -1).dtype == (
            torch.float32 if dtype == torch.float16 else y.softmax(-1).dtype
        )
        with torch.autocast("mps", enabled=False):
            assert (y.float() @ y.float().t()).dtype == torch.float32
    y.sum().backward()
    assert layer.weight.grad.dtype == torch.float32


def test_a_scaler_saves_its_scale_and_grows_it() -> None:
    parameter = torch.ones(2, device="mps", requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("mps", init_scale=4.0, growth_interval=2)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(parameter.sum()).backward()
        scaler.unscale_(optimizer)
        assert parameter.grad.tolist() == [1, 1]
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 8.0
    assert parameter.tolist() == [-1, -1]
    other = torch.amp.GradScaler("mps")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8.0


def test_memory_of_a_step_is_returned() -> None:
    layer = torch.nn.Linear(100, 100, device="mps")
    before = torch.mps.current_allocated_memory()
    layer(torch.ones(50, 100, device="mps")).sum().backward()
    gradients = sum(p.grad.nbytes for p in layer.parameters())
    assert torch.mps.current_allocated_memory() == before + gradients
    layer.zero_grad()
    assert torch.mps.current_allocated_memory() == before
    torch.mps.empty_cache()
    assert torch.mps.driver_allocated_memory() == before
