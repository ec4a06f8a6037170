"""How the device comes to be: import order, versions, macOS."""

from __future__ import annotations

import pytest

import mps_ds._soft_requirements as requirements
import mps_ds.softmps._activate as activate

ASK = "import torch; print(torch.backends.mps.is_available(), torch.backends.mps.is_built())"
USE = "print(torch.ones(3, device='mps').sum().item(), torch.mps.device_count())"
ACTIVATE = "import mps_ds.softmps"


@pytest.mark.parametrize(
    "program",
    [
        f"{ACTIVATE}; import torch; {USE}",
        f"import torch; {ACTIVATE}; {USE}",
        f"{ACTIVATE}; {ACTIVATE}; import torch; {USE}",
        # something asked before, and PyTorch has cached the answer
        f"import torch; torch.backends.mps.is_available(); {ACTIVATE}; {USE}",
        f"import torch; torch.accelerator.is_available(); torch.manual_seed(1); {ACTIVATE}; {USE}",
        f"import torch; torch.accelerator.current_accelerator(); {ACTIVATE}; "
        f"assert torch.accelerator.current_accelerator().type == 'mps'; {USE}",
    ],
)
def test_order_of_imports(run_python, program: str) -> None:
    result = run_python(program)
    assert result.stdout.strip() == "3.0 1", result.stderr


def test_never_by_surprise(run_python) -> None:
    result = run_python(f"import mps_ds; {ASK}")
    assert result.stdout.strip() == "False False", result.stderr


def test_answers_that_were_cached_are_forgotten(run_python) -> None:
    result = run_python(
        f"{ASK}; {ACTIVATE}; {ASK};"
        "print(*(torch.backends.mps.is_macos_or_newer(major, 0) for major in (14, 26)));"
        "print(torch.backends.mps.get_name()); assert torch.backends.mps.get_core_count() > 0;"
        "import mps_ds; print(mps_ds.softmps.is_active())"
    )
    lines = result.stdout.splitlines()
    assert lines[:3] == ["False False", "True True", "True False"], result.stderr
    assert "soft" in lines[3].lower()  # nobody takes it for a GPU
    assert lines[4] == "True"


def test_another_pytorch_is_refused_with_both_versions(monkeypatch, tmp_path) -> None:
    (tmp_path / "built_for_torch.txt").write_text("2.12.1+cpu\n")
    (tmp_path / "_C.so").touch()
    monkeypatch.setattr(requirements, "_FOLDER", tmp_path)
    with pytest.raises(
        ImportError, match=r"built for PyTorch 2\.12\.1\+cpu .* this is PyTorch 2\.\d+"
    ):
        activate.load_extension()


@pytest.mark.parametrize("left", [[], ["built_for_torch.txt"]])
def test_an_installation_without_the_device_says_so(monkeypatch, tmp_path, left) -> None:
    for name in left:
        (tmp_path / name).write_text("2.13.0")
    monkeypatch.setattr(requirements, "_FOLDER", tmp_path)
    with pytest.raises(ImportError, match=r"no software MPS device: MPS_DS_BUILD=cpu"):
        activate.load_extension()


def test_a_device_that_does_not_load_says_what_is_missing(monkeypatch) -> None:
    def fail(name: str) -> None:
        raise ImportError("libobjc.so.4: cannot open shared object file")

    monkeypatch.setattr(activate.importlib, "import_module", fail)
    with pytest.raises(ImportError, match=r"does not load: libobjc\.so\.4.*make selftest"):
        activate.load_extension()


@pytest.mark.parametrize("setting", [None, "1"])
def test_a_mac_is_told_to_use_its_own_device(monkeypatch, setting: str | None) -> None:
    monkeypatch.setattr(requirements.sys, "platform", "darwin")
    if setting is None:
        monkeypatch.delenv("MPS_DS_SOFT", raising=False)
    else:
        monkeypatch.setenv("MPS_DS_SOFT", setting)
    with pytest.raises(ImportError, match=r"this Mac has the real one.*MPS_DS_SOFT=force"):
        activate.load_extension()


def test_a_mac_can_be_forced(monkeypatch) -> None:
    monkeypatch.setattr(requirements.sys, "platform", "darwin")
    monkeypatch.setenv("MPS_DS_SOFT", "force")
    assert activate.load_extension().__name__ == "mps_ds.softmps._C"


def test_exit_with_work_pending_is_clean(run_python) -> None:
    result = run_python(
        "import torch, mps_ds.softmps as s\n"
        "k = torch.mps.compile_shader('kernel void k(device float* x) { x[0] = 1; }')\n"
        "x = torch.zeros(4, device='mps'); k.k(x, threads=1); print(s.pending())"
    )
    assert (result.returncode, result.stdout.strip()) == (0, "True"), result.stderr
