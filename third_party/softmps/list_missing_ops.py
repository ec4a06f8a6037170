"""Lists the ATen operators that PyTorch cannot run on MPS: csrc/missing_ops.inc.

    python list_missing_ops.py > csrc/missing_ops.inc

An operator is missing when PyTorch's own table (native_functions.yaml, which ships with torchgen)
gives it a CPU kernel, but neither an MPS kernel nor a composite one. Only the few fields needed are
read, so no YAML library is wanted.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torchgen

# PyTorch registers these for MPS outside the table: they fall back to the CPU on their own.
FALLS_BACK_BY_ITSELF = {"embedding_renorm_", "_linalg_svd", "_linalg_svd.U"}


@dataclass
class Op:
    """An entry of the table: its dispatch keys, and the entry that it delegates to."""

    name: str
    keys: set[str] = field(default_factory=set)
    delegate: str | None = None


def read_table(path: Path) -> dict[str, Op]:
    """Read names, dispatch keys and delegates from native_functions.yaml."""
    ops: dict[str, Op] = {}
    op = Op("")
    in_dispatch = False
    for line in path.read_text().splitlines():
        if match := re.match(r"- func: ([\w.]+)\(", line):
            op = ops.setdefault(match[1], Op(match[1]))
            in_dispatch = False
        elif match := re.match(r"  structured_delegate: (\S+)", line):
            op.delegate = match[1]
        elif re.match(r"  dispatch:", line):
            in_dispatch = True
        elif in_dispatch and (match := re.match(r"    ([\w, ]+):", line)):
            op.keys.update(key.strip() for key in match[1].split(","))
        elif re.match(r"  \S", line):
            in_dispatch = False
    return ops


def is_missing(op: Op, ops: dict[str, Op]) -> bool:
    """Whether the CPU can run it and MPS cannot."""
    keys = op.keys | (ops[op.delegate].keys if op.delegate else set())
    composite = any(key.startswith("Composite") for key in keys)
    return "CPU" in keys and "MPS" not in keys and not composite


def main() -> None:
    """Print the list."""
    table = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    ops = read_table(table)
    names = sorted(name for name, op in ops.items() if is_missing(op, ops))
    for name in names:
        if name not in FALLS_BACK_BY_ITSELF and not name.startswith("_test"):
            sys.stdout.write(f'"aten::{name}",\n')


if __name__ == "__main__":
    main()
