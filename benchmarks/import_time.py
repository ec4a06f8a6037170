"""What importing mps_ds costs beyond torch, without a device.

python benchmarks/import_time.py [--repeats 5]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

CODE = """
import time, torch
start = time.perf_counter()
import mps_ds.ops, mps_ds.optim
print(time.perf_counter() - start)
"""


def main() -> None:
    """Print the best and the median of new processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    environment = {k: v for k, v in os.environ.items() if k != "MPS_DS_SOFT"}
    seconds = sorted(
        float(subprocess.check_output([sys.executable, "-c", CODE], env=environment))
        for _ in range(args.repeats)
    )
    print(
        f"import beyond torch: best {seconds[0]:.3f} s, median {seconds[len(seconds) // 2]:.3f} s"
    )


if __name__ == "__main__":
    main()
