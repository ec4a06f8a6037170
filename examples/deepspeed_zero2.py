"""DeepSpeed: ZeRO stage 2 in bfloat16, with clipping, in as many processes as torchrun starts.

python -m torch.distributed.run --nproc-per-node 1 examples/deepspeed_zero2.py
"""

from importlib.resources import files

import deepspeed
import torch
from torch import nn

import mps_ds.deepspeed

mps_ds.deepspeed.enable()  # before deepspeed.initialize

CONTEXT, WIDTH, BATCH, STEPS = 32, 96, 64, 100


class CharacterModel(nn.Sequential):
    """Scores of the character that follows CONTEXT characters."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__(
            nn.Embedding(vocabulary, 16),
            nn.Flatten(),
            nn.Linear(16 * CONTEXT, WIDTH),
            nn.GELU(),
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, vocabulary),
        )


config = {
    "train_micro_batch_size_per_gpu": BATCH,
    "bf16": {"enabled": True},
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "weight_decay": 0.01}},
    "zero_optimization": {"stage": 2},
    "steps_per_print": STEPS,
}
text = (files("mps_ds.selftest") / "opticks.txt").read_text(encoding="utf-8")
characters = sorted(set(text))
windows = torch.tensor([characters.index(c) for c in text]).unfold(0, CONTEXT + 1, 1)

torch.manual_seed(0)
engine, *_ = deepspeed.initialize(model=CharacterModel(len(characters)), config=config)
generator = torch.Generator().manual_seed(engine.global_rank)  # each process draws its own excerpts
for step in range(STEPS):
    picked = torch.randint(len(windows), (BATCH,), generator=generator)
    excerpts = windows[picked].to(engine.device)
    loss = nn.functional.cross_entropy(engine(excerpts[:, :-1]).float(), excerpts[:, -1])
    engine.backward(loss)
    engine.step()
    if engine.global_rank == 0 and (step % 20 == 0 or step == STEPS - 1):
        print(f"step {step}: loss {loss.item():.3f}")
