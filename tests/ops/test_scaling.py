"""multi_tensor_scale and multi_tensor_axpby: apex's contracts, all pairs of types."""

import itertools
import math

import pytest
import torch
from norm_reference import BOUNDARIES, DTYPES, bits, values

from mps_ds.ops import multi_tensor_axpby, multi_tensor_scale

PAIRS = list(itertools.product(DTYPES, DTYPES))


def flag(device, dtype=torch.int32) -> torch.Tensor:
    return torch.zeros(1, dtype=dtype, device=device)


def scale(inputs, outputs, factor, noop_flag=None) -> float:
    device = outputs[0].device
    noop_flag = flag(device) if noop_flag is None else noop_flag
    multi_tensor_scale(65536, noop_flag, [inputs, outputs], factor)
    return noop_flag.item()


def axpby(x, y, outputs, a, b, arg_to_check=-1) -> int:
    noop_flag = flag(outputs[0].device)
    multi_tensor_axpby(65536, noop_flag, [x, y, outputs], a, b, arg_to_check)
    return noop_flag.item()


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_scale_rounds_once(device, pair):
    inputs = [values(n, pair[0], n) for n in BOUNDARIES]
    wanted = [(x.float() * 0.3).to(pair[1]) for x in inputs]
    outputs = [torch.full(x.shape, 9.0, dtype=pair[1], device=device) for x in inputs]
    assert scale([x.to(device) for x in inputs], outputs, 0.3) == 0
    for out, expected in zip(outputs, wanted, strict=True):
        assert bits(out) == bits(expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_all_values_of_16_bits_widen_exactly(device, dtype):
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    numbers = patterns[~patterns.isnan()]
    for start in (0, 1):  # by blocks, and one by one
        source = numbers.to(device)[start:]
        out = torch.empty(len(source), device=device)
        assert scale([source], [out], 1.0) == 1  # there are infinities
        wanted = numbers[start:].float()
        # bfloat16 has values that a GPU flushes, once they are multiplied.
        kept = (wanted.abs() >= 2.0**-126) | (wanted == 0)
        assert torch.equal(out.cpu()[kept], wanted[kept])
        assert (out.cpu()[~kept].abs() <= wanted[~kept].abs()).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrowing_is_to_nearest_even(device, dtype):
    exact = values(3000, dtype).float()
    above = torch.nextafter(exact.to(dtype), torch.tensor(math.inf, dtype=dtype)).float()
    middle = (exact + above) / 2
    around = [torch.nextafter(middle, torch.full_like(middle, s * math.inf)) for s in (-1, 1)]
    extremes = torch.tensor(
        [65504.0, 65519.99, 65520.0, 3.4e38, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25]
    )
    source = torch.cat([exact, middle, *around, extremes, -middle])
    for start in (0, 1):
        out = torch.empty(len(source) - start, dtype=dtype, device=device)
        scale([source.to(device)[start:]], [out], 1.0)
        assert bits(out) == bits(source[start:].to(dtype))


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_nan_stays_nan(device, pair):
    patterns = [0x7F800001, 0x7FFFFFFF, 0x7FC00000, -1]
    source = torch.tensor(patterns * 5, dtype=torch.int32).view(torch.float32).to(pair[0])
    source[torch.isfinite(source) | torch.isinf(source)] = math.nan  # what a cast made of them
    out = torch.zeros(20, dtype=pair[1], device=device)
    assert scale([source.to(device)], [out], 2.0) == 1
    assert out.isnan().all()


@pytest.mark.parametrize("dtypes", [*itertools.product(DTYPES, DTYPES, DTYPES)], ids=str)
def test_axpby_rounds_once(device, dtypes):
    sizes = [0, 1, 3, 7, 8, 9, 33, 4099]
    x = [values(n, dtypes[0], n) for n in sizes]
    y = [values(n, dtypes[1], n + 1) for n in sizes]
    a, b = 0.75, -1.5  # products with few bits: the sum in float64 is exact
    wanted = [(a * u.double() + b * v.double()).float() for u, v in zip(x, y, strict=True)]
    outputs = [torch.full(u.shape, 9.0, dtype=dtypes[2], device=device) for u in x]
    assert axpby([t.to(device) for t in x], [t.to(device) for t in y], outputs, a, b) == 0
    for out, expected, u, v in zip(outputs, wanted, x, y, strict=True):
        product = (b * v.float()).double()  # rounded, then one fma
        fused = (a * u.double() + product).float()
        assert bits(out) == bits(fused.to(dtypes[2]))
        assert torch.allclose(out.cpu().float(), expected, rtol=2**-7, atol=1e-2)


@pytest.mark.parametrize("flag_type", [torch.int32, torch.float32])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_bad_input_sets_the_flag_and_passes_on(device, flag_type, bad):
    for size in (1, 4, 5, 8, 9, 8193):
        x = torch.ones(size, device=device)
        x[-1] = bad
        out = torch.zeros(size, device=device, dtype=torch.bfloat16)
        assert scale([x], [out], 0.5, flag(device, flag_type)) == 1
        assert math.isnan(out[-1].item()) if math.isnan(bad) else out[-1].item() == bad
        assert (out[:-1] == 0.5).all()


def test_a_set_flag_stops_nothing_and_stays_set(device):
    out = torch.zeros(4, device=device)
    assert scale([torch.ones(4, device=device)], [out], 2.0, flag(device) + 1) == 1
    assert out.tolist() == [2.0] * 4


@pytest.mark.parametrize(
    ("arg_to_check", "expected"), [(-1, (1, 1, 0)), (0, (1, 0, 0)), (1, (0, 1, 0))]
)
def test_which_argument_is_checked(device, arg_to_check, expected):
    good, bad = torch.ones(9, device=device), torch.full((9,), math.inf, device=device)
    for (x, y), found in zip(((bad, good), (good, bad), (good, good)), expected, strict=True):
        out = torch.zeros(9, device=device)
        assert axpby([x], [y], [out], 1.0, 2.0, arg_to_check) == found
        assert out.tolist() == (x + 2 * y).tolist()


def test_a_result_that_overflows_is_not_found(device):
    out = torch.zeros(4, device=device)
    assert axpby([torch.full((4,), 3e38, device=device)], [out.clone()], [out], 2.0, 1.0) == 0
    assert out.isinf().all()


def test_outputs_may_be_their_own_inputs(device):
    x = values((10, 12)).to(device)
    wanted = x.clone() * 3
    assert scale([x], [x], 3.0) == 0
    assert torch.equal(x, wanted)
    y = values((10, 12), seed=1).to(device)
    wanted = x.cpu().double() + 2 * y.cpu().double()
    axpby([x], [y], [y], 1.0, 2.0)
    assert torch.equal(y.cpu(), wanted.float())
    # By another view of the same elements too.
    wanted = x.clone() * 2
    assert scale([x.view(120)], [x.detach().view(120)], 2.0) == 0
    assert torch.equal(x, wanted)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_strides_pair_logically(device, dtype):
    x = values((6, 8)).to(device).t()
    y = values((8, 12), dtype).to(device)[:, ::2]
    memory = torch.full((8, 13), 7.0, dtype=dtype, device=device)
    out = memory[:, 1::2]
    axpby([x], [y], [out], 2.0, 1.0)
    wanted = (2 * x.cpu().double() + y.cpu().double()).float().to(dtype)
    assert torch.equal(out.cpu(), wanted)
    assert (memory[:, ::2] == 7.0).all()


def test_rows_of_all_kinds_share_a_call(device):
    inputs, outputs = [], []
    for i, (source, target) in enumerate(PAIRS * 3):
        x = values((i + 1, 5), source, i).to(device)
        inputs.append(x.t() if i % 3 == 0 else x)
        outputs.append(torch.zeros(inputs[-1].shape, dtype=target, device=device))
    assert scale(inputs, outputs, 0.5) == 0
    for x, out in zip(inputs, outputs, strict=True):
        assert torch.equal(out, (x.float() * 0.5).to(out.dtype))


def test_empty_lists():
    noop_flag = torch.zeros(1, dtype=torch.int32)
    multi_tensor_scale(1, noop_flag, [[], []], 2.0)
    multi_tensor_axpby(1, noop_flag, [[], [], []], 2.0, 1.0)
    assert noop_flag.item() == 0


def test_bad_input(device):
    ones, zeros = torch.ones(4, device=device), torch.zeros(4, device=device)

    def refused(message, lists, call=multi_tensor_scale, noop_flag=None, numbers=(2.0,)):
        before = [t.clone() for t in lists[-1]]
        with pytest.raises(RuntimeError, match=message):
            call(1, flag(device) if noop_flag is None else noop_flag, lists, *numbers)
        assert all(torch.equal(t, old) for t, old in zip(lists[-1], before, strict=True))

    def refused_axpby(message, lists, arg_to_check=-1):
        refused(message, lists, multi_tensor_axpby, None, (1.0, 1.0, arg_to_check))

    refused(r"tensor_lists has 3 lists; it must be \[inputs, outputs\]", [[ones], [ones], [zeros]])
    refused_axpby(r"tensor_lists has 2 lists; it must be \[x, y, outputs\]", [[ones], [zeros]])
    refused(r"outputs has 2 entries, inputs has 1", [[ones], [zeros, zeros]])
    refused_axpby(r"y has 0 entries, x has 1", [[ones], [], [zeros]])
    refused(
        r"outputs\[0\] has shape \(2, 2\), inputs\[0\] has \(4,\)", [[ones], [zeros.view(2, 2)]]
    )
    refused(r"inputs\[0\] is Int; accepted are", [[ones.int()], [zeros]])
    refused_axpby(r"y\[0\] is Bool", [[ones], [ones.bool()], [zeros]])
    refused(r"noop_flag is Byte; accepted", [[ones], [zeros]], noop_flag=flag(device, torch.uint8))
    refused(r"share memory, and outputs\[0\] is written", [[ones[:3]], [ones[1:]]])
    refused(r"share memory", [[ones, zeros], [zeros, zeros.clone()]])
    refused_axpby(r"arg_to_check is 2; accepted are -1", [[ones], [ones], [zeros]], 2)
    half = torch.ones(8, device=device, dtype=torch.float16)
    refused(r"share memory", [[half.view(torch.float32)], [half[:4]]])


@pytest.mark.skipif(not torch.backends.mps.is_available(), reason="needs two devices")
def test_a_flag_on_the_cpu_is_refused():
    # DeepSpeed's get_accelerator().IntTensor([0]) is one; setting it would wait for the GPU.
    lists = [[torch.ones(4, device="mps")], [torch.zeros(4, device="mps")]]
    with pytest.raises(RuntimeError, match="noop_flag is on cpu; it must be on mps"):
        multi_tensor_scale(1, flag("cpu"), lists, 1.0)


def test_outputs_get_new_versions(device):
    x, out, noop_flag = torch.ones(4, device=device), torch.ones(4, device=device), flag(device)
    versions = [t._version for t in (x, out, noop_flag)]
    multi_tensor_scale(1, noop_flag, [[x], [out]], 2.0)
    bumped = [t._version > v for t, v in zip((x, out, noop_flag), versions, strict=True)]
    assert bumped == [False, True, True]


def test_opcheck(device):
    x, y = values((4, 3)).to(device), values((4, 3), torch.float16).to(device)
    out = torch.zeros(4, 3, device=device)
    ops = torch.ops.mps_ds
    torch.library.opcheck(ops.multi_tensor_scale_.default, ([x], [out], flag(device), 2.0))
    torch.library.opcheck(
        ops.multi_tensor_axpby_.default, ([x], [y], [out], flag(device), 2.0, 1.0, -1)
    )
    torch.library.opcheck(ops._multiply_.default, ([x, y], torch.tensor(2.0, device=device)))
