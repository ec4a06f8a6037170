"""Host time of FusedAdam.step(): what Python and the encoding cost, kernel execution left out.

    python benchmarks/host_time.py [--counts 1 150 2000]    # on Linux with MPS_DS_SOFT=1

Kernels run after a commit, which nothing here triggers inside the timed region. On the software
device the price of declaring a resource is the stand-in's own; a Mac's is not known here.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

import mps_ds
from mps_ds.optim import FusedAdam


def host_time(count: int, repeats: int) -> list[float]:
    """Seconds of each of `repeats` steps over `count` params of 4 elements."""
    params = [torch.nn.Parameter(torch.randn(4, device="mps")) for _ in range(count)]
    for param in params:
        param.grad = torch.randn(4, device="mps")
    optimizer = FusedAdam(params)
    optimizer.step()
    seconds = []
    for _ in range(repeats):
        torch.mps.synchronize()
        start = time.perf_counter()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    torch.mps.synchronize()
    return seconds


def main() -> None:
    """Print a line for each count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 150, 2000])
    parser.add_argument("--repeats", type=int, default=100)
    args = parser.parse_args()
    print(f"device: {mps_ds.device_info()['name']}, torch {torch.__version__}")
    for count in args.counts:
        seconds = host_time(count, args.repeats)
        print(
            f"{count:5} tensors: best {min(seconds) * 1e3:.3f} ms, "
            f"median {statistics.median(seconds) * 1e3:.3f} ms"
        )


if __name__ == "__main__":
    main()
