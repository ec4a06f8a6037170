"""Collectives of gloo that are done in the order in which their process group started them.

With NCCL they run in order, so programs wait for the last one only (DeepSpeed 0.19.6 in ZeRO 3);
gloo runs several at a time. Every process starts those of a group in one order, so none waits here
for one that the other processes start later.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

c10d: Any = getattr(torch._C, "_distributed_c10d", None)

# Those that are not done, in their order, by the name of their group.
_running: dict[str, list[_InOrder]] = {}


def is_running(group: str) -> bool:
    """Whether something that :func:`in_order` was given for this group is not done."""
    return bool(_running.get(group))


def in_order(work: dist.Work, outputs: Sequence[torch.Tensor], group: str) -> dist.Work:
    """Work that is done when `work` is and all that came before it in `group`.

    Its future holds `outputs`, the caller's tensors, which DistributedDataParallel goes on with.
    gloo's own would hold CPU tensors. Point-to-point work comes back as it is: it has no future.
    """
    try:
        future = work.get_future()
    except (NotImplementedError, RuntimeError):
        return work
    started = _InOrder(work, future, list(outputs), _running.setdefault(group, []))
    # Not _create_work_from_future: its wait() returns, whatever went wrong.
    ordered = c10d.PythonCallbackWork(started.wait)
    started.promise(ordered)
    return ordered  # type: ignore[no-any-return]


class _InOrder:
    """One collective. It must not hold the work that is made of it: that would be a cycle."""

    def __init__(
        self,
        work: dist.Work,
        future: torch.futures.Future[Any],
        outputs: list[torch.Tensor],
        running: list[_InOrder],
    ) -> None:
        self.work = work
        self.future = future
        self._outputs = outputs
        self._running = running
        running.append(self)
        self._awaited = running[:]  # emptied once all are done: each holds tensors
        self._error: Exception | None = None

    def promise(self, ordered: Any) -> None:
        """Complete `ordered` and its future when the time comes, whether or not anyone waits."""
        self._promised = ordered.get_future()
        all_done = torch.futures.collect_all([one.future for one in self._awaited])
        all_done.add_done_callback(partial(self._finish, ordered))

    def wait(self, timeout: timedelta) -> bool:
        """Wait, no longer than `timeout` (0: without a bound), and raise what went wrong."""
        deadline = time.monotonic() + timeout.total_seconds()
        for one in self._awaited[:]:
            one.work.wait(_left(deadline) if timeout else timeout)
        if self._error is not None:
            raise self._error
        with contextlib.suppress(RuntimeError):  # set already
            self._promised.set_result(self._outputs)
        return True

    def _finish(self, ordered: Any, _: Any) -> None:
        """On the thread of gloo that was the last, before its `work` counts as done."""
        for one in self._awaited:
            try:
                one.future.wait()
            except Exception as error:
                self._error = self._error or error
        self._awaited.clear()
        with contextlib.suppress(Exception):  # for whoever waits
            ordered.wait()
        self._running.remove(self)


def _left(deadline: float) -> timedelta:
    return timedelta(seconds=max(deadline - time.monotonic(), 1e-3))  # 0 would be without a bound


@atexit.register
def _wait_for_all() -> None:
    """gloo's threads must not come to Python when it is gone: that would abort the process.

    gloo itself waits here too, when its process group is destroyed.
    """
    for running in list(_running.values()):
        for one in running[:]:
            with contextlib.suppress(Exception):  # nobody is left to be told
                one.work.wait()


os.register_at_fork(after_in_child=_running.clear)  # gloo's threads are the parent's
