"""MPSAccelerator answers what DeepSpeed asks of an accelerator."""

from __future__ import annotations

import inspect

import pytest
import torch


@pytest.fixture
def accelerator(enabled):
    from deepspeed.accelerator import get_accelerator

    return get_accelerator()


def test_it_is_deepspeeds_accelerator(accelerator) -> None:
    from deepspeed.accelerator.abstract_accelerator import DeepSpeedAccelerator

    from mps_ds.deepspeed.accelerator import MPSAccelerator

    assert isinstance(accelerator, MPSAccelerator)
    assert isinstance(accelerator, DeepSpeedAccelerator)
    assert not inspect.isabstract(MPSAccelerator)


def test_every_abstract_method_is_answered_by_itself(accelerator) -> None:
    from deepspeed.accelerator.abstract_accelerator import DeepSpeedAccelerator

    for name in DeepSpeedAccelerator.__abstractmethods__:
        assert name in vars(type(accelerator)), name
        theirs = inspect.getattr_static(DeepSpeedAccelerator, name)
        if inspect.isfunction(theirs):
            ours = inspect.signature(getattr(accelerator, name)).parameters
            needed = list(inspect.signature(theirs).parameters)[1:]
            assert len(ours) >= len(needed), f"{name} takes {list(ours)}"


def test_every_index_is_the_one_device(accelerator) -> None:
    for index in (0, 1, 7):
        assert accelerator.device_name(index) == "mps:0"
        assert accelerator.device(index) == torch.device("mps:0")
        accelerator.set_device(index)
        assert torch.ones(1, device=accelerator.device_name(index)).device.type == "mps"
    assert accelerator.device_name() == "mps"
    assert accelerator.current_device_name() == "mps:0"
    assert accelerator.device_count() == 1
    assert accelerator.on_accelerator(torch.ones(1, device="mps"))
    assert not accelerator.on_accelerator(torch.ones(1))


def test_memory_figures_and_their_peaks(accelerator) -> None:
    before = accelerator.memory_allocated()
    accelerator.reset_peak_memory_stats()
    big = torch.zeros(1 << 20, device="mps")
    held = accelerator.memory_allocated()
    assert held - before >= 4 << 20
    del big
    accelerator.synchronize()
    accelerator.empty_cache()
    assert accelerator.memory_allocated() <= held - (4 << 20)
    assert accelerator.max_memory_allocated() == held
    stats = accelerator.memory_stats()
    assert stats["allocated_bytes.all.peak"] == held
    assert stats["allocated_bytes.all.current"] == accelerator.memory_allocated()
    assert accelerator.max_memory_reserved() >= accelerator.memory_reserved()
    accelerator.reset_max_memory_allocated()
    assert accelerator.max_memory_allocated() == accelerator.memory_allocated()
    assert 0 < accelerator.available_memory() <= accelerator.total_memory()


def test_deepspeeds_own_memory_functions_are_ours(accelerator) -> None:
    from deepspeed.runtime import utils

    assert utils.torch_memory_reserved() == accelerator.memory_reserved()
    utils.see_memory_usage("a report", force=True)


def test_types(accelerator, monkeypatch) -> None:
    assert accelerator.supported_dtypes() == [torch.float32, torch.float16, torch.bfloat16]
    assert accelerator.is_fp16_supported()
    assert not accelerator.is_fp64_supported()
    monkeypatch.setattr(torch.backends.mps, "is_macos_or_newer", lambda *version: False)
    assert not accelerator.is_bf16_supported()
    assert accelerator.supported_dtypes() == [torch.float32, torch.float16]


