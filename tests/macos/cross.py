"""Compiles and links one more source with the very commands that built the extension for macOS."""

import json
import shlex
import subprocess
from pathlib import Path

from macos import wheel
from macos.paths import ROOT


def compile_commands() -> dict[str, list[str]]:
    """Source below csrc -> the command that compiled it."""
    entries = json.loads((wheel.BUILD / "compile_commands.json").read_text())
    return {
        str(Path(entry["file"]).relative_to(ROOT / "csrc")): shlex.split(entry["command"])
        for entry in entries
    }


def compile_like(like: str, source: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Compile `source` to a .o beside it, as csrc/`like` was compiled, and with more flags."""
    command = compile_commands()[like]
    at = command.index("-o")
    command = [*command[:at], *flags, "-o", str(source.with_suffix(".o")), "-c", str(source)]
    return subprocess.run(command, cwd=wheel.BUILD, capture_output=True, text=True)


def link_with(target: Path, *objects: Path, without: str = "") -> subprocess.CompletedProcess[str]:
    """Link the extension anew to `target`, with more objects and without those flags."""
    name = f"csrc/_C{wheel.EXTENSION}"
    listed = subprocess.run(
        ["ninja", "-t", "commands", "-s", name],
        cwd=wheel.BUILD, capture_output=True, text=True, check=True,
    )  # fmt: skip
    line = listed.stdout.splitlines()[-1]
    link = next(part for part in line.split(" && ") if f"-o {name}" in part)
    assert without in link
    words = shlex.split(link.replace(without, ""))
    command = [str(target) if word == name else word for word in words] + list(map(str, objects))
    return subprocess.run(command, cwd=wheel.BUILD, capture_output=True, text=True)
