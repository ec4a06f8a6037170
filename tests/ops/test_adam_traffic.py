"""What the Adam kernel moves, and that its threads do not meet; counted by a tracing build."""

import sys

import adam_types as types
import pytest
import torch
from adam_types import BFLOAT16, FLOAT16, FLOAT32

from mps_ds.ops import adam_

pytestmark = pytest.mark.skipif(
    sys.platform == "darwin" or not torch.backends.mps.is_available(),
    reason="a Mac's device does not count",
)

NUMEL = 8192 + 64


def step(rows, **options):
    extra = {"max_exp_avg_sqs": "max_exp_avg_sq", "copies": "copy"}
    lists = {
        name: [r.extra[key] for r in rows] for name, key in extra.items() if key in rows[0].extra
    }
    adam_(
        [r.param for r in rows],
        [r.grad for r in rows],
        [r.exp_avg for r in rows],
        [r.exp_avg_sq for r in rows],
        options.pop("steps", 1),
        lr=1e-3,
        weight_decay=0.1,
        **lists,
        **options,
    )


# Read and written once: params and states; read once: gradients; written once: copies. The least
# that a step can move.
CASES = {
    "fp32": ((FLOAT32, FLOAT32, FLOAT32), {}, 28),
    "16-bit params and grads, fp32 states": ((BFLOAT16, BFLOAT16, FLOAT32), {}, 22),
    "all 16-bit": ((BFLOAT16, BFLOAT16, BFLOAT16), {}, 14),
    "all fp16": ((FLOAT16, FLOAT16, FLOAT16), {}, 14),
    "fp32 master, fp32 grad, 16-bit copy": ((FLOAT32, FLOAT32, FLOAT32), {"copy": BFLOAT16}, 30),
    "fp32 master, 16-bit grad, 16-bit copy": ((FLOAT32, BFLOAT16, FLOAT32), {"copy": FLOAT16}, 28),
    "amsgrad": ((FLOAT32, FLOAT32, FLOAT32), {"max_exp_avg_sq": FLOAT32}, 36),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("layout", ["dense", "odd offset", "strided"])
def test_the_least_traffic_and_no_race(race_free, case, layout):
    combination, extra, bytes_an_element = CASES[case]
    row = types.row(NUMEL, combination, "mps", **extra)
    if layout == "odd offset":
        row.grad = torch.cat([row.grad[:1], row.grad])[1:]
    if layout == "strided":
        row.grad = row.grad.repeat_interleave(2)[::2]
    step([row], grad_scale=torch.ones((), device="mps"))
    torch.mps.synchronize()
    traffic = race_free.kernels["adam"].declared
    assert traffic.bytes == traffic.distinct == bytes_an_element * NUMEL


@pytest.mark.parametrize("combination", [CASES["fp32"][0], CASES["all 16-bit"][0]])
def test_dense_rows_move_in_16_bytes_an_access(race_free, combination):
    step([types.row(NUMEL, combination, "mps")])
    torch.mps.synchronize()
    traffic = race_free.kernels["adam"].declared
    assert set(traffic.read_widths) == set(traffic.write_widths) == {16}


def test_step_counts_on_the_device_are_no_race(race_free):
    rows = [types.row(n, (FLOAT32,) * 3, "mps") for n in (3 * 8192, 5, 0)]
    counts = [torch.zeros((), device="mps") for _ in rows]
    for found_inf in (0.0, 1.0):
        step(rows, steps=counts, found_inf=torch.full((), found_inf, device="mps"))
    torch.mps.synchronize()
    assert race_free.kernels["adam_start"].dispatches == 4
    assert [c.item() for c in counts] == [1, 1, 1]


def test_without_a_step_nothing_is_written(race_free):
    row = types.row(NUMEL, (FLOAT32,) * 3, "mps")
    step([row], found_inf=torch.ones((), device="mps"))
    torch.mps.synchronize()
    traffic = race_free.kernels["adam"].declared
    assert traffic.bytes == 0


@pytest.mark.parametrize("combination", types.COMBINATIONS, ids=types.combination_id)
def test_what_metal_leaves_open_changes_no_bit(same_under_freedom, combination):
    def run():
        extra = {"max_exp_avg_sq": combination[2]}
        rows = [types.row(n, combination, "mps", seed=n, **extra) for n in (20_011, 7)]
        rows.append(types.row((9, 5), combination, "mps", **extra))
        rows[2].grad = rows[2].grad.t().contiguous().t()
        counts = [torch.full((), 3.0, device="mps") for _ in rows]
        scale = torch.full((), 8.0, device="mps")
        step(rows, steps=counts, grad_scale=scale, found_inf=torch.zeros((), device="mps"))
        return [t for r in rows for t in r.written()] + counts

    same_under_freedom(run)


def test_twenty_runs_of_1_to_2000_tensors_give_the_same_bits():
    for count in (1, 37, 2000):
        results = set()
        for _ in range(20 if count < 2000 else 3):
            rows = [types.row(1 + i % 50, (FLOAT32,) * 3, "mps", seed=i) for i in range(count)]
            step(rows)
            results.add(b"".join(types.bits(r.param).tobytes() for r in rows))
        assert len(results) == 1