def test_bf16_needs_macos_14(accelerator, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(torch.backends.mps, "is_macos_or_newer", lambda *v: asked.append(v) or True)
    assert accelerator.is_bf16_supported()
    assert asked == [(14, 0)]


def test_random_state(accelerator) -> None:
    accelerator.manual_seed(5)
    assert accelerator.initial_seed() == 5
    state = accelerator.get_rng_state()
    first = torch.rand(3, device="mps")
    accelerator.set_rng_state(state)
    assert torch.equal(first, torch.rand(3, device="mps"))
    generator = accelerator.default_generator(0)
    assert generator.device.type == "mps"
    accelerator.set_rng_state(state)
    assert torch.equal(first, torch.rand(3, device="mps", generator=generator))


@pytest.mark.parametrize("backend", [None, "torch", "native"])
def test_nothing_is_pinned_whatever_the_backend(accelerator, monkeypatch, backend) -> None:
    from deepspeed.utils import pin_memory_tracker

    if backend is not None:
        monkeypatch.setenv("DS_PIN_MEMORY_BACKEND", backend)
    counted = []
    monkeypatch.setattr(pin_memory_tracker, "track_pinned_memory", counted.append)
    x = torch.ones(2, 3)
    pinned = accelerator.pin_memory(x)
    assert pinned is x
    assert accelerator.is_pinned(pinned) is pinned.is_pinned() is False
    assert accelerator.unpin_memory(pinned) is None
    assert pinned.tolist() == [[1] * 3] * 2, "it is still there"
    assert accelerator.pin_memory(x, make_copy=False).shape == (2, 3)
    assert accelerator.pin_memory(x, make_copy=False, match_shape=False).shape == (6,)
    for made in (
        accelerator.pin_empty(2, 3, dtype=torch.float16),
        accelerator.pin_empty((2, 3), dtype=torch.float16),
        accelerator.pin_empty(x.shape, dtype=torch.float16),
        accelerator.pin_empty_like(x, dtype=torch.float16),
    ):
        assert (made.shape, made.dtype, made.device.type) == ((2, 3), torch.float16, "cpu")
    assert accelerator.pin_empty(dtype=torch.float16).shape == ()
    assert accelerator.pin_empty_like(x.to("mps")).device.type == "cpu"
    with pytest.raises(ValueError, match="mps has no memory of the host; accepted is cpu"):
        accelerator.pin_empty(1, dtype=torch.float16, device="mps")
    assert counted == []


def test_it_has_all_that_deepspeeds_own_for_mps_has(accelerator) -> None:
    from deepspeed.accelerator.mps_accelerator import MPS_Accelerator

    public = [name for name in dir(MPS_Accelerator) if not name.startswith("_")]
    assert len(public) > 70
    for name in public:
        assert hasattr(type(accelerator), name), name
        theirs = inspect.getattr_static(MPS_Accelerator, name)
        if inspect.isfunction(theirs):
            ours = inspect.signature(getattr(type(accelerator), name)).parameters.values()
            wanted = inspect.signature(theirs).parameters.values()
            assert len(ours) >= len(wanted), name
            needed = [
                p.name for p in ours if p.default is p.empty and p.kind is not p.VAR_POSITIONAL
            ]
            assert len(needed) <= sum(p.default is p.empty for p in wanted), name


def test_memory_can_be_limited(accelerator) -> None:
    for fraction in (0.5, 1.7):  # the second is what PyTorch starts with
        accelerator.set_per_process_memory_fraction(fraction)
    with pytest.raises(ValueError, match="0~2"):
        accelerator.set_per_process_memory_fraction(3.0)


def test_an_event_can_be_recorded_and_waited_for(accelerator) -> None:
    event = accelerator.Event()
    event.record()
    torch.ones(3, device="mps").add_(1)
    event.synchronize()
    assert event.query()


def test_visible_devices_are_written_where_it_says(accelerator) -> None:
    environment: dict[str, str] = {}
    accelerator.set_visible_devices_envs(environment, [0, 1])
    assert environment == dict.fromkeys(accelerator.visible_devices_envs(), "0,1")


def test_compile_backends(accelerator) -> None:
    assert accelerator.get_compile_backend() == "inductor"
    accelerator.set_compile_backend("eager")
    assert accelerator.get_compile_backend() == "eager"
    with pytest.raises(ValueError, match="nonsense is no backend"):
        accelerator.set_compile_backend("nonsense")


def test_callbacks_are_called_and_contexts_do_nothing(accelerator) -> None:
    called = []
    accelerator.lazy_call(lambda: called.append(1))
    assert called == [1]
    with accelerator.stream(accelerator.current_stream()):
        pass
    with accelerator.capture_to_graph(accelerator.create_graph()):
        pass
    assert accelerator.communication_backend_name() == "gloo"
