"""The start-up hook: enable() follows `import deepspeed`, wherever DeepSpeed is found."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import mps_ds

HOOK = str(Path(mps_ds.__file__).with_name("_autodeepspeed.py"))
# A DeepSpeed that says when it is executed, and an enable() that says when it is called.
DEEPSPEED = "print('deepspeed', flush=True)\n"
PROGRAM = """
import importlib.util, sys, types
layer = types.ModuleType("mps_ds.deepspeed")
def enable():
    print("enable", flush=True)
    {enable}
layer.enable = enable
sys.modules["mps_ds.deepspeed"] = layer
{find}
hook = importlib.util.spec_from_file_location("mps_ds._autodeepspeed", {hook!r})
hook.loader.exec_module(importlib.util.module_from_spec(hook))
assert importlib.util.find_spec("deepspeed")  # to look for it is not to import it
print("import", flush=True)
import deepspeed, deepspeed.part, neighbour
assert deepspeed.__spec__.loader.get_source("deepspeed").startswith("print")
assert "torch" not in sys.modules
"""
# As an editable installation does, behind Python's own finders or before them.
EDITABLE = """
class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("deepspeed", "neighbour"):
            file = {folder!r} + {{"deepspeed": "/deepspeed/__init__.py"}}.get(name, f"/{{name}}.py")
            return importlib.util.spec_from_file_location(name, file)
sys.meta_path.{insert}
"""


def files(folder: Path) -> dict[Path, str]:
    return {
        folder / "deepspeed" / "__init__.py": DEEPSPEED,
        folder / "deepspeed" / "part.py": "",
        folder / "neighbour.py": "",
    }


def on_the_path(folder: Path) -> str:
    return f"sys.path.insert(0, {str(folder)!r})"


def zipped(folder: Path) -> str:
    archive = folder / "deepspeed.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for path in files(folder):
            opened.write(path, path.relative_to(folder))
    return f"sys.path.insert(0, {str(archive)!r})"


def editable_behind(folder: Path) -> str:
    return EDITABLE.format(folder=str(folder), insert="append(Editable)")


def editable_before(folder: Path) -> str:
    return EDITABLE.format(folder=str(folder), insert="insert(0, Editable)")


def run(folder: Path, place=on_the_path, enable: str = "pass", **environment: str):
    """A process that imports that DeepSpeed, with the hook."""
    for path, source in files(folder).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("DS_")}
    return subprocess.run(
        # without the real ones
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            PROGRAM.format(find=place(folder), hook=HOOK, enable=enable),
        ],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize("place", [on_the_path, zipped, editable_behind, editable_before])
def test_enable_follows_deepspeed_once_wherever_it_is_found(tmp_path, place) -> None:
    done = run(tmp_path, place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["import", "deepspeed", "enable"]


@pytest.mark.parametrize(("device", "calls"), [("mps", ["enable"]), ("cpu", [])])
def test_another_device_that_a_process_asks_for_is_its_own_wish(tmp_path, device, calls) -> None:
    done = run(tmp_path, DS_ACCELERATOR=device)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["import", "deepspeed", *calls]


@pytest.mark.parametrize("error", ["RuntimeError", "ImportError"])
def test_an_error_names_the_variable_that_brought_it(tmp_path, error) -> None:
    """Training on another device that nobody asked for would be worse."""
    done = run(tmp_path, enable=f"raise {error}('there is no mps device')")
    assert done.returncode == 1
    last = done.stderr.split("RuntimeError: ")[-1]
    assert last.startswith("there is no mps device\n`import deepspeed` calls")
    assert "unset MPS_DS_DEEPSPEED, or set DS_ACCELERATOR" in last
