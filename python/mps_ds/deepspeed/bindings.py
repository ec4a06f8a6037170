"""What DeepSpeed binds when it is imported, bound anew: accelerator, op builders, memory functions.

`deepspeed.accelerator.set_accelerator` alone changes none of it: DeepSpeed's modules hold builder
classes and functions that they took from the accelerator of that time.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

from .accelerator import MPSAccelerator
from .builders import builder_class

_FOLDER = "deepspeed.ops.op_builder."


def rebind(undo: ExitStack) -> None:
    """Bind everything to our accelerator; `undo` binds it back."""
    from deepspeed.accelerator import get_accelerator, set_accelerator

    before = get_accelerator()
    ours = MPSAccelerator()
    set_accelerator(ours)
    undo.callback(set_accelerator, before)
    _builders(undo)
    _all_ops(undo)
    _memory_functions(undo, ours)


def _builders(undo: ExitStack) -> None:
    """In deepspeed.ops.op_builder, and in each module that imported a builder from there."""
    from deepspeed.ops import op_builder
    from deepspeed.ops.op_builder.builder import OpBuilder

    names = [name for name in vars(op_builder) if name.endswith("Builder") and name != "OpBuilder"]
    for module_name, module in list(sys.modules.items()):
        # The folder's own modules define builders; only the accelerator of before looks there.
        if module_name.split(".")[0] != "deepspeed" or module_name.startswith(_FOLDER):
            continue
        for name in names:
            value = vars(module).get(name)
            if isinstance(value, type) and issubclass(value, OpBuilder):
                _set(undo, module, name, builder_class(name))


def _all_ops(undo: ExitStack) -> None:
    """The table of instances behind ds_report and deepspeed.ops.__compatible_ops__."""
    import deepspeed.ops
    from deepspeed.ops.op_builder import all_ops

    ours = {op.name: op for op in map(_instance, ("FusedAdamBuilder", "CPUAdamBuilder"))}
    undo.callback(all_ops.ALL_OPS.update, dict(all_ops.ALL_OPS))
    all_ops.ALL_OPS.update(ours)
    undo.callback(vars(deepspeed.ops).pop, "__compatible_ops__", None)
    vars(deepspeed.ops).pop("__compatible_ops__", None)  # made anew when somebody asks


def _instance(name: str) -> Any:
    return builder_class(name)()


def _memory_functions(undo: ExitStack, accelerator: MPSAccelerator) -> None:
    from deepspeed.runtime import utils

    for name in ("memory_reserved", "max_memory_reserved"):
        if f"torch_{name}" in vars(utils):
            _set(undo, utils, f"torch_{name}", getattr(accelerator, name))


def _set(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
    undo.callback(setattr, owner, name, vars(owner)[name])
    setattr(owner, name, value)
