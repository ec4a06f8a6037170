"""What a checkpoint of Hugging Face's Trainer needs beside what it saves itself."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from .accelerate import RandomState


class RandomStateCallback(TrainerCallback, ExportableState):  # type: ignore[misc]
    """Keeps the random state of `mps` in checkpoints, which `Trainer` (5.24) does not.

    Without it a resumed run with dropout draws what the unbroken run would not have drawn. Pass it
    to `Trainer(callbacks=[RandomStateCallback()])`, and set
    `TrainingArguments(restore_callback_states_from_checkpoint=True)`: else it cannot know what was
    saved, and warns when a run is resumed.

    Attributes:
        mps: the state that is to be restored when training begins, in hexadecimal; or None.
    """

    def __init__(self) -> None:
        self.mps: str | None = None

    def state(self) -> dict[str, dict[str, Any]]:
        """What the Trainer writes to trainer_state.json."""
        saved = RandomState().state_dict()
        mps = bytes(saved["mps"].tolist()).hex() if saved else None
        return {"args": {}, "attributes": {"mps": mps}}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Go on from the state of the checkpoint, if training was resumed from one."""
        if self.mps is not None:
            saved = torch.tensor(list(bytes.fromhex(self.mps)), dtype=torch.uint8)
            RandomState().load_state_dict({"mps": saved})
            self.mps = None
        elif state.global_step and args.device.type == "mps":
            warnings.warn(
                "training was resumed without the random state of mps: set "
                "TrainingArguments(restore_callback_states_from_checkpoint=True), and let "
                "RandomStateCallback take part in the run that saves the checkpoint, too",
                stacklevel=2,
            )
