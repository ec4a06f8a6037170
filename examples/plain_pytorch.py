"""Plain PyTorch: float16 with a GradScaler; unscaling, clipping and AdamW are one call.

python examples/plain_pytorch.py
"""

from importlib.resources import files

import torch
from torch import nn

from mps_ds.optim import FusedAdam

CONTEXT, WIDTH, BATCH, STEPS = 32, 64, 16, 120


class CharacterModel(nn.Module):
    """A transformer that looks back CONTEXT characters: (batch, time) numbers to scores."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.character = nn.Embedding(vocabulary, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, nhead=4, dim_feedforward=4 * WIDTH, dropout=0.0, batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, num_layers=2)
        self.scores = nn.Linear(WIDTH, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Each position sees itself and what came before it."""
        time = x.shape[1]
        x = self.character(x) + self.position(torch.arange(time, device=x.device))
        mask = nn.Transformer.generate_square_subsequent_mask(time, device=x.device)
        return self.scores(self.layers(x, mask=mask, is_causal=True))


text = (files("mps_ds.selftest") / "opticks.txt").read_text(encoding="utf-8")
characters = sorted(set(text))
data = torch.tensor([characters.index(c) for c in text], device="mps")

torch.manual_seed(0)
model = CharacterModel(len(characters)).to("mps")
optimizer = FusedAdam(model.parameters(), lr=3e-3, weight_decay=0.01)
scaler = torch.amp.GradScaler("mps")

for step in range(STEPS):
    starts = torch.randint(len(data) - CONTEXT, (BATCH, 1), device="mps")
    excerpt = data[starts + torch.arange(CONTEXT + 1, device="mps")]
    with torch.autocast("mps", torch.float16):
        scores = model(excerpt[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), excerpt[:, 1:].flatten())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    optimizer.step(scaler=scaler, max_norm=1.0)  # waits for nothing: overflow is found on the GPU
    scaler.update()
    if step % 20 == 0 or step == STEPS - 1:
        print(f"step {step}: loss {loss.item():.3f}")
