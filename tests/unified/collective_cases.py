"""What each process of test_collectives.py does, on the device that it is given.

Every case returns tensors that depend on what the collective gave; the same case on CPU tensors,
through gloo itself, is the judge. `collective_worker.py` runs them all in each process.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch
import torch.distributed as dist

Case = Callable[[torch.device], list[torch.Tensor]]
CASES: dict[str, Case] = {}

ADD_ONE = "kernel void add_one(device float* x, uint i [[thread_position_in_grid]]) { x[i] += 1; }"


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def ramp(device: torch.device, count: int = 8, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Other values in each process."""
    return (torch.arange(count) + 10 * dist.get_rank()).to(device, dtype)


def peer() -> int:
    return (dist.get_rank() + 1) % dist.get_world_size()


def before() -> int:
    return (dist.get_rank() - 1) % dist.get_world_size()


@case
def all_reduce(device):
    results = []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.AVG):
        x = ramp(device)
        dist.all_reduce(x, op=op)
        results.append(x)
    return results


@case
def all_reduce_of_each_type(device):
    results = []
    for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.int8):
        x = ramp(device, dtype=dtype)
        dist.all_reduce(x)
        results.append(x)
    return results


@case
def all_reduce_of_views(device):
    whole = ramp(device, 12)
    dist.all_reduce(whole[3:7])
    return [whole]


@case
def all_reduce_of_nothing(device):
    x = torch.empty(0, device=device)
    dist.all_reduce(x)
    return [x]


@case
def all_reduce_of_a_parameter(device):
    x = torch.nn.Parameter(ramp(device))
    with torch.no_grad():
        dist.all_reduce(x)
    return [x.detach()]


@case
def all_reduce_async(device):
    x, y = ramp(device), ramp(device) * 2
    works = [dist.all_reduce(x, async_op=True), dist.all_reduce(y, async_op=True)]
    for work in works:
        work.wait()
    assert all(work.is_completed() for work in works)
    return [x, y]


@case
def the_work_of_a_dropped_tensor(device):
    """The tensor is dropped, its memory wanted by others; the future still has its value."""
    work = dist.all_reduce(ramp(device, 1 << 12), async_op=True)
    gc.collect()
    others = [torch.zeros(1 << 12, device=device) for _ in range(8)]
    future = work.get_future()
    future.wait()
    return [future.value()[0], *others]


@case
def the_future_holds_the_tensor_itself(device):
    x = ramp(device)
    future = dist.all_reduce(x, async_op=True).get_future()
    future.wait()
    (value,) = future.value()
    assert value.device == x.device
    assert value.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    return [value]


@case
def all_reduce_coalesced(device):
    xs = [ramp(device, n) for n in (3, 1, 5)]
    dist.all_reduce_coalesced(xs)
    return xs


@case
def reduce(device):
    x = ramp(device)
    dist.reduce(x, dst=1)
    return [x] if dist.get_rank() == 1 else []  # elsewhere undefined


@case
def broadcast(device):
    x = ramp(device)
    dist.broadcast(x, src=1)
    return [x]


@case
def all_gather(device):
    outputs = [torch.zeros(8, device=device) for _ in range(dist.get_world_size())]
    dist.all_gather(outputs, ramp(device))
    return outputs


@case
def all_gather_into_tensor(device):
    output = torch.zeros(8 * dist.get_world_size(), device=device)
    dist.all_gather_into_tensor(output, ramp(device))
    work = dist.all_gather_into_tensor(output, ramp(device) * 3, async_op=True)
    work.wait()
    return [output]


@case
def all_gather_where_the_input_is_a_view_of_the_output(device):
    """As ZeRO gathers partitions."""
    output = torch.zeros(8 * dist.get_world_size(), device=device)
    mine = output.narrow(0, 8 * dist.get_rank(), 8)
    mine.copy_(ramp(device))
    dist.all_gather_into_tensor(output, mine)
    parts = list(output.chunk(dist.get_world_size()))
    dist.all_gather(parts, parts[dist.get_rank()] * 2)
    return [output]


@case
def reduce_scatter(device):
    inputs = [ramp(device) * (i + 1) for i in range(dist.get_world_size())]
    output = torch.zeros(8, device=device)
    dist.reduce_scatter(output, inputs)
    return [output]


@case
def reduce_scatter_tensor(device):
    output = torch.zeros(4, device=device)
    dist.reduce_scatter_tensor(output, ramp(device, 4 * dist.get_world_size()))
    return [output]


@case
def reduce_scatter_where_the_output_is_a_view_of_the_input(device):
    """As in ZeRO-3's coalesced_collectives; an input that is copied back would undo the sum."""
    world, rank = dist.get_world_size(), dist.get_rank()
    whole = torch.full((2 * world,), float(rank + 1), device=device)
    output = whole.narrow(0, 2 * rank, 2)
    dist.reduce_scatter_tensor(output, whole)
    assert output.tolist() == [world * (world + 1) / 2] * 2
    return [output]


