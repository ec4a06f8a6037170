"""Collectives of gloo that are done in the order in which their process group started them.

With NCCL they run in order, so programs wait for the last one only (DeepSpeed 0.19.6 in ZeRO 3);
gloo runs several at a time. Every process starts those of a group in one order, so none waits here
for one that the other processes start later.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

c10d: Any = getattr(torch._C, "_distributed_c10d", None)

# A group's name is no key: it comes again when a group is destroyed and another is made.
_queues: WeakKeyDictionary[Any, _Queue] = WeakKeyDictionary()
_unfinished: set[_InOrder] = set()
_late = threading.local()  # .error: why the wait of this thread ended early


def is_running(group: Any) -> bool:
    """Whether something that :func:`in_order` was given for this group is not done."""
    queue = _queues.get(group)
    return queue is not None and bool(queue.waiting)


def in_order(work: dist.Work, outputs: Sequence[torch.Tensor], group: Any) -> dist.Work:
    """Work that is done when `work` is and all that came before it in `group`.

    Its future holds `outputs`, the caller's tensors, which DistributedDataParallel goes on with.
    gloo's own would hold CPU tensors. Point-to-point work comes back as it is: it has no future.
    """
    try:
        future = work.get_future()
    except (NotImplementedError, RuntimeError):
        return work
    started = _InOrder(work, list(outputs), _queues.setdefault(group, _Queue()))
    ordered = started.ordered
    future.add_done_callback(started.on_gloos_thread)
    return ordered  # type: ignore[no-any-return]


class _Queue:
    """Those of a group that are not done, in their order."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # gloo has several threads
        self.waiting: deque[_InOrder] = deque()

    def up_to(self, last: _InOrder) -> list[_InOrder]:
        """`last` and what it waits for; nothing if it is done."""
        with self.lock:
            before = []
            for one in self.waiting:
                before.append(one)
                if one is last:
                    return before
        return []

    def pop_done(self) -> _InOrder | None:
        """The first, if it is done. Where it has failed, so have those that wait for it."""
        with self.lock:
            if not self.waiting or not self.waiting[0].gloo_is_done:
                return None
            first = self.waiting.popleft()
            if first.error is not None:
                for one in self.waiting:
                    one.error = one.error or first.error
            return first


class _InOrder:
    """One collective."""

    def __init__(self, work: dist.Work, outputs: list[torch.Tensor], queue: _Queue) -> None:
        self.work = work
        self.outputs = outputs
        self.queue = queue
        self.gloo_is_done = False
        self.error: BaseException | None = None
        # Not _create_work_from_future: its wait() returns, whatever went wrong.
        self.ordered: Any = c10d.PythonCallbackWork(self.wait)  # a cycle, until it is done
        self.promised = self.ordered.get_future()
        with queue.lock:
            queue.waiting.append(self)
        _unfinished.add(self)

    def wait(self, timeout: timedelta) -> bool:
        """Wait, no longer than `timeout` (0: without a bound), and raise what went wrong.

        False where the time is up: what this raises, the work is done with for good.
        """
        if not self._wait_for_gloo(timeout):
            return False
        error = self.error
        if error is None:
            with contextlib.suppress(RuntimeError):  # set already
                self.promised.set_result(self.outputs)
            return True
        del self  # the future keeps the error, and with it this frame
        raise error.with_traceback(None)

    def _wait_for_gloo(self, timeout: timedelta) -> bool:
        deadline = time.monotonic() + timeout.total_seconds()
        for one in self.queue.up_to(self):
            try:
                one.work.wait(_left(deadline) if timeout else timeout)
            except RuntimeError as error:
                if timeout and not one.work.is_completed():
                    _late.error = error.with_traceback(None)
                    return False
                self.error = self.error or error.with_traceback(None)
        return True

    def on_gloos_thread(self, future: torch.futures.Future[Any]) -> None:
        """When gloo is done, before `work` counts as done."""
        try:
            future.wait()
        except Exception as error:
            self.error = self.error or error.with_traceback(None)
        self.gloo_is_done = True
        while (first := self.queue.pop_done()) is not None:
            first.finish()

    def finish(self) -> None:
        """Complete the work and its future, whether or not anyone waits."""
        ordered, self.ordered = self.ordered, None
        with contextlib.suppress(Exception):  # for whoever waits
            ordered.wait()
        _unfinished.discard(self)


def _left(deadline: float) -> timedelta:
    return timedelta(seconds=max(deadline - time.monotonic(), 1e-3))  # 0 would be without a bound


def raise_when_late(own: Any) -> Any:
    """What replaces `own`, PythonCallbackWork.wait: it raises where the time is up, as gloo's."""

    def wait(self: Any, timeout: timedelta = timedelta(0)) -> bool:
        _late.error = None
        done: bool = own(self, timeout)
        error, _late.error = _late.error, None
        if error is not None:
            raise error
        return done

    return wait


@atexit.register
def _wait_for_all() -> None:
    """gloo's threads must not come to Python when it is gone: that would abort the process.

    With CPU tensors gloo waits here, too.
    """
    for one in list(_unfinished):
        with contextlib.suppress(Exception):  # nobody is left to be told
            one.work.wait()


def _forget() -> None:
    _queues.clear()
    _unfinished.clear()


os.register_at_fork(after_in_child=_forget)  # gloo's threads are the parent's
