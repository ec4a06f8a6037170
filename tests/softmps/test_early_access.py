"""A host access to the contents of a tensor that comes before the program has waited is found.

Operators are over here when they return, so the data is right; on a Mac it may not be there yet.
"""

from __future__ import annotations

import contextlib
import re

import pytest
import torch

import mps_ds.softmps as softmps


def contents(x: torch.Tensor) -> torch.Tensor:
    """What a program gets from [buffer contents], which does not wait."""
    alias = torch.mps._host_alias_storage(x.untyped_storage())
    return torch.empty(0, dtype=x.dtype).set_(alias, x.storage_offset(), x.size(), x.stride())


@contextlib.contextmanager
def found(what: str):
    """The next wait tells of an access, and only that one."""
    yield
    with pytest.raises(RuntimeError, match=what):
        torch.mps.synchronize()
    torch.mps.synchronize()


def test_reading_a_result_without_a_wait_is_found() -> None:
    x = torch.ones(4, device="mps")
    y = x + 1
    with found(
        r"the host read byte offset 0 of the contents of a buffer \(16 bytes\) before the program "
        r"waited for 'aten::add.Tensor', which writes to it, in .*\. Wait first: "
    ):
        assert contents(y).tolist() == [2] * 4  # right, as luck would have it on a Mac


def test_a_view_from_before_the_operator_is_found_too() -> None:
    x = torch.ones(4, device="mps")
    torch.mps.synchronize()
    view = contents(x)
    assert view[3] == 1
    x.mul_(5)
    with found("byte offset 12 .* 'aten::mul_.Tensor', which writes"):
        assert view[3] == 5


def test_writing_to_what_an_operator_reads_is_found() -> None:
    x = torch.ones(4, device="mps")
    torch.mps.synchronize()
    view = contents(x)
    x + 1
    assert view[0] == 1  # both read
    with found("the host wrote to byte offset 0 .* 'aten::add.Tensor', which reads it"):
        view[0] = 7


def test_a_partial_access_names_its_place() -> None:
    x = torch.zeros(3000, device="mps")
    with found(r"byte offset 8004 of the contents of a buffer \(12000 bytes\)"):
        contents(x)[2001].item()


WAITS = {
    "synchronize": lambda x: torch.mps.synchronize(),
    "item of another tensor": lambda x: torch.ones(1, device="mps").item(),
    "cpu": lambda x: x.cpu(),
    "a copy to the device": lambda x: torch.ones(2).to("mps"),
    "nonzero": lambda x: x.nonzero(),
    "torch.accelerator": lambda x: torch.accelerator.synchronize(),
    "a stream": lambda x: torch.accelerator.current_stream().synchronize(),
}


@pytest.mark.parametrize("wait", WAITS)
def test_after_a_wait_the_host_may(wait: str) -> None:
    x = torch.ones(4, device="mps")
    view = contents(x)
    x.add_(1)
    WAITS[wait](x)
    view += 1
    torch.mps.synchronize()
    assert x.tolist() == [3] * 4


@pytest.mark.parametrize("wait", WAITS)
def test_after_a_wait_for_a_kernel_the_host_may(wait: str) -> None:
    kernels = torch.mps.compile_shader(
        "kernel void increment(device float* x, uint i [[thread_position_in_grid]]) { x[i] += 1; }"
    )
    x = torch.ones(4, device="mps")
    view = contents(x)
    kernels.increment(x)
    WAITS[wait](x)
    view += 1
    torch.mps.synchronize()
    assert x.tolist() == [3] * 4


def recorded_event() -> torch.mps.Event:
    event = torch.mps.Event()
    event.record()
    return event


def wait_by_query(event: torch.mps.Event) -> None:
    while not event.query():
        pass


@pytest.mark.parametrize("wait", [torch.mps.Event.synchronize, wait_by_query])
def test_an_event_covers_what_came_before_it(wait) -> None:
    x, y = torch.ones(4, device="mps"), torch.ones(4, device="mps")
    x.add_(1)
    event = recorded_event()
    y.add_(1)
    wait(event)
    assert contents(x).tolist() == [2] * 4
    with found("'aten::add_.Tensor', which writes"):
        contents(y).tolist()


NO_WAITS = {
    "nothing": lambda x: None,
    "an operator": lambda x: x + 1,
    "commit": lambda x: softmps._C.host_code.commit(),
    "recording an event": lambda x: recorded_event(),
    "the instrument": lambda x: softmps.host_view(x).tolist(),
    "a non-blocking copy": lambda x: x.to("cpu", non_blocking=True),
}


@pytest.mark.parametrize("other", NO_WAITS)
def test_what_is_no_wait_does_not_help(other: str) -> None:
    x = torch.ones(4, device="mps")
    x.add_(1)
    keep = NO_WAITS[other](x)
    with found("'aten::add_.Tensor', which writes"):
        contents(x).tolist()
    del keep


