"""Lightning: float16 mixed precision; unscaling, clipping and AdamW are one step.

python examples/lightning_trainer.py
"""

from importlib.resources import files

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mps_ds.lightning import MixedPrecision
from mps_ds.optim import FusedAdam

CONTEXT, WIDTH, STEPS = 32, 96, 100


class CharacterModel(lightning.LightningModule):
    """Foretells a character from the CONTEXT characters before it."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Embedding(vocabulary, 16),
            nn.Flatten(),
            nn.Linear(16 * CONTEXT, WIDTH),
            nn.GELU(),
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, vocabulary),
        )

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """Mean cross-entropy in nats a character."""
        excerpts, following = batch
        loss = nn.functional.cross_entropy(self.layers(excerpts), following)
        if index % 20 == 0 or index == STEPS - 1:
            self.print(f"step {index}: loss {loss.item():.3f}")
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW in one dispatch."""
        return FusedAdam(self.parameters(), lr=3e-3, weight_decay=0.01)


lightning.seed_everything(0)
text = (files("mps_ds.selftest") / "opticks.txt").read_text(encoding="utf-8")
characters = sorted(set(text))
windows = torch.tensor([characters.index(c) for c in text]).unfold(0, CONTEXT + 1, 1)
dataset = TensorDataset(windows[:, :-1], windows[:, -1])
trainer = lightning.Trainer(
    accelerator="mps",
    plugins=[MixedPrecision("16-mixed")],  # stock precision="16-mixed" works too; it waits
    gradient_clip_val=1,
    max_steps=STEPS,
    logger=False,
    enable_checkpointing=False,
)
trainer.fit(CharacterModel(len(characters)), DataLoader(dataset, batch_size=64, shuffle=True))
