"""What DeepSpeed binds when it is imported, bound anew: accelerator, op builders, memory functions.

`deepspeed.accelerator.set_accelerator` alone changes none of it: DeepSpeed's modules hold builder
classes and functions that they took from the accelerator of that time.
"""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack

from ._replace import replace
from .accelerator import MPSAccelerator
from .builders import builder_class

_FOLDER = "deepspeed.ops.op_builder."


def rebind(undo: ExitStack) -> None:
    """Bind everything to our accelerator; `undo` binds it back."""
    from deepspeed.accelerator import get_accelerator, set_accelerator
    from deepspeed.ops.op_builder import all_ops  # noqa: F401 - fills its table with DeepSpeed's

    before = get_accelerator()
    ours = MPSAccelerator()
    set_accelerator(ours)
    undo.callback(lambda: get_accelerator() is ours and set_accelerator(before))
    _builders(undo)
    _all_ops(undo)
    _memory_functions(undo, ours)


def _builders(undo: ExitStack) -> None:
    """In deepspeed.ops.op_builder, and in each module that imported a builder from there."""
    from deepspeed.ops import op_builder
    from deepspeed.ops.op_builder.builder import OpBuilder

    # What ends in OpBuilder is a base class, of which others are made.
    names = [name for name in vars(op_builder) if re.search("(?<!Op)Builder$", name)]
    for module_name, module in list(sys.modules.items()):
        # The folder's own modules define builders; only the accelerator of before looks there.
        if module_name.split(".")[0] != "deepspeed" or module_name.startswith(_FOLDER):
            continue
        for name in names:
            value = vars(module).get(name)
            if isinstance(value, type) and issubclass(value, OpBuilder):
                replace(undo, module, name, builder_class(name))


def _all_ops(undo: ExitStack) -> None:
    """The tables behind ds_report and deepspeed.ops.__compatible_ops__."""
    import deepspeed.ops
    from deepspeed.ops.op_builder import all_ops

    ours = [builder_class(name)() for name in ("FusedAdamBuilder", "CPUAdamBuilder")]
    before = dict(all_ops.ALL_OPS)
    undo.callback(lambda: (all_ops.ALL_OPS.clear(), all_ops.ALL_OPS.update(before)))
    all_ops.ALL_OPS.update({op.name: op for op in ours})

    # In 0.19.6 it is there from the start, in 0.19.8 it is made when somebody asks.
    attributes = vars(deepspeed.ops)
    if "__compatible_ops__" in attributes:
        undo.callback(
            attributes.__setitem__, "__compatible_ops__", attributes["__compatible_ops__"]
        )
    else:
        undo.callback(attributes.pop, "__compatible_ops__", None)
    compatible = dict.fromkeys(deepspeed.ops.__compatible_ops__, False)
    compatible.update({op.name: op.is_compatible() for op in ours})
    attributes["__compatible_ops__"] = compatible


def _memory_functions(undo: ExitStack, accelerator: MPSAccelerator) -> None:
    from deepspeed.runtime import utils

    for name in ("memory_reserved", "max_memory_reserved"):
        if f"torch_{name}" in vars(utils):
            replace(undo, utils, f"torch_{name}", getattr(accelerator, name))
