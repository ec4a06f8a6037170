"""Speed of the CPU Adam beside torch's optimizers, DeepSpeed's CPU Adam and a loop that copies.

    python benchmarks/cpu_adam.py [--elements 100] [--repeats 9] [--threads 2]

DeepSpeed's comes from its sdist, which pip downloads, compiled here as for a processor with AVX2
(its bfloat16 loop is scalar there); nothing of it is kept but in --cache. All contestants of a line
run in turn, --repeats times, on the same params and gradients. A ratio is between two best times of
one run. Beside the time on the clock stands the processor time of all threads: on a machine that
others use too, only its ratios mean something.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

# Threads that wait do not spin: it would count as processor time.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

TABLES = ["float32", "bfloat16", "float16", "many"]
DEEPSPEED = "0.19.8"
FLAGS = ["-O3", "-std=c++20", "-march=x86-64-v3", "-fopenmp", "-w"]
STREAM = """
#include <torch/extension.h>
// What a step of Adam in float32 moves, and no arithmetic to speak of: 4 streams read, 3 written.
void stream(torch::Tensor& p, torch::Tensor& g, torch::Tensor& m, torch::Tensor& v) {
  float* pp = p.data_ptr<float>();
  const float* gg = g.data_ptr<float>();
  float* mm = m.data_ptr<float>();
  float* vv = v.data_ptr<float>();
  const int64_t n = p.numel();
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) {
    pp[i] += gg[i];
    mm[i] += gg[i];
    vv[i] += gg[i];
  }
}
"""


def deepspeed_sources(cache: Path) -> Path:
    """The folder csrc of DeepSpeed's sdist, downloaded once."""
    folder = cache / f"deepspeed-{DEEPSPEED}"
    if not (folder / "csrc").is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        sdist = [f"deepspeed=={DEEPSPEED}", "--no-deps", "--no-binary", ":all:", "-q", "-d", cache]
        environment = {**os.environ, "DS_BUILD_OPS": "0"}
        subprocess.run(
            [sys.executable, "-m", "pip", "download", *sdist], check=True, env=environment
        )
        with tarfile.open(cache / f"deepspeed-{DEEPSPEED}.tar.gz") as archive:
            archive.extractall(cache, filter="data")
    return folder / "csrc"


def deepspeed_module(cache: Path):
    """DeepSpeed's extension module for AVX2."""
    from torch.utils import cpp_extension

    csrc = deepspeed_sources(cache)
    build = cache / "avx2"
    build.mkdir(exist_ok=True)
    return cpp_extension.load(
        "deepspeed_cpu_adam_avx2",
        [str(csrc / "adam" / "cpu_adam.cpp"), str(csrc / "adam" / "cpu_adam_impl.cpp")],
        extra_include_paths=[str(csrc / "includes")],
        extra_cflags=[*FLAGS, "-D__AVX256__"],
        extra_ldflags=["-fopenmp"],
        build_directory=str(build),
    )


def stream_module(cache: Path):
    """The copying loop."""
    from torch.utils import cpp_extension

    build = cache / "stream"
    build.mkdir(parents=True, exist_ok=True)
    return cpp_extension.load_inline(
        "adam_stream",
        STREAM,
        functions=["stream"],
        extra_cflags=FLAGS,
        extra_ldflags=["-fopenmp"],
        build_directory=str(build),
    )


class Timer:
    """Runs contestants in turn; keeps the best time of each, on the clock and of the processors."""

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        self.clock: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def run(self, contestants: dict[str, Callable[[], object]]) -> None:
        """One warm-up, then the rounds."""
        for round_ in range(self.repeats + 1):
            for name, function in contestants.items():
                start = time.perf_counter(), time.process_time()
                function()
                clock = time.perf_counter() - start[0]
                cpu = time.process_time() - start[1]
                if round_:
                    self.clock[name] = min(self.clock.get(name, clock), clock)
                    self.cpu[name] = min(self.cpu.get(name, cpu), cpu)

    def report(self, title: str, threads: int) -> None:
        """A line for each contestant; `times`: how often the first's time it takes."""
        print(f"\n{title}\n{'':28}{'clock ms':>10}{'times':>8}{'cpu ms':>10}{'times':>8}")
        first = next(iter(self.clock))
        for name, clock in self.clock.items():
            cpu = self.cpu[name]
            print(
                f"{name:28}{clock * 1e3:10.1f}{clock / self.clock[first]:8.2f}"
                f"{cpu * 1e3 / threads:10.1f}{cpu / self.cpu[first]:8.2f}",
                flush=True,
            )