@case
def all_to_all(device):
    world = dist.get_world_size()
    outputs = [torch.zeros(8, device=device) for _ in range(world)]
    dist.all_to_all(outputs, [ramp(device) + 100 * i for i in range(world)])
    single = torch.zeros(8 * world, device=device)
    dist.all_to_all_single(single, ramp(device, 8 * world))
    return [*outputs, single]


@case
def all_to_all_of_uneven_parts(device):
    world, rank = dist.get_world_size(), dist.get_rank()
    gives = [2 + rank + to for to in range(world)]
    takes = [2 + rank + source for source in range(world)]
    output = torch.zeros(sum(takes), device=device)
    dist.all_to_all_single(output, ramp(device, sum(gives)), takes, gives)
    return [output]


@case
def each_collective_async(device):
    world, rank = dist.get_world_size(), dist.get_rank()
    x, both = ramp(device), ramp(device, 8 * world)
    gathered, part, single = (torch.zeros(n, device=device) for n in (8 * world, 8, 8 * world))
    reduced, sent, scattered = ramp(device), ramp(device), torch.zeros(8, device=device)
    listed = [torch.zeros(8, device=device) for _ in range(world)]
    collected = [torch.zeros(8, device=device) for _ in range(world)] if rank == 0 else None
    parts = [ramp(device) + i for i in range(world)] if rank == 0 else None
    works = [
        dist.all_reduce(x, async_op=True),
        dist.all_gather_into_tensor(gathered, ramp(device), async_op=True),
        dist.reduce_scatter_tensor(part, both, async_op=True),
        dist.all_to_all_single(single, ramp(device, 8 * world), async_op=True),
        dist.reduce(reduced, dst=1, async_op=True),
        dist.broadcast(sent, src=1, async_op=True),
        dist.all_gather(listed, ramp(device), async_op=True),
        dist.gather(ramp(device), collected, dst=0, async_op=True),
        dist.scatter(scattered, parts, src=0, async_op=True),
        dist.barrier(async_op=True),
    ]
    for work in reversed(works):
        work.wait()
    result = [x, gathered, part, single, sent, *listed, *(collected or []), scattered]
    return result + ([reduced] if rank == 1 else [])  # elsewhere it is no result


@case
def gather_and_scatter(device):
    world, rank = dist.get_world_size(), dist.get_rank()
    outputs = [torch.zeros(8, device=device) for _ in range(world)] if rank == 1 else None
    dist.gather(ramp(device), outputs, dst=1)
    part = torch.zeros(8, device=device)
    parts = [ramp(device) * (i + 2) for i in range(world)] if rank == 0 else None
    dist.scatter(part, parts, src=0)
    return [part, *(outputs or [])]


@case
def barriers(device):
    dist.barrier()
    dist.monitored_barrier()
    dist.barrier(async_op=True).wait()
    return []


@case
def send_and_receive(device):
    x, y = ramp(device), torch.zeros(8, device=device)
    if dist.get_rank() == 0:
        dist.send(x, dst=1)
        dist.recv(y, src=1)
    elif dist.get_rank() == 1:
        dist.recv(y, src=0)
        dist.send(x, dst=0)
    return [y]


@case
def messages_with_tags(device):
    """Received in the other order than they are sent."""
    if dist.get_rank() == 0:
        sent = [dist.isend(ramp(device) + tag, dst=1, tag=tag) for tag in (1, 2, 3)]
        for work in sent:
            work.wait()
        return []
    if dist.get_rank() > 1:
        return []
    received = [torch.zeros(8, device=device) for _ in range(3)]
    works = [dist.irecv(received[tag - 1], src=0, tag=tag) for tag in (3, 1, 2)]
    for work in works:
        work.wait()
    return received


@case
def receive_from_anybody(device):
    y = torch.zeros(8, device=device)
    if dist.get_rank() == 0:
        for _ in range(dist.get_world_size() - 1):
            source = dist.recv(y)
            assert y[0].item() == 10 * source
    else:
        dist.send(ramp(device), dst=0)
    return []


@case
def receive_before_send_in_all_processes(device):
    """Each waits for the other, unless irecv is asynchronous."""
    y = torch.zeros(8, device=device)
    receiving = dist.irecv(y, src=before())
    sending = dist.isend(ramp(device), dst=peer())
    gc.collect()
    receiving.wait()
    sending.wait()
    return [y]


@case
def a_batch_of_sends_and_receives(device):
    y, z = torch.zeros(8, device=device), torch.zeros(8, device=device)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.irecv, y, before()),
            dist.P2POp(dist.isend, ramp(device), peer()),
            dist.P2POp(dist.irecv, z, peer(), tag=1),
            dist.P2POp(dist.isend, ramp(device) * 2, before(), tag=1),
        ]
    )
    for work in works:
        work.wait()
    return [y, z]


@case
def work_that_was_encoded_is_waited_for(device):
    """A kernel that has not run yet runs before gloo reads, a later one after it wrote."""
    x = ramp(device)
    if device.type == "mps":
        kernels = torch.mps.compile_shader(ADD_ONE)
        kernels.add_one(x)
        dist.all_reduce(x)
        kernels.add_one(x)
    else:
        x += 1
        dist.all_reduce(x)
        x += 1
    return [x]


