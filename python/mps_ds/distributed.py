"""`torch.distributed` on mps tensors, through gloo.

PyTorch has no collectives for mps tensors: a call raises NotImplementedError, and DistributedData-
Parallel with it. After :func:`enable` they work, `torch.distributed`'s own functions unchanged::

    import mps_ds.distributed

    mps_ds.distributed.enable()
    torch.distributed.init_process_group("gloo")
    torch.distributed.all_reduce(torch.ones(4, device="mps"))

Where the tensors are in Shared storage, gloo works on their memory and nothing is copied
(:func:`mps_ds.unified.cpu_views`), so outputs may be views of inputs as on the CPU. Where they are
in Private storage (PyTorch 2.11 and older) they are copied. docs/unified_memory.md says what a
collective waits for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from ._ordered_work import c10d, in_order, is_running, raise_when_late
from .unified import cpu_views, is_shared

__all__ = ["disable", "enable", "is_enabled"]

_P2P = frozenset({"send", "recv_"})

# Every collective of c10d that gloo has, and the arguments that it writes.
_OUTPUTS: dict[str, frozenset[str]] = {
    "allgather_": frozenset({"output_tensors"}),
    "allgather_coalesced_": frozenset({"output_lists"}),
    "_allgather_base_": frozenset({"output_tensor"}),
    "allgather_into_tensor_coalesced_": frozenset({"outputs"}),
    "allreduce_": frozenset({"tensors"}),
    "allreduce_coalesced_": frozenset({"tensors"}),
    "alltoall_": frozenset({"output_tensors"}),
    "alltoall_base_": frozenset({"output"}),
    "barrier": frozenset(),
    "broadcast_": frozenset({"tensors"}),
    "gather_": frozenset({"output_tensors"}),
    "monitored_barrier_": frozenset(),
    "recv_": frozenset({"tensors"}),
    "recv_any_source_": frozenset({"tensors"}),
    "reduce_": frozenset({"tensors"}),
    "reduce_scatter_": frozenset({"output_tensors"}),
    "_reduce_scatter_base_": frozenset({"output_tensor"}),
    "reduce_scatter_tensor_coalesced_": frozenset({"outputs"}),
    "scatter_": frozenset({"output_tensors"}),
    "send": frozenset(),
}

_library: Any = None
_undo = ExitStack()  # of what else is replaced
_lock = threading.RLock()
_asked_for = False  # by a caller of enable()
_borrowers = 0  # of enable_until()


def is_enabled() -> bool:
    """Whether :func:`enable` is in force in this process."""
    return _library is not None


def enable() -> None:
    """Make the collectives of `torch.distributed` take mps tensors in this process.

    May be called at any time and again; process groups that exist already are taken in. A PyTorch
    that has collectives of its own for mps keeps them: each that it lacks is added.

    Raises:
        RuntimeError: this PyTorch was built without torch.distributed, or without gloo.
    """
    global _asked_for
    with _lock:
        _install()
        _asked_for = True


def enable_until(undo: ExitStack) -> None:
    """As :func:`enable`, until `undo` is closed; longer where somebody has called that, too."""
    global _borrowers
    with _lock:
        _install()
        _borrowers += 1
    undo.callback(_give_back)


def _give_back() -> None:
    global _borrowers
    with _lock:
        _borrowers -= 1
        _uninstall_unless_needed()


def _install() -> None:
    global _library
    if _library is not None:
        return
    if not dist.is_available() or not dist.is_gloo_available():
        raise RuntimeError("mps_ds.distributed needs a PyTorch with torch.distributed and gloo")
    _library = torch.library.Library("c10d", "IMPL")  # type: ignore[no-untyped-call]
    for name in _OUTPUTS:
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"c10d::{name}", "MPS"):
            op = getattr(torch.ops.c10d, name).default
            _library.impl(name, partial(_collective, op), "MPS")
    _let_gloo_take_mps()
    _let_meshes_take_mps()
    kind = c10d.PythonCallbackWork
    _undo.callback(setattr, kind, "wait", kind.wait)
    kind.wait = raise_when_late(kind.wait)


def disable() -> None:
    """Undo :func:`enable`: collectives on mps tensors raise NotImplementedError again.

    Not while DeepSpeed is enabled (:mod:`mps_ds.deepspeed`), which needs them.
    """
    global _asked_for
    with _lock:
        _asked_for = False
        _uninstall_unless_needed()


def _uninstall_unless_needed() -> None:
    global _library
    if _library is None or _asked_for or _borrowers:
        return
    _library._destroy()
    _library = None
    _undo.close()


def _let_gloo_take_mps() -> None:
    """Process groups are asked for the backend of a device, for batches of isend and irecv."""
    devices = dist.Backend.backend_capability["gloo"]
    if "mps" not in devices:
        devices.append("mps")
        _undo.callback(devices.remove, "mps")
    for group in list(dist.distributed_c10d._world.pg_map):
        _share_gloo(group, "cpu", "mps")


def _let_meshes_take_mps() -> None:
    """A device mesh asks whether it must choose the device; there is but one."""
    if not hasattr(torch.mps, "is_initialized"):
        torch.mps.is_initialized = torch.backends.mps.is_available  # type: ignore[attr-defined]
        _undo.callback(delattr, torch.mps, "is_initialized")


def _share_gloo(group: Any, owner: str, device: str) -> None:
    """Where gloo serves the device `owner` in a process group, let it serve `device` too."""
    types = {known.type for known in group._device_types}
    if device not in types and owner in types:
        backend = group._get_backend(torch.device(owner))
        if backend.name() == "gloo":
            gloo = dist.ProcessGroup.BackendType.GLOO
            group._register_backend(torch.device(device), gloo, backend)


def _collective(op: torch._ops.OpOverload, *args: Any) -> Any:
    """Any operator of c10d: call it on CPU tensors in place of those on mps."""
    group = dist.ProcessGroup.unbox(_argument(op, args, "process_group"))
    _share_gloo(group, "mps", "cpu")  # made for mps alone, it lacks what is called here
    if op._schema.name == "c10d::_allgather_base_" and args[1].dim() == 0:
        # NCCL takes a number, so programs have it; gloo wants the shape of its share of the output.
        args = (args[0], args[1].view(1), *args[2:])
    tensors = [tensor for arg in args for tensor in _tensors(arg) if tensor.device.type == "mps"]
    if not all(map(is_shared, tensors)):
        return _with_copies(op, args)
    # One wait for all. As in PyTorch's own collectives, autograd is not told of what they write.
    views = iter(cpu_views(tensors, writes=False))
    on_cpu = op(*[_map(lambda _: next(views), arg) for arg in args])
    return _results(op, args, on_cpu)


def _argument(op: torch._ops.OpOverload, args: tuple[Any, ...], name: str) -> Any:
    """The value of one argument; None where the operator has no such argument."""
    for argument, value in zip(op._schema.arguments, args, strict=False):
        if argument.name == name:
            return value
    return None


def _results(op: torch._ops.OpOverload, args: tuple[Any, ...], on_cpu: Any) -> Any:
    """What `op` returned for CPU tensors, as it would have for those of the caller."""
    if on_cpu is None:  # monitored_barrier_
        return None
    # (outputs, work) or work alone; an operator returns its first argument as its outputs.
    work = on_cpu[1] if isinstance(on_cpu, tuple) else on_cpu
    group = dist.ProcessGroup.unbox(_argument(op, args, "process_group"))
    # Operators without the argument are asynchronous.
    if _argument(op, args, "async_op") is not False or is_running(group):
        work = in_order(dist.Work.unbox(work), _tensors(args[0]), group).boxed()
    return (args[0], work) if isinstance(on_cpu, tuple) else work


def _with_copies(op: torch._ops.OpOverload, args: tuple[Any, ...]) -> Any:
    """The same for storage that the CPU cannot reach.

    What is copied back is what the operator wrote and nothing else: an output may be a view of an
    input, and writing the input back would undo it.
    """
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []
    name = op._schema.name.split("::")[1]
    if name == "recv_any_source_":  # work that copies when waited for cannot tell the source
        raise NotImplementedError(
            "mps_ds: a tensor in private storage can only receive from a given source, not from any"
        )
    outputs = _OUTPUTS[name]
    mapped = []
    for argument, value in zip(op._schema.arguments, args, strict=False):
        written = argument.name in outputs

        def copy(tensor: torch.Tensor, written: bool = written) -> torch.Tensor:
            on_cpu = tensor.detach().cpu()
            if written:
                copies.append((tensor, on_cpu))
            return on_cpu

        mapped.append(_map(copy, value))
    on_cpu = op(*mapped)

    def copy_back() -> None:
        with torch.no_grad():
            for tensor, result in copies:
                tensor.copy_(result)

    if name in _P2P:
        return _copy_when_waited_for(on_cpu, copy_back) if copies else on_cpu
    if on_cpu is None:
        return None
    work = on_cpu[1] if isinstance(on_cpu, tuple) else on_cpu
    dist.Work.unbox(work).wait()
    copy_back()
    return _results(op, args, on_cpu)


def _copy_when_waited_for(boxed: Any, copy_back: Callable[[], None]) -> Any:
    """A receive must not wait for its sender yet, and the copy is for the thread that waits."""
    work = dist.Work.unbox(boxed)

    def wait(timeout: Any) -> bool:
        done: bool = work.wait(timeout)
        copy_back()
        return done

    return c10d.PythonCallbackWork(wait).boxed()


def _tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of an argument, which may be one, a list, or a list of lists of them."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _map(change: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """The argument with its mps tensors changed."""
    if isinstance(value, torch.Tensor):
        return change(value) if value.device.type == "mps" else value
    if isinstance(value, (list, tuple)):
        return [_map(change, item) for item in value]
    return value
