"""What others do with the same tensors: PyTorch's CUDA kernels, DeepSpeed's CUDA and Metal ones.

DeepSpeed's sources are not part of this repository. `python benchmarks/gpu/run.py` looks for its
unpacked source distribution in $MPS_DS_DEEPSPEED or build/gpu/deepspeed; without, its rows are left
out.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import torch
from launch import BUILD, Kernel, Source, architecture
from models import State
from msl_to_cuda import HERE, KERNELS, Specialisation
from tables import Options
from torch.optim.adamw import adamw

DEEPSPEED_CHUNK = 2048 * 32  # what its FusedAdam passes
Work = Callable[[], object]


def deepspeed_folder() -> Path | None:
    """The unpacked source distribution."""
    for folder in (os.environ.get("MPS_DS_DEEPSPEED"), BUILD / "deepspeed"):
        if folder and (Path(folder) / "csrc" / "adam" / "multi_tensor_adam.cu").exists():
            return Path(folder)
    return None


@cache
def extension() -> ModuleType:
    """host_tables.cpp with DeepSpeed's multi_tensor_adam, built by PyTorch for this device."""
    from torch.utils.cpp_extension import load

    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", architecture()[3:-1] + "." + architecture()[-1])
    sources, includes, flags = [HERE / "host_tables.cpp"], [KERNELS], ["-O2"]
    folder = deepspeed_folder()
    if folder:
        sources.append(folder / "csrc" / "adam" / "multi_tensor_adam.cu")
        includes += [folder / "csrc" / "includes", folder / "csrc" / "adam"]
        flags.append("-DWITH_DEEPSPEED")
    built = BUILD / "extension"
    built.mkdir(parents=True, exist_ok=True)
    return load(
        "mps_ds_gpu_bench",
        [str(s) for s in sources],
        extra_include_paths=[str(i) for i in includes],
        extra_cflags=flags,
        extra_cuda_cflags=["-O3", "-DVERSION_GE_1_1", "-DVERSION_GE_1_3", "-DVERSION_GE_1_5"],
        build_directory=str(built),
        verbose=False,
    )


# ---- Adam ----


def torch_fused(state: State, options: Options) -> Work:
    """The kernel of AdamW(fused=True), without the optimizer around it."""
    steps = [torch.tensor(4.0, device="cuda") for _ in state.params]
    o = options

    def step() -> None:
        torch._foreach_add_(steps, 1)  # as the optimizer does
        torch._fused_adamw_(
            *(state.params, state.grads, state.exp_avgs, state.exp_avg_sqs, [], steps),
            **{"lr": o.lr, "beta1": o.beta1, "beta2": o.beta2, "weight_decay": o.weight_decay},
            **{"eps": o.eps, "amsgrad": False, "maximize": False},
        )

    return step


def torch_foreach(state: State, options: Options) -> Work:
    """AdamW(foreach=True), without the optimizer around it."""
    steps = [torch.tensor(4.0) for _ in state.params]
    o = options

    def step() -> None:
        adamw(
            *(state.params, state.grads, state.exp_avgs, state.exp_avg_sqs, [], steps),
            **{"foreach": True, "lr": o.lr, "beta1": o.beta1, "beta2": o.beta2},
            **{"weight_decay": o.weight_decay, "eps": o.eps, "amsgrad": False, "maximize": False},
        )

    return step


def deepspeed_cuda(state: State, options: Options, step: int = 5) -> Work:
    """multi_tensor_adam."""
    noop = torch.zeros(1, dtype=torch.int32, device="cuda")
    lists = [state.grads, state.params, state.exp_avgs, state.exp_avg_sqs]
    o = options
    numbers = (o.lr, o.beta1, o.beta2, o.eps, step, int(o.adam_w_mode), 1, o.weight_decay)
    run = extension().multi_tensor_adam
    return lambda: run(DEEPSPEED_CHUNK, noop, lists, *numbers)


def deepspeed_metal_source(folder: Path) -> Source:
    """fused_adam.metal; Metal's compiler may contract, so nvcc may here."""
    return Source(folder / "csrc" / "mps" / "fused_adam.metal", Specialisation("deepspeed"), True)


def deepspeed_metal(state: State, options: Options, step: int = 5) -> Work:
    """fused_adam.metal: a launch for each tensor."""
    folder = deepspeed_folder()
    assert folder
    names = {torch.float32: "float", torch.float16: "half", torch.bfloat16: "bfloat"}
    kernel = Kernel(deepspeed_metal_source(folder), f"fused_adam_{names[state.params[0].dtype]}")
    o = options
    corrections = (1.0 - o.beta1**step, 1.0 - o.beta2**step)
    numbers = (o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, *corrections)
    launches = []
    lists = (state.params, state.grads, state.exp_avgs, state.exp_avg_sqs)
    for tensors in zip(*lists, strict=True):
        numel = tensors[0].numel()
        launches.append(
            kernel.bind(
                *(-(-numel // 1024), 1024, *tensors, *map(ctypes.c_float, numbers)),
                *(ctypes.c_uint32(int(o.adam_w_mode)), ctypes.c_uint32(numel)),
            )
        )

    def run() -> None:
        for launch in launches:
            launch()

    return run


def adam_peers(state: State, options: Options) -> dict[str, Work]:
    """All that can take these tensors: params, gradients and states of one type."""
    dtypes = {t.dtype for t in (state.params[0], state.grads[0], state.exp_avgs[0])}
    if len(dtypes) > 1 or state.copies is not None:
        return {}
    peers = {
        "torch fused": torch_fused(state, options),
        "torch foreach": torch_foreach(state, options),
    }
    if deepspeed_folder():
        peers["DeepSpeed CUDA"] = deepspeed_cuda(state, options)
        peers["DeepSpeed Metal"] = deepspeed_metal(state, options)
    return peers


# ---- norms, and a whole step ----


def norm_peers(grads: list[torch.Tensor]) -> dict[str, Work]:
    """torch's norm, its check for what is not finite, its clipping."""
    found, one = torch.zeros(1, device="cuda"), torch.ones(1, device="cuda")
    params = [torch.nn.Parameter(torch.empty_like(g)) for g in grads]
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad
    peers: dict[str, Work] = {
        "get_total_norm": lambda: torch.nn.utils.get_total_norm(grads),
        "clip_grad_norm_": lambda: torch.nn.utils.clip_grad_norm_(params, 1.0),
    }
    if grads[0].dtype != torch.bfloat16:  # which GradScaler does not take
        check = torch._amp_foreach_non_finite_check_and_unscale_
        peers["GradScaler check and unscale"] = lambda: check(grads, found, one)
    return peers


def torch_mixed_step(state: State, grads: list[torch.Tensor], options: Options) -> Work:
    """16-bit gradients: cast, unscale and check, norm, clip, fused AdamW, copy to 16 bits."""
    assert state.copies is not None
    found, one = torch.zeros(1, device="cuda"), torch.ones(1, device="cuda")
    adam = torch_fused(state, options)

    def step() -> None:
        torch._foreach_copy_(state.grads, grads)
        torch._amp_foreach_non_finite_check_and_unscale_(state.grads, found, one)
        norm = torch.nn.utils.get_total_norm(state.grads)
        torch._foreach_mul_(state.grads, torch.clamp(1.0 / (norm + 1e-6), max=1.0))
        adam()
        torch._foreach_copy_(state.copies, state.params)

    return step
