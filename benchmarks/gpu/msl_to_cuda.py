"""A .metal file as CUDA, token by token: softmetal's tokenizer and parser with another back end.

What a pipeline chooses when it is made is chosen here: function constants become compile-time
constants, and each choice is a namespace of its own. Nothing else of the source changes: address
spaces go, parameters with a position attribute become CUDA's built-in variables, functions are
marked for the device. `metal.cuh` has the functions of Metal that the kernels use.

    python msl_to_cuda.py adam.metal --constant 0=0 --constant 1=2 > adam.cu
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KERNELS = ROOT / "csrc" / "mps" / "kernels"
sys.path.append(str(ROOT / "third_party" / "softmetal"))

from mslc.model import Declarations, Function  # noqa: E402
from mslc.parser import parse  # noqa: E402
from mslc.restrictions import CONTRACTION  # noqa: E402
from mslc.rewrite import UNSUFFIXED_FLOAT  # noqa: E402
from mslc.tokens import ADDRESS_SPACES, TokenStream, is_name  # noqa: E402

_POSITIONS = {
    "threadgroup_position_in_grid": "blockIdx.x",
    "thread_index_in_threadgroup": "threadIdx.x",
    "thread_position_in_grid": "blockIdx.x * blockDim.x + threadIdx.x",
    "thread_position_in_threadgroup": "threadIdx.x",
    "threads_per_threadgroup": "blockDim.x",
    "thread_index_in_simdgroup": "threadIdx.x % 32u",
}
_LINE = re.compile(r"[ \t]*#")


class TranslationError(Exception):
    """The source uses something that this back end has no CUDA for."""


@dataclass(frozen=True)
class Specialisation:
    """One choice of function constants (by index) and of macros."""

    name: str  # of the namespace; kernels are called NAME_KERNEL
    constants: Mapping[int, int] = field(default_factory=dict)
    macros: Mapping[str, int] = field(default_factory=dict)


def flatten(path: Path) -> str:
    """The file with its local includes, as it is embedded for Metal's run-time compiler."""
    spec = importlib.util.spec_from_file_location("embed", ROOT / "cmake" / "embed_metal.py")
    assert spec is not None
    assert spec.loader is not None
    embed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(embed)
    return "\n".join(embed.flatten(path, set())) + "\n"


def preprocess(source: str, macros: Mapping[str, int]) -> str:
    """Macros expanded by the host's compiler; `macros` win over the source's own #define."""
    for name, value in macros.items():
        source, count = re.subn(rf"(?m)^#define {name}\b.*$", f"#define {name} {value}", source)
        if count != 1:
            raise TranslationError(f"{name} is defined {count} times")
    source = source.replace("#include <metal_stdlib>", "")
    command = [os.environ.get("CXX", "c++"), "-E", "-x", "c++", "-std=c++17", "-undef"]
    command += ["-nostdinc", "-D__METAL_VERSION__=310", "-"]
    run = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
    if run.returncode:
        raise TranslationError(run.stderr)
    return run.stdout


def translate(source: str, choice: Specialisation) -> str:
    """CUDA of a flattened source, in the namespace of `choice`."""
    tokens = TokenStream(preprocess(source, choice.macros))
    found = parse(tokens)
    _Rewriter(tokens, found, choice).run()
    instances = _instances(tokens, found, choice)
    text = "".join(line for line in tokens.result().splitlines(True) if not _LINE.match(line))
    text = re.sub(r"\n\s*\n+", "\n", text)
    return (
        f'#include "metal.cuh"\nnamespace msl {{\nnamespace {choice.name} {{\n{text}\n'
        f"{instances}}}  // namespace {choice.name}\n}}  // namespace msl\n"
    )


