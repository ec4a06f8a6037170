"""Calls of adam_ on rows of adam_types.py, and what their tests share."""

import adam_types as types
import numpy as np
import pytest
import torch

from mps_ds.ops import adam_

CHUNK = 1536  # ADAM_CHUNK of csrc/mps/kernels/adam_tables.h

needs_mps = pytest.mark.skipif(not torch.backends.mps.is_available(), reason="compares two devices")
every_combination = pytest.mark.parametrize(
    "combination", types.COMBINATIONS, ids=types.combination_id
)


def run(rows, step=1, **options):
    """One call for all rows."""
    names = {"max_exp_avg_sq": "max_exp_avg_sqs", "copy": "copies"}
    extra = {names[name]: [r.extra[name] for r in rows] for name in rows[0].extra}
    adam_(
        [r.param for r in rows],
        [r.grad for r in rows],
        [r.exp_avg for r in rows],
        [r.exp_avg_sq for r in rows],
        step,
        **{"lr": 1e-2, **options},
        **extra,
    )


def assert_same_bits(some, others):
    """Tensor by tensor."""
    for a, b in zip(some, others, strict=True):
        np.testing.assert_array_equal(types.bits(a), types.bits(b))