@case
def a_group_of_some(device):
    group = dist.new_group([1, 0])
    x = ramp(device)
    if dist.get_rank() < 2:
        dist.all_reduce(x, group=group)
        other = 1 - dist.get_rank()
        sent, received = x + dist.get_rank(), torch.zeros_like(x)
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, sent, other, group),
                dist.P2POp(dist.irecv, received, other, group),
            ]
        )
        for work in works:
            work.wait()
        x = received
    return [x]


@case
def objects(device):
    everyone: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, {"rank": dist.get_rank(), "tensor": ramp(device).cpu()})
    return [item["tensor"] for item in everyone]


@case
def functional_collectives(device):
    from torch.distributed import _functional_collectives as functional

    group = dist.group.WORLD
    summed = functional.all_reduce(ramp(device), "sum", group)
    gathered = functional.all_gather_tensor(ramp(device), 0, group)
    part = functional.reduce_scatter_tensor(ramp(device), "sum", 0, group)
    return [summed + 0, gathered + 0, part + 0]


@case
def device_meshes(device):
    """DTensor and tensor parallelism, which find their processes through a mesh."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, parallel

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    whole = torch.arange(32.0).reshape(8, 4).to(device)
    shard = distribute_tensor(whole, mesh, [Shard(0)])
    torch.manual_seed(3)
    first, second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)
    model = torch.nn.Sequential(first, torch.nn.Tanh(), second).to(device)
    plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    parallel.parallelize_module(model, mesh, plan)
    output = model(whole)
    output.sum().backward()
    gathered = [
        shard.redistribute(mesh, [Replicate()]).to_local(),
        (shard @ shard.t()).full_tensor(),
        output,
        *(p.grad.full_tensor() for p in model.parameters()),
    ]
    return [tensor + 0 for tensor in gathered]  # waits for what is still under way


@case
def refusals(device):
    """gloo's own words: a tensor that is not contiguous, shapes that do not fit."""
    words = []
    for wrong in (
        lambda: dist.all_reduce(ramp(device).reshape(2, 4).t()),
        lambda: dist.all_gather_into_tensor(torch.zeros(3, device=device), ramp(device)),
        lambda: dist.all_reduce(torch.zeros(2, dtype=torch.complex64, device=device).t()),
    ):
        try:
            wrong()
            words.append("")
        except (RuntimeError, ValueError) as error:
            words.append(type(error).__name__)
    return [torch.tensor([ord(c) for c in " ".join(words)])]


def _train(device, model, **options):
    """Three steps of DistributedDataParallel, each process on data of its own."""
    parallel = torch.nn.parallel.DistributedDataParallel(model.to(device), **options)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        optimizer.zero_grad()
        batch = torch.randn(4, 8, generator=generator).to(device)
        parallel(batch).square().mean().backward()
        optimizer.step()
    return [p.detach() for p in parallel.parameters()] + list(parallel.buffers())


def _model(norm: bool = False) -> torch.nn.Module:
    torch.manual_seed(dist.get_rank())  # DistributedDataParallel makes them alike
    middle = torch.nn.BatchNorm1d(16) if norm else torch.nn.GELU()
    return torch.nn.Sequential(torch.nn.Linear(8, 16), middle, torch.nn.Linear(16, 4))


@case
def ddp(device):
    return _train(device, _model())


@case
def ddp_with_gradients_in_the_buckets(device):
    return _train(device, _model(), gradient_as_bucket_view=True, bucket_cap_mb=0.0003)


@case
def ddp_with_buffers_and_unused_parameters(device):
    class PartlyUsed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = _model(norm=True), torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    return _train(device, PartlyUsed(), find_unused_parameters=True)


@case
def ddp_with_a_static_graph(device):
    return _train(device, _model(), static_graph=True)


@case
def ddp_without_synchronisation_for_a_while(device):
    parallel = torch.nn.parallel.DistributedDataParallel(_model().to(device))
    with parallel.no_sync():
        for _ in range(2):
            parallel(ramp(device, 16).reshape(2, 8)).sum().backward()
    alone = [p.grad.clone() for p in parallel.parameters()]
    parallel(ramp(device, 16).reshape(2, 8)).sum().backward()
    return [*alone, *(p.grad for p in parallel.parameters())]


@case
def ddp_where_a_process_has_less_data(device):
    from torch.distributed.algorithms.join import Join

    parallel = torch.nn.parallel.DistributedDataParallel(_model().to(device))
    with Join([parallel]):
        for _ in range(2 + dist.get_rank()):
            parallel(ramp(device, 16).reshape(2, 8)).sum().backward()
    return [p.grad for p in parallel.parameters()]


@case
def ddp_with_states_divided(device):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    parallel = torch.nn.parallel.DistributedDataParallel(_model().to(device))
    optimizer = ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.Adam, lr=0.1)
    for _ in range(2):
        parallel(ramp(device, 16).reshape(2, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach() for p in parallel.parameters()]


@case
def ddp_with_a_communication_hook(device):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    model = _model().to(device)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)
    parallel(ramp(device, 8).reshape(1, 8)).sum().backward()
    return [p.grad for p in parallel.parameters()]
