"""Transformers: a small Llama, bfloat16, gradient accumulation and clipping by the Trainer.

python examples/transformers_trainer.py
"""

from importlib.resources import files

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from mps_ds.optim import FusedAdam

CONTEXT, STEPS = 32, 60


class Excerpts(torch.utils.data.Dataset):
    """Stretches of a text, as numbers of its characters; the model shifts the labels itself."""

    def __init__(self) -> None:
        text = (files("mps_ds.selftest") / "opticks.txt").read_text(encoding="utf-8")
        self.characters = sorted(set(text))
        self.numbers = torch.tensor([self.characters.index(c) for c in text])

    def __len__(self) -> int:
        return len(self.numbers) - CONTEXT

    def __getitem__(self, start: int) -> dict[str, torch.Tensor]:
        excerpt = self.numbers[start : start + CONTEXT]
        return {"input_ids": excerpt, "labels": excerpt}


dataset = Excerpts()
config = LlamaConfig(
    vocab_size=len(dataset.characters),
    hidden_size=64,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
)
arguments = TrainingArguments(
    max_steps=STEPS,
    per_device_train_batch_size=8,
    gradient_accumulation_steps=2,
    max_grad_norm=1.0,
    weight_decay=0.01,
    bf16=True,
    logging_steps=20,
    save_strategy="no",
    dataloader_pin_memory=False,
    disable_tqdm=True,
    report_to="none",
)
torch.manual_seed(0)
model = LlamaForCausalLM(config)
fused = (FusedAdam, {"lr": 3e-3})  # TrainingArguments.learning_rate is not looked at
Trainer(model, arguments, train_dataset=dataset, optimizer_cls_and_kwargs=fused).train()
