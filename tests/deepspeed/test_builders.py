"""DeepSpeed's optimizers run unmodified on our operations; what is missing says so."""

from __future__ import annotations

import pytest
import torch

from mps_ds.selftest.explain import explain

SHAPES = [(7, 5), (33,), (2, 3, 4), (0,), ()]


def reference_step(p, g, m, v, t, lr, betas, eps, wd, adamw):
    """Adam in float64 on float64 tensors, in place."""
    if adamw:
        p.mul_(1 - lr * wd)
    else:
        g = g + wd * p
    m.mul_(betas[0]).add_(g, alpha=1 - betas[0])
    v.mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
    root = (v / (1 - betas[1] ** t)).sqrt_().add_(eps)
    p.addcdiv_(m / (1 - betas[0] ** t), root, value=-lr)


def run(optimizer, params, adamw, steps=3, lr=1e-2, wd=0.1):
    """Step DeepSpeed's class and float64 beside it; each step starts from the stored values."""
    generator = torch.Generator().manual_seed(1)
    for t in range(1, steps + 1):
        before = []
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(p.device, p.dtype)
            state = optimizer.state.get(p, {})
            before.append(
                [
                    p.detach().cpu().double(),
                    p.grad.cpu().double(),
                    *(
                        state[k].cpu().double() if k in state else torch.zeros(p.shape).double()
                        for k in ("exp_avg", "exp_avg_sq")
                    ),
                ]
            )
        optimizer.step()
        for p, (value, grad, m, v) in zip(params, before, strict=True):
            reference_step(value, grad, m, v, t, lr, (0.9, 0.999), 1e-8, wd, adamw)
            unit = torch.finfo(p.dtype).eps
            # Half a unit of the store, and as much again for terms that cancel.
            bound = unit * value.abs() + unit * lr
            assert (p.detach().cpu().double() - value).abs().le(bound).all(), (t, p.dtype, p.shape)


@pytest.mark.parametrize("adamw", [True, False])
def test_fused_adam_equals_float64(enabled, adamw) -> None:
    from deepspeed.ops.adam import FusedAdam

    generator = torch.Generator().manual_seed(0)
    params = [
        torch.nn.Parameter(torch.randn(shape, generator=generator).to("mps", dtype))
        for dtype in (torch.float32, torch.float16, torch.bfloat16)
        for shape in SHAPES
    ]
    # A group for each: DeepSpeed counts a step for each dtype within a group (DeepSpeed#8471).
    groups = [{"params": params[i : i + len(SHAPES)]} for i in range(0, len(params), len(SHAPES))]
    run(FusedAdam(groups, lr=1e-2, weight_decay=0.1, adam_w_mode=adamw), params, adamw)


def test_fused_adam_honours_its_noop_flag(enabled) -> None:
    from deepspeed.ops.adam import FusedAdam

    p = torch.nn.Parameter(torch.ones(5, device="mps"))
    optimizer = FusedAdam([p])
    p.grad = torch.ones_like(p)
    for flag in (torch.ones(1, dtype=torch.int32), torch.ones(1, dtype=torch.int32, device="mps")):
        optimizer._dummy_overflow_buf = flag
        optimizer.step()
        assert p.tolist() == [1] * 5
    optimizer._dummy_overflow_buf = torch.zeros(1, dtype=torch.int32)
    optimizer.step()
    assert p.tolist() != [1] * 5


@pytest.mark.parametrize("fp32_states", [True, False])
@pytest.mark.parametrize("adamw", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_cpu_adam_equals_float64(enabled, dtype, adamw, fp32_states) -> None:
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    generator = torch.Generator().manual_seed(0)
    params = [
        torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in SHAPES
    ]
    optimizer = DeepSpeedCPUAdam(
        params,
        lr=1e-2,
        weight_decay=0.1,
        adamw_mode=adamw,
        fp32_optimizer_states=fp32_states,
    )
    run(optimizer, params, adamw)
    expected = torch.float32 if fp32_states else dtype
    assert all(optimizer.state[p]["exp_avg"].dtype == expected for p in params)


def test_what_is_missing_says_so_and_what_to_use(enabled) -> None:
    from deepspeed.accelerator import get_accelerator

    for name, words in {
        "FusedLambBuilder": "FusedLambBuilder, which has no implementation for mps. Use FusedAdam",
        "AsyncIOBuilder": "there is no NVMe offload here",
        "NoSuchBuilder": "NoSuchBuilder, which has no implementation for mps",
    }.items():
        builder = get_accelerator().create_op_builder(name)
        assert not builder.is_compatible()
        with pytest.raises(ValueError, match=words) as error:
            builder.load()
        if "implementation" in words:
            (row,) = explain(str(error.value))
            assert row.words == "which has no implementation for mps"


def test_every_builder_that_is_missing_says_what_to_use(enabled) -> None:
    from deepspeed.accelerator import get_accelerator
    from deepspeed.ops import op_builder

    from mps_ds.deepspeed.builders import _INSTEAD, builder_class

    names = {name for name in vars(op_builder) if name.endswith("Builder")}
    names -= {name for name in names if name.endswith("OpBuilder")}  # base classes
    assert len(names) > 20
    for name in names - {"FusedAdamBuilder", "CPUAdamBuilder"} | _INSTEAD.keys():
        builder = get_accelerator().create_op_builder(name)
        with pytest.raises(ValueError, match=rf"asks for {name}, which has no .* Use \w.*\.$"):
            builder.load()
        if name in names:
            assert getattr(op_builder, name) is builder_class(name)


def test_base_classes_stay_deepspeeds_own(enabled) -> None:
    from deepspeed.ops import op_builder

    for name, value in vars(op_builder).items():
        if name.endswith("OpBuilder"):
            assert value.__module__.startswith("deepspeed."), name


def test_what_deepspeed_reports(enabled) -> None:
    import deepspeed.ops
    from deepspeed.ops.op_builder.all_ops import ALL_OPS

    compatible = deepspeed.ops.__compatible_ops__
    assert compatible["fused_adam"]
    assert compatible["cpu_adam"]
    assert not compatible["deepspeed_not_implemented"]
    assert ALL_OPS["fused_adam"].__class__.__module__.startswith("mps_ds")
