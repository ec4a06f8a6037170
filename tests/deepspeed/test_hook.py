"""The start-up hook: enable() follows `import deepspeed`, wherever DeepSpeed is found."""

from __future__ import annotations

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
layer.enable = lambda: print("enable", flush=True)
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


@pytest.mark.parametrize("place", [on_the_path, zipped, editable_behind, editable_before])
def test_enable_follows_deepspeed_once_wherever_it_is_found(tmp_path, place) -> None:
    for path, source in files(tmp_path).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    program = PROGRAM.format(find=place(tmp_path), hook=HOOK)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],  # without the real ones
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["import", "deepspeed", "enable"]