def make_params(sizes: list[int], dtype: torch.dtype) -> list[torch.nn.Parameter]:
    """Params with gradients."""
    params = []
    for size in sizes:
        param = torch.nn.Parameter(torch.full((size,), 0.5, dtype=dtype))
        param.grad = torch.full((size,), 0.01, dtype=dtype)
        params.append(param)
    return params


def deepspeed_step(module, params: list, optimizer) -> Callable[[], None]:
    """What DeepSpeedCPUAdam.step() does for each param: look-ups, then a call. On our states."""
    module.create_adam(0, 1e-3, 0.9, 0.999, 1e-8, 0.01, True, False)
    states = {param: {**optimizer.state[param]} for param in params}
    group = {**optimizer.param_groups[0]}
    cpu = torch.device("cpu")

    @torch.no_grad()
    def step() -> None:
        for param in params:
            if param.grad is None:
                continue
            assert param.device == cpu
            state = states[param]
            state["step"] += 1
            beta1, beta2 = group["betas"]
            module.adam_update(
                0, state["step"], group["lr"], beta1, beta2, group["eps"], group["weight_decay"],
                group["bias_correction"], param.data, param.grad.data,
                state["exp_avg"], state["exp_avg_sq"],
            )  # fmt: skip

    return step


def compare(title: str, sizes: list[int], dtype: torch.dtype, args, deepspeed, stream) -> None:
    """One table."""
    from mps_ds.optim import CPUAdam

    params = make_params(sizes, dtype)
    ours = CPUAdam(params, lr=1e-3, weight_decay=0.01)
    ours.step()
    contestants = {"mps_ds.optim.CPUAdam": ours.step}
    contestants["DeepSpeed, AVX2"] = deepspeed_step(deepspeed, params, ours)
    if stream is not None:
        state = ours.state[params[0]]
        streams = (params[0].data, params[0].grad, state["exp_avg"], state["exp_avg_sq"])
        contestants["4 streams, no arithmetic"] = lambda: stream.stream(*streams)
    kinds = {"fused": {"fused": True}, "foreach": {"foreach": True}, "for-loop": {"foreach": False}}
    for kind, options in kinds.items():
        optimizer = torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01, **options)
        contestants[f"torch AdamW, {kind}"] = optimizer.step
    timer = Timer(args.repeats)
    timer.run(contestants)
    timer.report(title, args.threads)


def main() -> None:
    """Print a table for each type, and one for many tensors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=100, help="millions")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES)
    parser.add_argument("--cache", type=Path, default=Path("build/bench"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    os.environ.setdefault("OMP_NUM_THREADS", str(args.threads))
    cache = args.cache.resolve()
    deepspeed, stream = deepspeed_module(cache), stream_module(cache)
    from mps_ds.ops.cpu_adam import backends

    print(f"backend {backends()[0]}, torch {torch.__version__}, {args.threads} threads")
    one = [args.elements * 1_000_000]
    for name in args.tables:
        if name == "many":
            title = "float32, 1,000 tensors of 10 k"
            compare(title, [10_000] * 1000, torch.float32, args, deepspeed, None)
            continue
        title = f"{name} params, float32 states, {args.elements} M elements"
        with_stream = stream if name == "float32" else None
        compare(title, one, getattr(torch, name), args, deepspeed, with_stream)


if __name__ == "__main__":
    main()
