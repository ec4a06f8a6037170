"""How far a step of adam_ is from float64.

    python benchmarks/accuracy.py [--device mps] [--trials 400]    # on Linux with MPS_DS_SOFT=1

Each trial draws options (lr, betas, eps, weight decay, step count) and 20,000 elements: params
that are 0, ordinary, or as small as the update. Rounding the float64 result once is half an ulp
off; more shows where terms cancel. Then the same for each combination of storage types, in ulp of
the type that a value is stored in, at the largest term of the sum that it is: 16-bit numbers often
cancel to nothing, where an ulp of the result means nothing either.
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


TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# params, grads, states
COMBINATIONS = [
    (param, grad, state)
    for param in TYPES
    for grad in TYPES
    for state in dict.fromkeys(("fp32", param))
]


def spacing(x: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """The distance of numbers of `dtype` at |x|."""
    info = torch.finfo(dtype)
    exponent = np.frexp(np.maximum(np.abs(x), info.smallest_normal))[1] - 1
    return 2.0**exponent * info.eps


def errors(
    arrays: list[np.ndarray],
    options: reference.Options,
    step: int,
    combination: tuple[str, str, str],
    device: str,
    of_largest: bool,
) -> list[np.ndarray]:
    """Of each output, in ulp of its type: of the result, or of its largest term."""
    param_type, grad_type, state_type = (TYPES[name] for name in combination)
    types = (param_type, grad_type, state_type, state_type)
    tensors = [torch.tensor(a).to(device, t) for a, t in zip(arrays, types, strict=True)]
    exact = [t.cpu().double().numpy() for t in tensors]
    param, grad, exp_avg, exp_avg_sq = tensors
    adam_([param], [grad], [exp_avg], [exp_avg_sq], step, **vars(options))
    want = reference.adam(reference.Values(exact[0], *exact[2:]), exact[1], step, options)
    units = want.largest if of_largest else want.values
    return [
        np.abs(got.cpu().double().numpy() - value) / spacing(unit, got.dtype)
        for got, value, unit in zip((param, exp_avg, exp_avg_sq), want.values, units, strict=True)
    ]


def table(rng: np.random.Generator, device: str, trials: int) -> None:
    """Worst and mean error of each output for each combination of types."""
    print(f"{'param':6}{'grad':6}{'state':7}" + "".join(f"{name:>22}" for name in NAMES))
    draws = [draw(rng) for _ in range(trials)]
    for combination in COMBINATIONS:
        columns = zip(*(errors(*d, combination, device, True) for d in draws), strict=True)
        cells = (np.concatenate(column) for column in columns)
        text = "".join(f"{c.max():14.3f} (mean {c.mean():.2f})"[-22:].rjust(22) for c in cells)
        print(f"{combination[0]:6}{combination[1]:6}{combination[2]:7}{text}")


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
        for name, error in zip(
            NAMES, errors(*draw(rng), ("fp32", "fp32", "fp32"), args.device, False), strict=True
        ):
            worst[name] = max(worst[name], float(error.max()))
            above[name] += int((error > 0.501).sum())
    print(f"{args.device}, torch {torch.__version__}, {args.trials * ELEMENTS:,} elements, fp32")
    for name in NAMES:
        print(f"{name:10}: at most {worst[name]:.4f} ulp of the result; over 0.501: {above[name]}")
    print(f"\nby types, {max(1, args.trials // 20) * ELEMENTS:,} elements each: worst (mean) ulp")
    table(rng, args.device, max(1, args.trials // 20))


if __name__ == "__main__":
    main()
