"""Lightning and Accelerate find the device by themselves when MPS_DS_SOFT is set.

They ask ``platform.processor()`` besides PyTorch, to tell a native Python from one under Rosetta.
"""

from __future__ import annotations

import importlib.util

import pytest

PROCESSOR = "import platform, mps_ds.softmps; print(platform.processor())"


def needs(library: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(library) is None
    return pytest.mark.skipif(missing, reason=f"{library} is not installed (make test-all does it)")


def test_the_processor_is_named_only_where_the_variable_asks_for_it(run_python) -> None:
    assert run_python(PROCESSOR, MPS_DS_SOFT="1").stdout.strip() == "arm"
    # Not this process's own answer: make sets the variable for it.
    own = run_python("import platform; print(platform.processor())").stdout
    for unset in ({}, {"MPS_DS_SOFT": "0"}):
        assert run_python(PROCESSOR, **unset).stdout == own


LIGHTNING = """
import mps_ds.softmps
import torch, lightning
from lightning.pytorch.utilities.exceptions import MisconfigurationException

quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False,
             enable_model_summary=False, max_steps=3)
for devices in (1, [0], "1", "0,", -1, "auto"):
    trainer = lightning.Trainer(accelerator="auto", devices=devices, **quiet)
    assert type(trainer.accelerator).__name__ == "MPSAccelerator", devices
    assert trainer.num_devices == 1
for devices in (2, [0, 2], "0,2"):
    try:
        lightning.Trainer(accelerator="mps", devices=devices, **quiet)
    except MisconfigurationException:
        continue
    raise AssertionError(devices)

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
    def training_step(self, batch, index):
        assert batch.device.type == self.layer.weight.device.type == "mps"
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.1)

model = Model()
before = model.layer.weight.detach().clone()
trainer = lightning.Trainer(accelerator="mps", devices=1, precision="bf16-mixed", **quiet)
trainer.fit(model, torch.utils.data.DataLoader(torch.ones(6, 4), batch_size=2))
assert trainer.global_step == 3
assert not torch.equal(before, model.layer.weight.detach().cpu())
print("trained")
"""


@pytest.mark.slow
@needs("lightning")
def test_lightning(run_python) -> None:
    done = run_python(LIGHTNING, MPS_DS_SOFT="1")
    assert done.stdout.strip().endswith("trained"), done.stderr


@pytest.mark.slow
@needs("lightning")
def test_lightning_can_be_told_not_to(run_python) -> None:
    code = (
        "import mps_ds.softmps; from lightning.pytorch.accelerators import MPSAccelerator;"
        "print(MPSAccelerator.is_available())"
    )
    assert run_python(code, MPS_DS_SOFT="1", DISABLE_MPS="1").stdout.strip() == "False"


ACCELERATE = """
import mps_ds.softmps
import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="bf16")
assert accelerator.device.type == "mps"
model = torch.nn.Linear(3, 2)
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.AdamW(model.parameters(), lr=0.1),
    torch.utils.data.DataLoader(torch.ones(4, 3), batch_size=2))
before = model.weight.detach().clone()
for batch in loader:
    assert batch.device.type == "mps"
    with accelerator.autocast():
        loss = model(batch).float().square().mean()
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
assert not torch.equal(before, model.weight.detach())
print("trained")
"""


@pytest.mark.slow
@needs("accelerate")
def test_accelerate(run_python) -> None:
    done = run_python(ACCELERATE, MPS_DS_SOFT="1")
    assert done.stdout.strip() == "trained", done.stderr
