"""What a checkpoint of Hugging Face's Accelerate needs beside what `save_state` writes."""

from __future__ import annotations

import torch
from torch import Tensor


class RandomState:
    """The random state of `mps`, for `accelerator.register_for_checkpointing(RandomState())`.

    `Accelerator.save_state` (1.15) keeps the random states of Python, NumPy, the CPU and other
    devices, but not that of `mps`. A resumed run with dropout then draws what the unbroken run
    would not have drawn.
    """

    def state_dict(self) -> dict[str, Tensor]:
        """The state as bytes (uint8, on the CPU); nothing where there is no mps device."""
        return {"mps": torch.mps.get_rng_state()} if torch.backends.mps.is_available() else {}

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Go on from a saved state. One that was saved without an mps device changes nothing."""
        if "mps" in state_dict and torch.backends.mps.is_available():
            torch.mps.set_rng_state(state_dict["mps"])
