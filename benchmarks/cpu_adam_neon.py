"""The NEON loop of the CPU Adam beside DeepSpeed's, without an arm64 machine.

    python benchmarks/cpu_adam_neon.py [--cache build/bench]

Both are compiled for arm64 by the same clang with -O3 (DeepSpeed's with the macros of its builder
for Macs) and run on qemu-user, which counts instructions; AdamW with weight decay. llvm-mca adds
what a model of a processor says of the loop as compiled, if it never waited for memory: the model
that LLVM has for Apple's is of 2013, so the figures compare loops and predict no time.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import torch
from cpu_adam import deepspeed_sources

CSRC = Path(__file__).resolve().parents[1] / "csrc"
TARGET = ["--target=aarch64-linux-gnu", "-std=c++20", "-static"]
OURS_FLAGS = ["-O3", "-ffp-contract=off", "-fno-math-errno", f"-I{CSRC}"]
# name, and the types of params and states in both sources
TYPES = [
    ("float32", "float", "float", "kFloat32", "kFloat32"),
    ("float16, float32 states", "c10::Half", "float", "kFloat16", "kFloat32"),
    ("float16", "c10::Half", "c10::Half", "kFloat16", "kFloat16"),
    ("bfloat16, float32 states", "c10::BFloat16", "float", "kBFloat16", "kFloat32"),
    ("bfloat16", "c10::BFloat16", "c10::BFloat16", "kBFloat16", "kBFloat16"),
]
SIZES = (8192, 16384)

# What DeepSpeed's header needs of PyTorch's, which have parts for this machine's processor only.
STUB = """
#include <cmath>
#include <cstring>
#include <map>
#include <vector>
#include <type_traits>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
namespace torch { class Tensor; }
"""
DEEPSPEED = """
#include "cpu_adam.h"
#include <cstdlib>
int main(int, char** argv) {
  const size_t n = atoi(argv[1]);
  auto p = (PARAM*)calloc(n, sizeof(PARAM)), g = (PARAM*)calloc(n, sizeof(PARAM));
  auto m = (STATE*)calloc(n, sizeof(STATE)), v = (STATE*)calloc(n, sizeof(STATE));
  Adam_Optimizer adam(1e-3f, .9f, .999f, 1e-8f, .01f, true);
  adam.IncrementStep(1, .9f, .999f);
  adam.update_state(1e-3f, 1e-8f, .01f, true);
  size_t done = 0;
  adam.Step_AVX<8>(&done, p, g, m, v, n, false);
}
"""
OURS = """
#include "cpu_adam/vector_neon.h"
//
#include "cpu_adam/vector.h"
#include <cmath>
#include <cstdlib>
using namespace mps_ds::cpu_adam;
template <Storage> struct Stored { using type = float; };
template <> struct Stored<Storage::kFloat16> { using type = Float16; };
template <> struct Stored<Storage::kBFloat16> { using type = BFloat16; };
using P = Stored<Storage::PARAM>::type;
using S = Stored<Storage::STATE>::type;
int main(int, char** argv) {
  const size_t n = atoi(argv[1]);
  AdamHyper h{};
  h.grad_factor = h.keep = h.step_size = {1, 0};
  h.beta1 = h.one_minus_beta1 = h.beta2 = h.one_minus_beta2 = h.rsqrt_correction2 = {0.5f, 0};
  h.eps = {1e-8f, 0};
  h.decay = 1e-5f;
  h.clip_value = INFINITY;
  AdamTensors t{calloc(n, 4), calloc(n, 4), calloc(n, 4), calloc(n, 4)};
  step_typed<NeonFloats, false, P, P, S>(t, 0, n, h);
}
"""


def tool(*names: str) -> str:
    """The first of `names` on PATH."""
    for name in names:
        if found := shutil.which(name):
            return found
    raise SystemExit(f"none of {', '.join(names)} is on PATH (apt-get install clang qemu-user ...)")


def versioned(name: str) -> list[str]:
    """`name` with version numbers, newest first, and without."""
    return [*(f"{name}-{version}" for version in range(30, 15, -1)), name]


def run(*command: str | Path) -> str:
    """Standard output."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def trace(program: Path, size: int) -> list[int]:
    """The address of each instruction that runs, in order."""
    qemu = tool("qemu-aarch64", "qemu-aarch64-static")
    single = "-one-insn-per-tb" if "-one-insn-per-tb" in run(qemu, "-h") else "-singlestep"
    log = program.with_suffix(".log")
    run(qemu, single, "-d", "nochain,exec", "-D", log, program, str(size))
    with log.open() as lines:
        addresses = [int(x.split("/")[1], 16) for x in lines if x.startswith("Trace")]
    log.unlink()
    return addresses


