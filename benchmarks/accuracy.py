"""How far a step of adam_ is from float64.

    python benchmarks/accuracy.py [--device mps] [--trials 400]    # on Linux with MPS_DS_SOFT=1

Each trial draws options (lr, betas, eps, weight decay, step count) and 20,000 elements: params
that are 0, ordinary, or as small as the update. Rounding the float64 result once is half an ulp
off; more shows where terms cancel.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from mps_ds.ops import adam_
from mps_ds.selftest import reference

ELEMENTS = 20_000
NAMES = ("param", "exp_avg", "exp_avg_sq")


def draw(rng: np.random.Generator) -> tuple[list[np.ndarray], reference.Options, int]:
    """Arrays, options and a step count."""
    options = reference.Options(
        lr=10 ** rng.uniform(-4, 0),
        beta1=rng.choice([0.9, 0.95, rng.uniform(0, 1)]),
        beta2=rng.choice([0.999, 0.95, rng.uniform(0, 1)]),
        eps=10 ** rng.uniform(-9, -1),
        weight_decay=rng.choice([0.0, 0.1]),
        adam_w_mode=bool(rng.integers(2)),
    )
    normal = [rng.standard_normal(ELEMENTS, dtype=np.float32) for _ in range(3)]
    normal[0][0::3] = 0
    normal[0][1::3] *= np.float32(options.lr)
    normal[2] *= np.float32(0.3)
    squares = rng.random(ELEMENTS, dtype=np.float32)
    squares[0::5] *= np.float32(1e-6)
    return [*normal, squares], options, int(10 ** rng.uniform(0, 4))


def main() -> None:
    """Print the worst error of each output."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="mps")
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    worst = dict.fromkeys(NAMES, 0.0)
    above = dict.fromkeys(NAMES, 0)
    for _ in range(args.trials):
        arrays, options, step = draw(rng)
        param, grad, exp_avg, exp_avg_sq = (torch.tensor(a, device=args.device) for a in arrays)
        adam_([param], [grad], [exp_avg], [exp_avg_sq], step, **vars(options))
        exact = [a.astype(np.float64) for a in arrays]
        want = reference.adam(reference.Values(exact[0], *exact[2:]), exact[1], step, options)
        for name, got in zip(NAMES, (param, exp_avg, exp_avg_sq), strict=True):
            value = getattr(want.values, name)
            result = got.cpu().numpy()
            errors = np.abs(result.astype(np.float64) - value) / reference.ulp(value)
            worst[name] = max(worst[name], float(errors.max()))
            above[name] += int((errors > 0.501).sum())
    print(f"{args.device}, torch {torch.__version__}, {args.trials * ELEMENTS:,} elements")
    for name in NAMES:
        print(f"{name:10}: at most {worst[name]:.4f} ulp of the result; over 0.501: {above[name]}")


if __name__ == "__main__":
    main()
