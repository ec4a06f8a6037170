"""Which DeepSpeed configurations are trained, and how (training_worker.py runs them)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from mps_ds.selftest.gpt import GPT, Attention, Shape
from mps_ds.selftest.training import Text

STEPS = 6
LR = 1e-3
CLIP = 0.5  # below every norm of this model's gradients, so that it always clips
CONTEXT = 16
BATCH = 2


@dataclass(frozen=True)
class Case:
    stage: int
    dtype: str  # fp32, bf16, fp16 (a loss scale of 128) or fp16-dynamic
    clip: bool = False
    offload: bool = False

    def __str__(self) -> str:
        words = [f"zero{self.stage}", self.dtype]
        return "-".join(words + ["clip"] * self.clip + ["offload"] * self.offload)

    def config(self, processes: int) -> dict[str, Any]:
        config: dict[str, Any] = {
            "train_micro_batch_size_per_gpu": BATCH,
            "train_batch_size": BATCH * processes,
            "gradient_clipping": CLIP if self.clip else 0.0,
            "zero_optimization": {
                "stage": self.stage,
                "stage3_param_persistence_threshold": 0,
                "reduce_bucket_size": 20_000,
                "allgather_bucket_size": 20_000,
            },
        }
        if self.dtype == "bf16":
            config["bf16"] = {"enabled": True}
        elif self.dtype.startswith("fp16"):
            dynamic = self.dtype == "fp16-dynamic"
            # Dynamic: so high that the first steps overflow, and each overflow halves it.
            config["fp16"] = {
                "enabled": True,
                "loss_scale": 0 if dynamic else 128,
                "initial_scale_power": 20,
                "hysteresis": 1,
                "loss_scale_window": 2,
            }
        if self.offload:
            config["zero_optimization"]["offload_optimizer"] = {"device": "cpu"}
        return config


CASES = [
    Case(stage, dtype, clip, offload)
    for stage in (0, 1, 2, 3)
    for dtype in ("fp32", "bf16", "fp16", "fp16-dynamic")
    for clip in (False, True)
    for offload in ((False, True) if stage else (False,))
]
# One of each kind, for `make test`.
QUICK = [
    Case(0, "fp32", clip=True),
    Case(1, "bf16"),
    Case(2, "fp16-dynamic", clip=True),
    Case(2, "fp32", offload=True),
    Case(3, "fp32"),
    Case(3, "bf16", clip=True, offload=True),
]


class PlainAttention(Attention):
    """Attention in single operators: the fused one rounds differently on each device."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        q, k, v = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        future = torch.ones(time, time, dtype=torch.bool, device=x.device).triu(1)
        scores = q @ k.transpose(2, 3) * (width // self.heads) ** -0.5
        mixed = scores.masked_fill(future, -1e4).softmax(dim=3) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, time, width))


class LanguageModel(GPT):
    """A GPT whose forward is its loss, with embedding and output tied."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        for block in self.blocks:
            block.attention = PlainAttention(shape)

    def forward(self, tokens: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        scores = super().forward(tokens)
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1).float(), following.flatten())


def model(text: Text) -> LanguageModel:
    torch.manual_seed(0)
    shape = Shape(len(text.characters), context=CONTEXT, width=32, heads=2, layers=1)
    return LanguageModel(shape)


def optimizer(case: Case, parameters: Any) -> torch.optim.Optimizer:
    from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam

    kind = DeepSpeedCPUAdam if case.offload else FusedAdam
    return kind(parameters, lr=LR, weight_decay=0.1)


def train(case: Case, rank: int, processes: int, device: str) -> dict[str, list[float]]:
    """What an engine reports, step by step."""
    import deepspeed

    text = Text()
    network = model(text)
    engine, *_ = deepspeed.initialize(
        model=network,
        optimizer=optimizer(case, network.parameters()),
        config=case.config(processes),
    )
    told: dict[str, list[float]] = {
        name: [] for name in ("loss", "norm", "exact norm", "skipped", "scale")
    }
    for tokens, following in text.batches(STEPS, CONTEXT):
        mine = slice(rank * BATCH, (rank + 1) * BATCH)
        loss = engine(tokens[mine].to(device), following[mine].to(device))
        engine.backward(loss)
        exact, scale = _exact_norm(network), _scale(engine)
        engine.step()
        # Without ZeRO the new scale divides what is reported (and no scale multiplied the loss).
        exact /= _scale(engine) if case.stage == 0 else scale
        norm = engine.get_global_grad_norm()
        told["loss"].append(loss.item())
        # Without ZeRO and in fp32 DeepSpeed tells no norm.
        told["norm"].append(float(norm) if norm is not None else exact)
        told["exact norm"].append(exact)
        told["skipped"].append(engine.skipped_steps)
        told["scale"].append(_scale(engine))
    told["params"] = [p.detach().float().norm().item() for p in engine.module.parameters()]
    engine.destroy()
    return told


def _exact_norm(network: torch.nn.Module) -> float:
    """Of the gradients that the step is going to see, averaged over processes, in float64."""
    from deepspeed.utils import safe_get_full_grad

    grads = [safe_get_full_grad(p) for p in network.parameters()]
    return float(sum(g.cpu().double().square().sum() for g in grads if g is not None) ** 0.5)


def _scale(engine: Any) -> float:
    for name in ("cur_scale", "loss_scale"):
        scale = getattr(engine.optimizer, name, None)
        if scale is not None:
            return float(scale)
    return 1.0
