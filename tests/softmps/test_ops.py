"""An operator on mps equals the same operator on the CPU bit for bit, forward and backward."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

Shape = tuple[int, ...]
M, N, K = 5, 7, 6
IMAGE = (2, 4, 9, 9)

# name: (function of the inputs, shapes of the inputs)
DIFFERENTIABLE: dict[str, tuple[Callable[..., Tensor], list[Shape]]] = {
    "add": (lambda a, b: a + b, [(M, N), (N,)]),
    "sub_scaled": (lambda a, b: torch.sub(a, b, alpha=3), [(M, N), (M, 1)]),
    "mul": (lambda a, b: a * b, [(M, N), (M, N)]),
    "div": (lambda a, b: a / (b.abs() + 1), [(M, N), (M, N)]),
    "pow": (lambda a: a.abs().pow(1.7), [(M, N)]),
    "reciprocal": (lambda a: (a.abs() + 1).reciprocal(), [(M, N)]),
    "exp": (lambda a: a.exp(), [(M, N)]),
    "log": (lambda a: (a.abs() + 1).log(), [(M, N)]),
    "sqrt": (lambda a: (a.abs() + 1).sqrt(), [(M, N)]),
    "rsqrt": (lambda a: (a.abs() + 1).rsqrt(), [(M, N)]),
    "sin": (lambda a: a.sin() * a.cos(), [(M, N)]),
    "tanh": (lambda a: a.tanh(), [(M, N)]),
    "sigmoid": (lambda a: a.sigmoid(), [(M, N)]),
    "erf": (lambda a: a.erf(), [(M, N)]),
    "abs": (lambda a: a.abs(), [(M, N)]),
    "clamp": (lambda a: a.clamp(-0.5, 0.5), [(M, N)]),
    "where": (lambda a, b: torch.where(a > b, a, b * 2), [(M, N), (M, N)]),
    "maximum": (torch.maximum, [(M, N), (M, N)]),
    "lerp": (lambda a, b: torch.lerp(a, b, 0.3), [(M, N), (M, N)]),
    "addcmul": (lambda a, b, c: torch.addcmul(a, b, c, value=0.1), [(M, N)] * 3),
    "addcdiv": (lambda a, b, c: torch.addcdiv(a, b, c.abs() + 1, value=0.1), [(M, N)] * 3),
    "sum": (lambda a: a.sum(1), [(M, N)]),
    "mean": (lambda a: a.mean((0, 2)), [(M, N, K)]),
    "prod": (lambda a: a.prod(1), [(M, N)]),
    "var": (lambda a: a.var(1), [(M, N)]),
    "std": (lambda a: a.std(), [(M, N)]),
    "norm": (lambda a: torch.linalg.vector_norm(a), [(M, N)]),
    "amax": (lambda a: a.amax(1), [(M, N)]),
    "max_with_indices": (lambda a: a.max(1).values, [(M, N)]),
    "median": (lambda a: a.median(1).values, [(M, N)]),
    "sort": (lambda a: a.sort(1, descending=True).values, [(M, N)]),
    "topk": (lambda a: a.topk(3, 1).values, [(M, N)]),
    "cumsum": (lambda a: a.cumsum(1), [(M, N)]),
    "logsumexp": (lambda a: a.logsumexp(1), [(M, N)]),
    "softmax": (lambda a: a.softmax(1), [(M, N)]),
    "log_softmax": (lambda a: a.log_softmax(1), [(M, N)]),
    "matmul": (lambda a, b: a @ b, [(M, K), (K, N)]),
    "bmm": (torch.bmm, [(3, M, K), (3, K, N)]),
    "addmm": (torch.addmm, [(M, N), (M, K), (K, N)]),
    "matmul_vector": (lambda a, b: a @ b, [(M, K), (K,)]),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), [(2, M, K), (2, N, K)]),
    "linear": (F.linear, [(M, K), (N, K), (N,)]),
    "conv1d": (lambda x, w: F.conv1d(x, w, padding=1), [(2, 3, 9), (4, 3, 3)]),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, stride=2), [IMAGE, (6, 4, 3, 3), (6,)]),
    "conv2d_grouped": (lambda x, w: F.conv2d(x, w, groups=2), [IMAGE, (6, 2, 3, 3)]),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2), [IMAGE, (4, 3, 2, 2)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), [IMAGE]),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2), [IMAGE]),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 2), [IMAGE]),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), [IMAGE]),
    "pad_reflect": (lambda x: F.pad(x, (1, 2, 1, 1), mode="reflect"), [IMAGE]),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), [IMAGE]),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        [IMAGE, (4,), (4,)],
    ),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (N,), w, b), [(M, N), (N,), (N,)]),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), [IMAGE, (4,), (4,)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (N,), w), [(M, N), (N,)]),
    "relu": (F.relu, [(M, N)]),
    "gelu": (F.gelu, [(M, N)]),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), [(M, N)]),
    "silu": (F.silu, [(M, N)]),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), [(M, N)]),
    "softplus": (F.softplus, [(M, N)]),
    "glu": (lambda x: F.glu(x, 1), [(M, 2 * N)]),
    "mse_loss": (F.mse_loss, [(M, N), (M, N)]),
    "smooth_l1_loss": (F.smooth_l1_loss, [(M, N), (M, N)]),
    "bce_with_logits": (
        lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        [(M, N), (M, N)],
    ),
    "cat": (lambda a, b: torch.cat([a, b], 1), [(M, N), (M, K)]),
    "stack": (lambda a, b: torch.stack([a, b], 1), [(M, N), (M, N)]),
    "split": (lambda a: a.split(3, 1)[1] * 2, [(M, N)]),
    "permute": (lambda a: a.permute(2, 0, 1).contiguous(), [(M, N, K)]),
    "slice": (lambda a: a[1::2, -3:] + 1, [(M, N)]),
    "expand": (lambda a: a.expand(4, M, N) * 2, [(M, N)]),
    "roll": (lambda a: a.roll(2, 1), [(M, N)]),
    "flip": (lambda a: a.flip(0, 1), [(M, N)]),
    "tril": (lambda a: a.tril(), [(M, M)]),
    "diagonal": (lambda a: a.diagonal() * 2, [(M, M)]),
    "complex_fft": (lambda a: torch.fft.rfft(a).abs(), [(M, N)]),
}


def random_tensors(shapes: list[Shape]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(17)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def run(function: Callable[..., Tensor], inputs: list[Tensor], device: str) -> list[Tensor]:
    """The result and the gradients of a function whose output is weighted unevenly."""
    leaves = [x.clone().to(device).requires_grad_() for x in inputs]
    result = function(*leaves)
    weights = torch.linspace(-1, 1, result.numel()).view(result.shape).to(device)
    (result * weights).sum().backward()
    return [result.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def assert_identical(on_mps: Tensor, on_cpu: Tensor) -> None:
    assert on_mps.device == torch.device("mps", 0)
    assert (on_mps.dtype, on_mps.stride()) == (on_cpu.dtype, on_cpu.stride())
    assert torch.equal(on_mps.cpu(), on_cpu)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_forward_and_backward(name: str) -> None:
    function, shapes = DIFFERENTIABLE[name]
    inputs = random_tensors(shapes)
    expected, actual = run(function, inputs, "cpu"), run(function, inputs, "mps")
    assert len(actual) == len(expected) == 1 + len(shapes)
    for on_mps, on_cpu in zip(actual, expected, strict=True):
        assert_identical(on_mps, on_cpu)


INTEGERS = torch.arange(24).view(4, 6) * 7 % 11
# name: function of (integers, floats), not differentiable
PLAIN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "integer_arithmetic": lambda i, x: (i * 3 - 1) // 2 % 5,
    "bitwise": lambda i, x: (i & 6) | (i << 1) ^ 3,
    "comparison": lambda i, x: (i > 4) & (x < 0.5),
    "argsort": lambda i, x: x.argsort(1),
    "argmax": lambda i, x: x.argmax(1),
    "nonzero": lambda i, x: (i > 4).nonzero(),
    "masked_select": lambda i, x: x[i > 4],
    "unique": lambda i, x: i.unique(),
    "bincount": lambda i, x: i.flatten().bincount(),
    "one_hot": lambda i, x: F.one_hot(i),
    "isnan": lambda i, x: (x / x.sign().relu()).isnan(),
    "searchsorted": lambda i, x: torch.searchsorted(x.sort(1).values, x),
    "to_bfloat16": lambda i, x: x.bfloat16(),
    "to_half_and_back": lambda i, x: x.half().float(),
    "round": lambda i, x: (x * 3).round(),
    "histc": lambda i, x: x.histc(8, -2, 2),
}


@pytest.mark.parametrize("name", PLAIN)
def test_not_differentiable(name: str) -> None:
    floats = random_tensors([(4, 6)])[0]
    expected = PLAIN[name](INTEGERS, floats)
    actual = PLAIN[name](INTEGERS.to("mps"), floats.to("mps"))
    assert actual.dtype == expected.dtype
    assert actual.device.type == "mps"
    assert torch.equal(actual.cpu().nan_to_num(), expected.nan_to_num())


INDICES = torch.tensor([[1, 2, 1], [0, 4, 3]])


def test_embedding_with_repeated_rows() -> None:
    def lookup(weight: Tensor) -> Tensor:
        return F.embedding(INDICES.to(weight.device), weight)

    inputs = random_tensors([(5, 3)])
    for on_mps, on_cpu in zip(run(lookup, inputs, "mps"), run(lookup, inputs, "cpu"), strict=True):
        assert_identical(on_mps, on_cpu)


def test_cross_entropy_with_ignored_targets() -> None:
    def loss(x: Tensor) -> Tensor:
        return F.cross_entropy(x, torch.tensor([1, -100, 3], device=x.device), label_smoothing=0.1)

    inputs = random_tensors([(3, 5)])
    for on_mps, on_cpu in zip(run(loss, inputs, "mps"), run(loss, inputs, "cpu"), strict=True):
        assert_identical(on_mps, on_cpu)


@pytest.mark.parametrize("name", ["gather", "scatter_add", "index_select", "index_put"])
def test_indexed_reads_and_writes(name: str) -> None:
    index = torch.tensor([[0, 2, 1], [3, 3, 0]])

    def function(x: Tensor) -> Tensor:
        i = index.to(x.device)
        if name == "gather":
            return x.gather(1, i)
        if name == "scatter_add":
            return x.scatter_add(1, i, x[:, :3] * 2)
        if name == "index_select":
            return x.index_select(1, i[0])
        return x.index_put((i[0, :2], i[1, 1:]), x.sum())

    inputs = random_tensors([(4, 4)]) if name == "index_put" else random_tensors([(2, 4)])
    for on_mps, on_cpu in zip(
        run(function, inputs, "mps"), run(function, inputs, "cpu"), strict=True
    ):
        assert_identical(on_mps, on_cpu)


@pytest.mark.parametrize("mask", ["none", "causal", "boolean", "additive"])
def test_attention_equals_the_cpu_math_path(mask: str) -> None:
    allowed = torch.ones(5, 5).tril() > 0

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        bias = None
        if mask == "boolean":
            bias = allowed.to(q.device)
        elif mask == "additive":
            bias = torch.zeros(5, 5, device=q.device).masked_fill(~allowed.to(q.device), -1e9)
        return F.scaled_dot_product_attention(q, k, v, bias, is_causal=mask == "causal")

    inputs = random_tensors([(2, 3, 5, 8)] * 3)
    actual = run(attention, inputs, "mps")
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = run(attention, inputs, "cpu")
    for on_mps, on_cpu in zip(actual, expected, strict=True):
        assert torch.equal(on_mps.cpu(), on_cpu)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_types(dtype: torch.dtype) -> None:
    a, b = (x.to(dtype) for x in random_tensors([(M, N), (M, N)]))
    for function in (torch.add, torch.mul, lambda x, y: x @ y.t(), lambda x, y: x.softmax(1) - y):
        assert torch.equal(function(a.to("mps"), b.to("mps")).cpu(), function(a, b))
