"""The call shape of apex and DeepSpeed."""

import adam_types as types
import numpy as np
import pytest
import torch
from adam_calls import assert_same_bits
from adam_reference import Options
from adam_types import BFLOAT16, FLOAT16, FLOAT32

from mps_ds.ops import multi_tensor_adam


@pytest.mark.parametrize("combination", [(FLOAT32,) * 3, (FLOAT16,) * 3, (BFLOAT16,) * 3])
@pytest.mark.parametrize("where", ["device", "cpu"])
@pytest.mark.parametrize("adam_w_mode", [0, 1])
def test_multi_tensor_adam(device, combination, where, adam_w_mode):
    flag = torch.zeros(1, dtype=torch.int32, device=device if where == "device" else "cpu")
    before = types.row((3, 50), combination, device)
    after = before.copy()
    after.param.requires_grad_(True)  # a leaf, in grad mode

    def call():
        lists = [[after.grad], [after.param], [after.exp_avg], [after.exp_avg_sq]]
        multi_tensor_adam(2048 * 32, flag, lists, 1e-2, 0.9, 0.999, 1e-8, 2, adam_w_mode, 1, 0.1)

    call()
    options = Options(lr=1e-2, weight_decay=0.1, adam_w_mode=bool(adam_w_mode))
    types.assert_step(after, before, 2, options)
    stepped = after.copy()
    flag.fill_(1)
    call()
    assert_same_bits(after.written(), stepped.written())


@pytest.mark.parametrize("step", [np.int64(2), torch.tensor(2)])
def test_multi_tensor_adam_takes_any_whole_number_for_the_step(device, step):
    row = types.row(5, (FLOAT32,) * 3, device)
    other = row.copy()
    for r, number in ((row, step), (other, 2)):
        lists = [[r.grad], [r.param], [r.exp_avg], [r.exp_avg_sq]]
        multi_tensor_adam(1, None, lists, 1e-2, 0.9, 0.999, 1e-8, number, 1, 1, 0.0)
    assert_same_bits(row.written(), other.written())


def test_multi_tensor_adam_wants_four_lists():
    with pytest.raises(RuntimeError, match="tensor_lists has 3 lists"):
        multi_tensor_adam(1, None, [[], [], []], 0.1, 0.9, 0.999, 1e-8, 1, 1, 1, 0.0)