def test_a_kernel_that_an_operator_waits_for_is_no_wait_of_the_program() -> None:
    kernels = torch.mps.compile_shader(
        "kernel void k(device float* x, uint i [[thread_position_in_grid]]) { x[i] += 1; }"
    )
    x = torch.ones(4, device="mps")
    x.add_(1)
    kernels.k(x)
    x.add_(1)  # the stand-in has to run the kernel here; a Mac would not
    with found("'aten::add_.Tensor', which writes"):
        assert contents(x).tolist() == [4] * 4


def test_a_committed_kernel_races_with_the_host() -> None:
    kernels = torch.mps.compile_shader(
        "kernel void copy_one(device float* to, device const float* from,"
        " uint i [[thread_position_in_grid]]) { to[i] = from[i]; }"
    )
    x, y = torch.zeros(4, device="mps"), torch.ones(4, device="mps")
    torch.mps.synchronize()
    view, source = contents(x), contents(y)
    kernels.copy_one(x, y)
    assert view.tolist() == [0] * 4  # not committed: what a Mac shows
    softmps._C.host_code.commit()
    assert source.tolist() == [1] * 4  # both read
    with found("the host read byte offset 0 .* 'copy_one', which writes to it"):
        view[0].item()
    kernels.copy_one(x, y)
    softmps._C.host_code.commit()
    with found("the host wrote to byte offset 0 .* 'copy_one', which reads it"):
        source[0] = 5


def test_a_kernel_that_only_declares_its_buffer_races_too() -> None:
    x = torch.zeros(4, device="mps")
    torch.mps.synchronize()
    view = contents(x)
    softmps._C.host_code.add_one_bindless(x.untyped_storage().data_ptr(), 4)
    softmps._C.host_code.commit()
    with found("'add_one_bindless', which writes to it"):
        view[0].item()


def test_another_tensor_is_nobodys_business() -> None:
    x, y = torch.ones(4, device="mps"), torch.ones(4, device="mps")
    torch.mps.synchronize()
    view = contents(x)
    for _ in range(100):
        y.add_(1)
    view.add_(1)
    torch.mps.synchronize()
    assert x.tolist() == [2] * 4


def test_the_contents_of_a_released_buffer_are_found() -> None:
    x = torch.ones(4, device="mps")
    address = softmps.buffer_info(x)["contents"]
    torch.mps.synchronize()
    del x
    import ctypes

    with found(r"the host read byte offset \d+ of the contents of a released buffer \(16 bytes\)"):
        (ctypes.c_float * 4).from_address(address)[0]


def test_a_system_call_gets_an_error(tmp_path) -> None:
    """The kernel does not fault, so nobody can let it through."""
    x = torch.ones(4, device="mps")
    view = contents(x)
    torch.mps.synchronize()
    numbers = memoryview(view.numpy())
    x.add_(1)
    with open(tmp_path / "file", "wb", buffering=0) as file:
        with pytest.raises(OSError, match="Bad address"):
            file.write(numbers)
        torch.mps.synchronize()
        assert file.write(numbers) == 16


def test_an_alias_keeps_its_buffer() -> None:
    x = torch.ones(4, device="mps")
    torch.mps.synchronize()
    view = contents(x)
    del x
    _ = [torch.zeros(4, device="mps") for _ in range(600)]
    assert view.tolist() == [1] * 4
    torch.mps.synchronize()


def test_many_results_at_once() -> None:
    """More than can be guarded (each costs memory maps): the others go unguarded, nothing fails."""
    xs = [torch.ones(1, device="mps") for _ in range(9000)]
    views = [contents(x) for x in xs]
    torch.mps.synchronize()
    assert sum(view.item() for view in views) == 9000


STOPPED = """
import faulthandler, sys
faulthandler.enable()
import torch, mps_ds.softmps
x = torch.ones(4, device="mps")
alias = torch.mps._host_alias_storage(x.untyped_storage())
def the_culprit():
    return bytes(alias)
the_culprit()
print("went on")
"""


def test_it_can_stop_at_the_access(run_python) -> None:
    done = run_python(STOPPED, SOFTMETAL_EARLY_ACCESS="stop")
    assert done.returncode < 0
    assert re.search(r"Segmentation fault(.|\n)*in the_culprit", done.stderr)


def test_it_can_be_switched_off(run_python) -> None:
    code = STOPPED + "torch.mps.synchronize()"
    assert "went on" in run_python(code, SOFTMETAL_EARLY_ACCESS="allow").stdout
    reported = run_python(code)
    assert "went on" in reported.stdout
    assert "before the program waited for 'aten::fill_.Scalar'" in reported.stderr
