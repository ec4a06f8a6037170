"""Every collective of deepspeed.comm that gloo has, in two processes on mps. Run by comm_worker.py.

Process 0 starts with (1, 2, 3, 4) and process 1 with (10, 20, 30, 40). Each case gives what the
calls wrote; what that has to be is written beside it, for process 0 and for process 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Case = Callable[[int], list[Any]]
CASES: dict[str, Case] = {}
EXPECTED: dict[str, tuple[list[Any], list[Any]]] = {}

FIRST, SECOND = [1, 2, 3, 4], [10, 20, 30, 40]
SUM = [11, 22, 33, 44]


def case(first: list[Any], second: list[Any] | None = None) -> Callable[[Case], Case]:
    """Register a case with what process 0 and process 1 have to get; once if it is the same."""

    def register(function: Case) -> Case:
        name = function.__name__
        CASES[name] = function
        EXPECTED[name] = (first, first if second is None else second)
        return function

    return register


def start(rank: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor((FIRST, SECOND)[rank], dtype=dtype, device="mps")


def empty(count: int = 4) -> torch.Tensor:
    return torch.full((count,), -1.0, device="mps")


@case([SUM])
def all_reduce(rank: int) -> list[Any]:
    dist().all_reduce(x := start(rank))
    return [x]


@case([SUM])
def all_reduce_async(rank: int) -> list[Any]:
    dist().all_reduce(x := start(rank), async_op=True).wait()
    return [x]


@case([SECOND, FIRST, [10, 40, 90, 160]])
def all_reduce_with_other_operators(rank: int) -> list[Any]:
    told = [start(rank) for _ in range(3)]
    operators = dist().ReduceOp.MAX, dist().ReduceOp.MIN, dist().ReduceOp.PRODUCT
    for x, operator in zip(told, operators, strict=True):
        dist().all_reduce(x, op=operator)
    return told


@case([SUM, SUM, SUM])
def all_reduce_of_other_types(rank: int) -> list[Any]:
    told = [start(rank, dtype) for dtype in (torch.float16, torch.bfloat16, torch.int64)]
    for x in told:
        dist().all_reduce(x)
    return told


@case([FIRST, SUM], [SECOND, SUM])
def all_reduce_in_groups(rank: int) -> list[Any]:
    alone = [dist().new_group([each]) for each in (0, 1)]  # every process makes every group
    both = dist().new_group([0, 1])
    dist().all_reduce(x := start(rank), group=alone[rank])
    dist().all_reduce(y := start(rank), group=both)
    return [x, y]


@case([SUM])
def inference_all_reduce(rank: int) -> list[Any]:
    dist().inference_all_reduce(x := start(rank))
    return [x]


@case([SUM, [33, 66, 99, 132]])
def all_reduce_coalesced(rank: int) -> list[Any]:
    x, y = start(rank), start(rank) * 3
    dist().all_reduce_coalesced([x, y])
    return [x, y]


@case([], [SUM])
def reduce(rank: int) -> list[Any]:
    dist().reduce(x := start(rank), dst=1)
    return [x] if rank == 1 else []  # what the others then hold is nobody's


@case([SECOND])
def broadcast(rank: int) -> list[Any]:
    dist().broadcast(x := start(rank), src=1)
    return [x]


@case(["of 1", [1, 2]])
def broadcast_object_list(rank: int) -> list[Any]:
    objects = ["of 1", [1, 2]] if rank == 1 else [None, None]
    dist().broadcast_object_list(objects, src=1, device=torch.device("cpu"))
    return objects


@case([FIRST, SECOND])
def all_gather(rank: int) -> list[Any]:
    told = [empty(), empty()]
    dist().all_gather(told, start(rank))
    return told


@case([{"rank": 0}, {"rank": 1}])
def all_gather_object(rank: int) -> list[Any]:
    told = [None, None]
    dist().all_gather_object(told, {"rank": rank})
    return told


@case([[*FIRST, *SECOND]] * 3)
def all_gather_into_tensor(rank: int) -> list[Any]:
    assert dist().has_all_gather_into_tensor()
    told = [empty(8), empty(8), empty(8)]
    dist().all_gather_into_tensor(told[0], start(rank))
    dist().allgather_fn(told[1], start(rank))
    dist().all_gather_into_tensor(told[2], start(rank), async_op=True).wait()
    return told


@case([[*FIRST, *SECOND]])
def all_gather_of_a_part_of_its_output(rank: int) -> list[Any]:
    """As ZeRO gathers params: each process holds its part in its place."""
    x = empty(8)
    part = x.narrow(0, 4 * rank, 4)
    part.copy_(start(rank))
    dist().all_gather_into_tensor(x, part)
    return [x]


@case([[11, 22]], [[33, 44]])
def reduce_scatter(rank: int) -> list[Any]:
    dist().reduce_scatter(x := empty(2), list(start(rank).chunk(2)))
    return [x]


@case([[11, 22]] * 3, [[33, 44]] * 3)
def reduce_scatter_tensor(rank: int) -> list[Any]:
    assert dist().has_reduce_scatter_tensor()
    told = [empty(2), empty(2), empty(2)]
    dist().reduce_scatter_tensor(told[0], start(rank))
    dist().reduce_scatter_fn(told[1], start(rank))
    dist().reduce_scatter_tensor(told[2], start(rank), async_op=True).wait()
    return told


@case([[11, 22]], [[33, 44]])
def reduce_scatter_into_a_part_of_its_input(rank: int) -> list[Any]:
    """As ZeRO 3 reduces gradients. DeepSpeed's own staging undoes it."""
    x = start(rank)
    part = x.narrow(0, 2 * rank, 2)
    dist().reduce_scatter_tensor(part, x)
    return [part]


