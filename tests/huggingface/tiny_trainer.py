"""Small models from configurations, text to train them on, and a Trainer for them."""

from __future__ import annotations

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

from mps_ds.selftest.training import Text

CONTEXT, WIDTH = 16, 32
LR, STEPS = 1e-2, 12


class Excerpts(torch.utils.data.Dataset):
    def __init__(self, length: int = 96) -> None:
        text = Text()
        self.vocabulary = len(text.characters)
        self.excerpts = text.tokens[: length * CONTEXT].view(length, CONTEXT)

    def __len__(self) -> int:
        return len(self.excerpts)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.excerpts[index], "labels": self.excerpts[index]}


def make_model(name: str, seed: int = 0) -> torch.nn.Module:
    """gpt2 and bert have dropout, as their configurations say."""
    vocabulary = {"vocab_size": Excerpts().vocabulary}
    sizes = {"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 2}
    tokens = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}
    torch.manual_seed(seed)
    if name == "gpt2":
        shape = {"n_positions": CONTEXT, "n_embd": WIDTH, "n_layer": 2, "n_head": 2}
        return GPT2LMHeadModel(GPT2Config(**vocabulary, **shape, **tokens))
    if name == "llama":
        return LlamaForCausalLM(LlamaConfig(**vocabulary, **sizes, **heads, **tokens))
    shape = {"max_position_embeddings": CONTEXT}
    return BertForMaskedLM(BertConfig(**vocabulary, **sizes, **heads, **shape, **tokens))


def arguments(folder, precision: str, **kwargs) -> TrainingArguments:
    options = {
        "max_steps": STEPS,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "max_grad_norm": 0.5,
        "weight_decay": 0.1,
        "logging_steps": 1,
        "save_strategy": "no",
        "dataloader_pin_memory": False,
        "disable_tqdm": True,
        "report_to": "none",
    }
    if precision != "fp32":
        options[precision] = True
    return TrainingArguments(str(folder), **{**options, **kwargs})


def logged(trainer: Trainer, what: str) -> list[float]:
    """A value of each step."""
    return [entry[what] for entry in trainer.state.log_history if what in entry]


def everything(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Params and the optimizer's states, by name, on the CPU."""
    optimizer = trainer.optimizer.optimizer
    found = {}
    for name, param in trainer.model.named_parameters():
        found[name] = param
        for key, value in optimizer.state[param].items():
            found[f"{name}.{key}"] = torch.as_tensor(value)
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in found.items()}