def loop_of(addresses: list[int]) -> list[int]:
    """One turn of the loop in the middle of a run: from the target of a jump back to the next."""
    middle = len(addresses) // 2
    back = [i for i in range(middle, middle + 2000) if addresses[i + 1] < addresses[i]]
    return addresses[back[0] + 1 : back[1] + 1]


def cycles(program: Path, addresses: list[int]) -> float:
    """Block throughput of the loop in cycles an element, jumps left out."""
    text = {}
    for line in run(
        tool(*versioned("llvm-objdump")), "-d", "--no-show-raw-insn", program
    ).splitlines():
        if match := re.match(r"\s*([0-9a-f]+):\s+(.*)", line):
            text[int(match[1], 16)] = match[2].split(" <")[0]
    loop = [text[address] for address in loop_of(addresses)]
    elements = 4 * sum("fsqrt" in line for line in loop)  # a root takes four
    body = program.with_suffix(".loop.s")
    body.write_text("\n".join(x for x in loop if not re.match(r"(b|cbn?z|tbn?z)\b", x)) + "\n")
    mca = tool(*versioned("llvm-mca"))
    report = run(mca, "-mtriple=arm64-apple-macos", "-mcpu=apple-m1", body)
    match = re.search(r"Block RThroughput: *([\d.]+)", report)
    assert match, report
    return float(match[1]) / elements


def measure(name: str, source: str, defines: list[str], flags: list[str], folder: Path):
    """(instructions, cycles) an element of one program; what happens once is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / f"{name}.cpp"
    text.write_text(source)
    clang = tool(*versioned("clang++"))
    options = [*TARGET, *flags, *(f"-D{d}" for d in defines), "-w", text]
    program = folder / name
    run(clang, *options, "-o", program)
    small, large = (trace(program, size) for size in SIZES)
    return (len(large) - len(small)) / (SIZES[1] - SIZES[0]), cycles(program, large)


def main() -> None:
    """A line for each combination of types."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path("build/bench"))
    args = parser.parse_args()
    cache = args.cache.resolve()
    includes = deepspeed_sources(cache) / "includes"
    folder = cache / "neon"
    (folder / "torch").mkdir(parents=True, exist_ok=True)
    (folder / "torch" / "extension.h").write_text(STUB)
    torch_include = Path(torch.__file__).parent / "include"
    deepspeed_flags = [
        "-O3", "-D__NEON__", f"-I{folder}", f"-I{includes}", f"-I{torch_include}"
    ]  # fmt: skip
    print(f"{'':26}{'instructions an element':^32}{'cycles an element (llvm-mca)':^32}")
    print(f"{'params and gradients':26}" + f"{'mps_ds':>10}{'DeepSpeed':>12}{'ratio':>10}" * 2)
    for index, (name, param, state, our_param, our_state) in enumerate(TYPES):
        ours = measure(
            f"ours{index}", OURS, [f"PARAM={our_param}", f"STATE={our_state}"], OURS_FLAGS, folder
        )
        theirs = measure(
            f"deepspeed{index}",
            DEEPSPEED,
            [f"PARAM={param}", f"STATE={state}"],
            deepspeed_flags,
            folder,
        )
        columns = [f"{a:10.2f}{b:12.2f}{a / b:10.2f}" for a, b in zip(ours, theirs, strict=True)]
        print(f"{name:26}{''.join(columns)}", flush=True)


if __name__ == "__main__":
    main()
