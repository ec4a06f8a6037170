"""One step of the operator on many kinds of tensors, each against float64."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from mps_ds.selftest.reference import Array, Error, Options, Values, adam, compare
from mps_ds.selftest.report import Figure

OPTIONS = {
    "AdamW": Options(lr=1e-2, weight_decay=0.1),
    "Adam with L2": Options(lr=1e-2, weight_decay=0.1, adam_w_mode=False),
    "no bias correction": Options(lr=1e-4, bias_correction=False),
    "maximize": Options(lr=1e-2, beta1=0.8, beta2=0.95, eps=1e-6, maximize=True),
}


class Lists:
    """The four lists of one call, and the float64 values that they started from."""

    def __init__(self) -> None:
        self.params: list[Tensor] = []
        self.grads: list[Tensor] = []
        self.exp_avgs: list[Tensor] = []
        self.exp_avg_sqs: list[Tensor] = []
        self.before: list[tuple[Values, Array]] = []

    def add(self, param: Tensor, grad: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor) -> None:
        """Take four tensors of one shape."""
        for column, tensor in zip(
            (self.params, self.grads, self.exp_avgs, self.exp_avg_sqs),
            (param, grad, exp_avg, exp_avg_sq),
            strict=True,
        ):
            column.append(tensor)
        values = [_float64(tensor) for tensor in (param, exp_avg, exp_avg_sq)]
        self.before.append((Values(*values), _float64(grad)))

    def step(self, step: int, options: Options) -> None:
        """Take one step; queued, not waited for."""
        from mps_ds import ops

        ops.adam_(self.params, self.grads, self.exp_avgs, self.exp_avg_sqs, step, **vars(options))

    def error(self, step: int, options: Options) -> Error:
        """The worst error of any element after that one step."""
        worst = Error()
        written = zip(self.params, self.exp_avgs, self.exp_avg_sqs, strict=True)
        for (before, grad), tensors in zip(self.before, written, strict=True):
            wanted = adam(before, grad, step, options)
            for tensor, *expected in zip(tensors, *wanted, strict=True):
                worst = worst.or_worse(compare(tensor.detach().cpu().numpy(), *expected))
        return worst

    def step_error(self, step: int, options: Options) -> Error:
        """Both."""
        self.step(step, options)
        return self.error(step, options)


def error_figure(what: str, error: Error) -> Figure:
    """Errors are told in ulp and judged by their share of the bound, which is not one for all."""
    what = f"{what}: {error.ulp:.2f} ulp at worst; of the error allowed"
    return Figure(what, error.share, "<=", 1.0)


def _float64(tensor: Tensor) -> Array:
    return tensor.detach().cpu().numpy().astype(np.float64)


Place = Callable[[Tensor], Tensor]


def _on_device(tensor: Tensor) -> Tensor:
    return tensor.to("mps")


def random_four(shape: Sequence[int], seed: int, places: Iterable[Place] = ()) -> list[Tensor]:
    """param, grad, exp_avg, exp_avg_sq; `places` put each on the device in its own way."""
    generator = torch.Generator().manual_seed(seed)
    param, grad, exp_avg = (torch.randn(*shape, generator=generator) for _ in range(3))
    exp_avg_sq = torch.rand(*shape, generator=generator) * 1e-2
    put = [*places] or [_on_device] * 4
    values = (param, grad * 0.1, exp_avg * 0.1, exp_avg_sq)
    return [place(value) for place, value in zip(put, values, strict=True)]


def accuracy() -> list[Figure]:
    """Each mode, from fresh and from old states, over shapes of a small model."""
    figures = []
    for name, options in OPTIONS.items():
        worst = Error()
        for step in (1, 2, 1000):
            lists = Lists()
            for seed, shape in enumerate([(257, 129), (64,), (3, 5, 7), (10_000,)]):
                lists.add(*random_four(shape, seed))
            worst = worst.or_worse(lists.step_error(step, options))
        figures.append(error_figure(name, worst))
    return figures


def sizes() -> list[Figure]:
    """One list that holds every size at which a kernel or its tables could change their path."""
    boundaries = [2**power for power in range(8, 18)]
    every = [0, 1, 2, 3, 4, 5, *(b + d for b in boundaries for d in (-1, 0, 1))]
    lists = Lists()
    for seed, size in enumerate(every):
        lists.add(*random_four((size,), seed))
    worst = lists.step_error(3, OPTIONS["AdamW"])

    none = Lists().step_error(1, OPTIONS["AdamW"])
    return [
        error_figure(f"one list of {len(every)} sizes up to {max(every):,}", worst),
        error_figure("the empty list", none),
    ]


def views() -> list[Figure]:
    """Params and states that are slices of large buffers; what lies between stays as it was."""
    untouched = -77.0
    lists = Lists()
    buffers: list[tuple[Tensor, Tensor]] = []
    offset = 0
    where = []
    for size in (1, 3, 4, 17, 1023, 8193):
        offset += 3  # a gap, and with it an odd offset
        where.append((offset, size))
        offset += size
    for _ in range(3):
        buffer = torch.full((offset + 5,), untouched, device="mps")
        buffers.append((buffer, torch.zeros(offset + 5, dtype=torch.bool)))
    for seed, (begin, size) in enumerate(where):
        param, grad, exp_avg, exp_avg_sq = random_four((size,), seed)
        slices = []
        for (buffer, used), value in zip(buffers, (param, exp_avg, exp_avg_sq), strict=True):
            slices.append(buffer[begin : begin + size].copy_(value))
            used[begin : begin + size] = True
        lists.add(slices[0], grad, slices[1], slices[2])
    worst = lists.step_error(2, OPTIONS["AdamW"])
    changed = sum(int((buffer.cpu()[~used] != untouched).sum()) for buffer, used in buffers)
    return [
        error_figure(f"{len(where)} views at odd offsets", worst),
        Figure("elements changed outside the views", changed, "==", 0),
    ]


def strides() -> list[Figure]:
    """Elements pair up by index, whatever each tensor's memory order is; the order is kept."""

    def transposed(tensor: Tensor) -> Tensor:
        return tensor.to("mps").mT.contiguous().mT

    def channels_last(tensor: Tensor) -> Tensor:
        return tensor.to("mps").contiguous(memory_format=torch.channels_last)

    def every_second(tensor: Tensor) -> Tensor:
        wide = torch.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1], device="mps")
        return wide[..., ::2].copy_(tensor)

    kinds = {
        "all transposed": [transposed] * 4,
        "gradient transposed": [_on_device, transposed, _on_device, _on_device],
        "all channels_last": [channels_last] * 4,
        "gradient channels_last": [_on_device, channels_last, _on_device, _on_device],
        "every second element": [every_second] * 4,
        "four different orders": [transposed, channels_last, _on_device, every_second],
    }
    figures = []
    for seed, (name, places) in enumerate(kinds.items()):
        lists = Lists()
        lists.add(*random_four((3, 6, 5, 7), seed, places))
        before = lists.params[0].stride()
        worst = lists.step_error(5, OPTIONS["AdamW"])
        if lists.params[0].stride() != before:
            raise AssertionError(f"{name}: the strides of the param changed")
        figures.append(error_figure(name, worst))
    return figures
