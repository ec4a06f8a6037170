"""Training on mps gives the CPU's losses and parameters bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import mps_ds.softmps as softmps

VOCABULARY, WIDTH, LENGTH = 50, 32, 10


class TinyTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.block = nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.head(self.block(self.embedding(tokens)))
        return F.cross_entropy(logits.float().view(-1, VOCABULARY), tokens.view(-1))


MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def train(
    device: str,
    make_optimizer: MakeOptimizer,
    steps: int = 6,
    autocast: torch.dtype | None = None,
    scaler: bool = False,
    dtype: torch.dtype = torch.float32,
) -> tuple[list[float], list[Tensor]]:
    torch.manual_seed(0)
    model = TinyTransformer().to(device, dtype)
    optimizer = make_optimizer(model.parameters())
    tokens = torch.randint(0, VOCABULARY, (8, LENGTH), generator=torch.Generator().manual_seed(1))
    tokens = tokens.to(device)
    grad_scaler = torch.amp.GradScaler(device, init_scale=128.0, enabled=scaler)
    losses = []
    for _ in range(steps):
        with torch.autocast(device, autocast) if autocast else nullcontext():
            loss = model(tokens)
        optimizer.zero_grad()
        grad_scaler.scale(loss).backward()
        grad_scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        grad_scaler.step(optimizer)
        grad_scaler.update()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()]


def cpu_math_attention() -> AbstractContextManager[None]:
    return torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)


CASES: dict[str, tuple[MakeOptimizer, dict[str, Any]]] = {
    "adamw": (lambda p: torch.optim.AdamW(p, 1e-2), {}),
    "adamw_foreach": (lambda p: torch.optim.AdamW(p, 1e-2, foreach=True), {}),
    "adamw_fused": (lambda p: torch.optim.AdamW(p, 1e-2, fused=True), {}),
    "adamw_amsgrad": (lambda p: torch.optim.AdamW(p, 1e-2, amsgrad=True), {}),
    "sgd_momentum": (lambda p: torch.optim.SGD(p, 1e-1, momentum=0.9), {}),
    "rmsprop": (lambda p: torch.optim.RMSprop(p, 1e-3), {}),
    "autocast_bf16": (lambda p: torch.optim.AdamW(p, 1e-2), {"autocast": torch.bfloat16}),
    "autocast_fp16_scaler": (
        lambda p: torch.optim.AdamW(p, 1e-2),
        {"autocast": torch.float16, "scaler": True},
    ),
    "fused_with_scaler": (
        lambda p: torch.optim.AdamW(p, 1e-2, fused=True),
        {"autocast": torch.float16, "scaler": True},
    ),
    "bf16_weights": (lambda p: torch.optim.AdamW(p, 1e-2), {"dtype": torch.bfloat16}),
}


@pytest.mark.parametrize("case", CASES)
def test_training_equals_the_cpu(case: str) -> None:
    make_optimizer, options = CASES[case]
    losses, parameters = train("mps", make_optimizer, **options)
    with cpu_math_attention():
        expected_losses, expected_parameters = train("cpu", make_optimizer, **options)
    assert losses[-1] < losses[0]
    assert losses == expected_losses
    for actual, expected in zip(parameters, expected_parameters, strict=True):
        assert torch.equal(actual, expected)


def test_autocast_picks_the_type() -> None:
    layer, x = nn.Linear(4, 4).to("mps"), torch.ones(2, 4, device="mps")
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("mps", dtype):
            assert layer(x).dtype == dtype
            assert layer(x).softmax(1).dtype == torch.float32


def test_grad_scaler_skips_a_step_with_an_overflow() -> None:
    p = nn.Parameter(torch.ones(3, device="mps"))
    optimizer = torch.optim.SGD([p], 1.0)
    scaler = torch.amp.GradScaler("mps", init_scale=4.0, growth_interval=1)
    p.grad = torch.tensor([1.0, float("inf"), 1.0], device="mps")
    scaler.scale(torch.zeros((), device="mps"))
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [1, 1, 1]
    assert scaler.get_scale() == 2.0


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader(workers: int) -> None:
    data = TensorDataset(torch.arange(32.0), torch.arange(32))
    total = 0.0
    for floats, integers in DataLoader(data, batch_size=8, num_workers=workers):
        total += floats.to("mps", non_blocking=True).sum().item() + integers.to("mps").sum().item()
    assert total == 2 * sum(range(32))


def test_recurrent_and_convolutional_networks_train() -> None:
    lstm = nn.LSTM(8, 8, batch_first=True).to("mps")
    lstm(torch.ones(2, 3, 8, device="mps"))[0].sum().backward()
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()).to("mps")
    net(torch.rand(2, 3, 6, 6, device="mps")).sum().backward()
    for module in (lstm, net):
        for p in module.parameters():
            assert p.grad is not None
            assert p.grad.isfinite().all()


def test_operators_are_no_commits_waits_or_reads_of_the_program() -> None:
    """An optimizer step of plain operators shows as work of the stand-in alone."""
    p = nn.Parameter(torch.ones(100, device="mps"))
    optimizer = torch.optim.AdamW([p], 1e-2)
    p.grad = torch.ones(100, device="mps")
    optimizer.step()
    softmps.reset_counters()
    optimizer.step()
    counts = softmps.counters()
    assert counts["fallback_ops"] > 0
    assert [counts[name] for name in ("commits", "waits", "host_reads", "host_writes")] == [0] * 4
