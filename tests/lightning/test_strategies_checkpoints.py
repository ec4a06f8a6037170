"""Checkpoints of ZeRO strategies: a run that is resumed is the run that was never broken off."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import zero_training
from zero_training import NAMES, STEPS, ParamsAtEnd, data, equal, losses, module, trainer

pytest.importorskip("deepspeed.runtime")
pytestmark = [
    pytest.mark.skipif(not torch.backends.mps.is_available(), reason="no mps device"),
    pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler"),  # a step is skipped
]

HALF = STEPS // 2
PRECISIONS = ("32-true", "16-mixed", "bf16-mixed")


@pytest.fixture(autouse=True, scope="module")
def _switch_deepspeed_off():
    yield
    zero_training.switch_deepspeed_off()


def parameters(quick: set[tuple[str, str]]):
    return [
        pytest.param(name, precision, marks=[] if (name, precision) in quick else pytest.mark.slow)
        for name in NAMES
        for precision in PRECISIONS
    ]


@pytest.mark.parametrize(("name", "precision"), parameters({("mps_zero2", "16-mixed")}))
def test_a_resumed_run_is_the_unbroken_one(pl, name, precision, tmp_path) -> None:
    end = ParamsAtEnd.callback(pl)
    options = {"precision": precision, "gradient_clip_val": 1.0}
    unbroken = module(pl)
    trainer(pl, name, max_epochs=2, callbacks=[end], **options).fit(unbroken, data(HALF))
    expected = end.params

    saved = pl.callbacks.ModelCheckpoint(tmp_path, filename="half", save_top_k=-1)
    first = trainer(
        pl, name, max_epochs=1, **{**options, "callbacks": [saved], "enable_checkpointing": True}
    )
    first.fit(module(pl), data(HALF))
    assert (tmp_path / "half.ckpt" / "checkpoint").is_dir(), "ModelCheckpoint writes a folder"

    resumed, end = module(pl), ParamsAtEnd.callback(pl)
    second = trainer(pl, name, max_epochs=2, callbacks=[end], **options)
    second.fit(resumed, data(HALF), ckpt_path=tmp_path / "half.ckpt")
    assert losses(resumed) == losses(unbroken)[HALF:]
    assert equal(end.params, expected)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) for n in NAMES])
def test_a_checkpoint_written_after_fit_becomes_one_file_on_the_cpu(pl, name, tmp_path) -> None:
    end = ParamsAtEnd.callback(pl)
    trained = trainer(pl, name, callbacks=[end])
    trained.fit(module(pl), data())
    trained.save_checkpoint(tmp_path / "end.ckpt")
    shard = next((tmp_path / "end.ckpt" / "checkpoint").glob("*model_states.pt"))
    assert torch.load(shard, map_location="cpu", weights_only=False)["global_step"] == STEPS

    convert = importlib.import_module(f"{pl.__name__}.utilities.deepspeed")
    convert.convert_zero_checkpoint_to_fp32_state_dict(tmp_path / "end.ckpt", tmp_path / "one.pt")
    whole = torch.load(tmp_path / "one.pt", map_location="cpu", weights_only=False)["state_dict"]
    assert equal(list(whole.values()), end.params)

    # The file is one of Lightning's, and a Trainer without DeepSpeed takes it.
    loaded = type(module(pl)).load_from_checkpoint(tmp_path / "one.pt", map_location="cpu")
    assert equal(zero_training.whole_params(loaded.network), end.params)
    tested = module(pl)
    trainer(pl, "auto").test(tested, data(), ckpt_path=tmp_path / "one.pt", verbose=False)
    assert equal(zero_training.whole_params(tested.network), end.params)


@pytest.mark.parametrize(("name", "precision"), parameters({("mps_zero2", "16-mixed")}))
def test_validate_test_and_predict(pl, name, precision) -> None:
    """Outputs are those of the network in the type that computes."""
    dtype = {"32-true": torch.float32, "16-mixed": torch.float16, "bf16-mixed": torch.bfloat16}
    plain = zero_training.network().to("mps", dtype[precision])
    batches = [batch.to("mps", dtype[precision]) for batch in data()]
    outputs = [plain(batch).detach().cpu() for batch in batches]
    loss = torch.stack([zero_training.loss_of(plain, b).detach().cpu() for b in batches]).mean()

    def runner():
        return trainer(pl, name, precision=precision)

    told = runner().predict(module(pl), data())
    assert all(torch.equal(a.cpu(), b) for a, b in zip(told, outputs, strict=True))
    for run in (runner().validate, runner().test):
        (metrics,) = run(module(pl), data(), verbose=False)
        # Lightning adds the losses up one by one: 2 * STEPS roundings to float32.
        assert metrics["loss"] == pytest.approx(loss.item(), rel=2 * STEPS * 2.0**-24, abs=0)


def test_validation_while_fitting_sees_the_trained_params(pl) -> None:
    seen = []

    class Kept(type(module(pl))):
        def on_validation_end(self) -> None:
            seen.append(self.trainer.callback_metrics["loss"].item())

    trained = Kept()
    trainer(pl, "mps_zero2", num_sanity_val_steps=0).fit(trained, data(), data())
    after = zero_training.network()
    after.load_state_dict(trained.network.cpu().state_dict())
    after = after.to("mps")
    expected = sum(zero_training.loss_of(after, batch.to("mps")).item() for batch in data()) / STEPS
    assert seen == [pytest.approx(expected, rel=2 * STEPS * 2.0**-24, abs=0)]


def test_a_plain_checkpoint_of_mps_loads_on_the_cpu(pl, tmp_path) -> None:
    trained = trainer(pl, "auto")
    trained.fit(module(pl), data())
    trained.save_checkpoint(tmp_path / "plain.ckpt")
    loaded = torch.load(tmp_path / "plain.ckpt", map_location="cpu", weights_only=False)
    params = list(loaded["state_dict"].values())
    state = loaded["optimizer_states"][0]["state"].values()
    assert {t.device.type for s in state for t in s.values()} == {"cpu"}
    assert equal(params, zero_training.whole_params(trained.lightning_module.network))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has the device in every process")
def test_checkpoints_load_where_there_is_no_mps_device(pl, tmp_path) -> None:
    for name in ("auto", "mps_zero2"):
        trained = trainer(pl, name)
        trained.fit(module(pl), data())
        trained.save_checkpoint(tmp_path / name)
    shard = next((tmp_path / "mps_zero2" / "checkpoint").glob("*optim_states.pt"))
    script = (
        "import sys, torch; assert not torch.backends.mps.is_available()\n"
        "for path in sys.argv[1:]: torch.load(path, map_location='cpu', weights_only=False)"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MPS_DS")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", script, str(tmp_path / "auto"), str(shard)]
    subprocess.run(command, env=environment, check=True)


def test_the_path_of_a_shard_is_refused_with_the_right_one(pl, tmp_path) -> None:
    folder = tmp_path / "end.ckpt" / "checkpoint"
    folder.mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"Try to load using this parent"):
        trainer(pl, "mps_zero2").fit(module(pl), data(), ckpt_path=Path(folder))