@case([[1, 2], [10, 20]], [[3, 4], [30, 40]])
def all_to_all(rank: int) -> list[Any]:
    told = [empty(2), empty(2)]
    dist().all_to_all(told, list(start(rank).chunk(2)))
    return told


@case([[1, 2, 10, 20]], [[3, 4, 30, 40]])
def all_to_all_single(rank: int) -> list[Any]:
    dist().all_to_all_single(x := empty(), start(rank))
    return [x]


@case([[1, 10, 20, 30]], [[2, 3, 4, 40]])
def all_to_all_single_of_unequal_parts(rank: int) -> list[Any]:
    given, taken = ([1, 3], [1, 3]) if rank == 0 else ([3, 1], [3, 1])
    dist().all_to_all_single(
        x := empty(), start(rank), output_split_sizes=taken, input_split_sizes=given
    )
    return [x]


@case([FIRST, SECOND], [])
def gather(rank: int) -> list[Any]:
    told = [empty(), empty()] if rank == 0 else []
    dist().gather(start(rank), told or None, dst=0)
    return told


@case([[10, 20]], [[30, 40]])
def scatter(rank: int) -> list[Any]:
    parts = list(start(rank).chunk(2)) if rank == 1 else None
    dist().scatter(x := empty(2), parts, src=1)
    return [x]


@case([SECOND], [FIRST])
def send_and_recv(rank: int) -> list[Any]:
    x = empty()
    if rank == 0:
        dist().send(start(rank), dst=1)
        dist().recv(x, src=1)
    else:
        dist().recv(x, src=0)
        dist().send(start(rank), dst=0)
    return [x]


@case([SECOND], [FIRST])
def isend_and_irecv(rank: int) -> list[Any]:
    x = empty()
    handles = [dist().isend(start(rank), dst=1 - rank), dist().irecv(x, src=1 - rank)]
    for handle in handles:
        handle.wait()
    return [x]


@case([SECOND], [FIRST])
def batch_isend_irecv(rank: int) -> list[Any]:
    if not hasattr(dist(), "batch_isend_irecv"):  # 0.19.6
        return [(FIRST, SECOND)[1 - rank]]
    x, mine = empty(), start(rank)
    operations = [
        dist().P2POp(dist().isend, mine, 1 - rank),
        dist().P2POp(dist().irecv, x, 1 - rank),
    ]
    for handle in dist().batch_isend_irecv(operations):
        handle.wait()
    return [x]


@case([])
def barriers(rank: int) -> list[Any]:
    dist().barrier()
    dist().monitored_barrier()
    return []


@case(["gloo does not implement startCoalescing"])
def all_gather_coalesced(rank: int) -> list[Any]:
    """The one that gloo has on no device (no MiCS): it is refused, and nothing hangs."""
    assert dist().has_coalescing_manager()
    try:
        dist().all_gather_coalesced([empty(8)], [start(rank)])
    except RuntimeError as error:
        return [str(error).strip().removeprefix("Backend ")]
    return []


def dist() -> Any:
    import deepspeed.comm

    return deepspeed.comm