class _Rewriter:
    def __init__(self, tokens: TokenStream, found: Declarations, choice: Specialisation) -> None:
        self.tokens = tokens
        self.found = found
        self.choice = choice

    def run(self) -> None:
        self.tokens.drop_directives(CONTRACTION)
        self._literals()
        self._constants()
        for function in self.found.functions:
            if function.is_kernel:
                self._kernel(function)
            elif not function.is_class:
                self.tokens.prepend(self._head(function), "__device__ ")
        for start, end in [*self.found.duplicates, *self.found.instantiations]:
            self.tokens.remove(start, end)
        self._address_spaces()
        for start, end in self.tokens.attributes.items():
            self.tokens.remove(start, end)

    def _literals(self) -> None:
        """1.0 is a float in MSL."""
        for i, kind in enumerate(self.tokens.kind):
            if kind == "number" and UNSUFFIXED_FLOAT.fullmatch(self.tokens.text[i]):
                self.tokens.replace(i, self.tokens.text[i] + "f")

    def _constants(self) -> None:
        """`constant T x [[function_constant(i)]];` gets its value."""
        tokens = self.tokens
        values = dict(self.choice.constants)
        for constant in self.found.function_constants:
            index = int(constant.index)
            if index not in values:
                raise TranslationError(f"{self.choice.name}: no value for {constant.name}")
            tokens.append(constant.name_at, f" = {values.pop(index)}")
            self._constexpr(constant.start, constant.name_at)
        if values:
            raise TranslationError(f"{self.choice.name}: no function constants {sorted(values)}")
        for program_constant in self.found.program_constants:
            self._constexpr(program_constant.start, program_constant.equals)

    def _constexpr(self, start: int, end: int) -> None:
        for i in range(start, end):
            if self.tokens.text[i] in ("constant", "constexpr", "const"):
                self.tokens.replace(i, "constexpr" if self.tokens.text[i] == "constant" else "")

    def _head(self, function: Function) -> int:
        """Where a function starts, after `template <...>`."""
        return function.template_end

    def _address_spaces(self) -> None:
        """Pointers are generic; `constant` means const; threadgroup variables are shared."""
        tokens = self.tokens
        for i, token in enumerate(tokens.text):
            if token not in ADDRESS_SPACES or tokens.current(i) != token:
                continue
            if token == "constant":
                tokens.replace(i, "const")
            elif token == "threadgroup" and self._declares_variable(i):
                tokens.replace(i, "__shared__")
            else:
                tokens.replace(i, "")

    def _declares_variable(self, i: int) -> bool:
        """`threadgroup T a[4];` in a kernel, not a pointer or a reference."""
        if self.tokens.text[i - 1] not in (";", "{", "}"):
            return False
        end = self.tokens.text.index(";", i)
        return not {"*", "&", "="} & set(self.tokens.text[i:end])

    # ---- kernels ----

    def _kernel(self, kernel: Function) -> None:
        """Positions become variables; what the host passes by value stays a parameter."""
        tokens = self.tokens
        if kernel.body is None:
            raise TranslationError(f"kernel {kernel.name} has no body")
        at = tokens.text.index("kernel", kernel.template_end, kernel.name_at)
        if kernel.is_template:  # called by its instances
            tokens.replace(at, "__device__ __forceinline__")
            return
        locals_ = []
        for start, end in kernel.parameters:
            position = self._position(start, end)
            if position is None:
                self._by_value(start, end)
            else:
                name_at = max(i for i in range(start, end) if self._is_plain_name(i, start, end))
                declared = " ".join(tokens.text[start : name_at + 1])
                locals_.append(f" const {declared} = {position};")
                self._cut(start, end)
        tokens.append(kernel.body[0], "".join(locals_))
        threads = tokens.attribute(
            kernel.start, kernel.body[0], "max_total_threads_per_threadgroup"
        )
        bounds = f"__launch_bounds__({threads}) " if threads else ""
        tokens.replace(at, f'extern "C" __global__ {bounds}')
        tokens.replace(kernel.name_at, f"{self.choice.name}_{kernel.name}")

    def _is_plain_name(self, i: int, start: int, end: int) -> bool:
        inside = any(a <= i < b for a, b in self.tokens.attributes.items() if start <= a < end)
        return is_name(self.tokens.text[i]) and not inside

    def _position(self, start: int, end: int) -> str | None:
        for name, _, at in self.tokens.attribute_items(start, end):
            if name in _POSITIONS:
                return _POSITIONS[name]
            if name not in ("buffer", "maybe_unused"):
                raise TranslationError(f"[[{name}]] at {self.tokens.location(at)}")
        return None

    def _by_value(self, start: int, end: int) -> None:
        """`constant T& x` is what setBytes passes: a parameter of the launch."""
        text = self.tokens.text
        if text[start] == "constant" and "&" in text[start:end]:
            self.tokens.replace(text.index("&", start, end), "")

    def _cut(self, start: int, end: int) -> None:
        """Remove a parameter and the comma before or after it."""
        self.tokens.remove(start, end)
        if self.tokens.text[start - 1] == ",":
            self.tokens.remove(start - 1, start)
        elif self.tokens.text[end] == ",":
            self.tokens.remove(end, end + 1)


def _instances(tokens: TokenStream, found: Declarations, choice: Specialisation) -> str:
    """Entry points for `template [[host_name("x")]] kernel void f<T>(...)`.

    They have one parameter more: the number of threads, because a grid of threads need not be a
    multiple of a threadgroup in Metal.
    """
    ends = dict(found.instantiations)
    kernels = {kernel.name: kernel for kernel in found.kernels()}
    text = []
    for instance in found.instances:
        kernel = kernels[instance.base]
        last = max(i for i in range(instance.at, ends[instance.at]) if tokens.text[i] == ")")
        declared, passed = [], []
        types = tokens.split(tokens.match[last] + 1, last)
        for k, ((start, end), (first, after)) in enumerate(
            zip(types, kernel.parameters, strict=True)
        ):
            words = [t for t in tokens.text[start:end] if t not in ADDRESS_SPACES]
            if any(name in _POSITIONS for name, _, _ in tokens.attribute_items(first, after)):
                passed.append("position")
            else:
                declared.append(" ".join(t for t in words if t != "&") + f" a{k}")
                passed.append(f"a{k}")
        text.append(
            f'extern "C" __global__ void {choice.name}_{instance.host_name}'
            f"({', '.join(declared)}, uint threads) {{\n"
            "  const uint position = blockIdx.x * blockDim.x + threadIdx.x;\n"
            f"  if (position < threads) {instance.expression()}({', '.join(passed)});\n}}\n"
        )
    return "".join(text)


def main() -> None:
    """Print the translation of one file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("metal", help="a file, or the name of one of the project's kernels")
    parser.add_argument("--name", default="kernels")
    parser.add_argument("--constant", action="append", default=[], metavar="INDEX=VALUE")
    parser.add_argument("--macro", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    path = Path(args.metal)
    path = path if path.exists() else KERNELS / args.metal
    constants = {int(k): int(v) for k, v in (c.split("=") for c in args.constant)}
    macros = {k: int(v) for k, v in (m.split("=") for m in args.macro)}
    print(translate(flatten(path), Specialisation(args.name, constants, macros)))


if __name__ == "__main__":
    main()
