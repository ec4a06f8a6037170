"""A second reading of the source, as C++ for OpenCL, by a compiler that knows address spaces.

The C++ that runs on the CPU has one address space, so that a device pointer passed as a threadgroup
pointer compiles. Here device, constant, thread and threadgroup become __global, __constant,
__private and __local. Nothing is executed: the source is only checked, against the declarations of
msl/opencl/softmetal_opencl.h. Kernels that use more of the library than those declare are reported
as errors too.
"""

from __future__ import annotations

import re
import subprocess

from . import identity
from .compile import Options, find_clang, preprocess
from .model import Declarations
from .rewrite import UNSUFFIXED_FLOAT, analyse
from .tokens import TokenStream

_SPACES = {
    "device": "__global",
    "constant": "__constant",
    "thread": "__private",
    "threadgroup": "__local",
}
_VECTOR = re.compile(r"(?:char|uchar|short|ushort|int|uint|long|ulong|half|float)[234]")
_FLAGS = [
    *["-x", "cl", "-cl-std=clc++2021", "-cl-no-stdinc", "-target", "spir64", "-fsyntax-only"],
    *["-Xclang", "-cl-ext=+cl_khr_fp16", "-Wno-everything"],
]


def check_address_spaces(source: bytes, options: Options, folder: str | None = None) -> str:
    """The compiler's complaints; empty if there are none."""
    tokens, found = analyse(preprocess(source, options, folder))
    _to_opencl(tokens, found)
    command = [
        *[find_clang(), *_FLAGS, f"-I{identity.MSL}"],
        *["-include", "opencl/softmetal_opencl.h", "-"],
    ]
    text = tokens.result().encode("utf-8", "surrogateescape")
    run = subprocess.run(command, input=text, capture_output=True, check=False)
    return run.stderr.decode("utf-8", "replace") if run.returncode else ""


def _to_opencl(tokens: TokenStream, found: Declarations) -> None:
    for i, word in enumerate(tokens.text):
        if word in _SPACES and tokens.text[i - 1] not in ("::", ".", "->"):
            tokens.replace(i, _SPACES[word])
        elif word == "kernel" and tokens.current(i):
            tokens.replace(i, "")
        elif _VECTOR.fullmatch(word) and tokens.text[i + 1 : i + 2] == ["("]:
            tokens.replace(i, f"softmetal_make_{word}")
        elif word == "is_function_constant_defined" and tokens.text[i + 1] == "(":
            tokens.replace(i, "")
        elif tokens.kind[i] == "number" and UNSUFFIXED_FLOAT.fullmatch(word):
            tokens.replace(i, word + "f")
    for start, end in tokens.attributes.items():
        tokens.remove(start, end)
    for kernel in found.kernels():
        if not kernel.is_template:  # threadgroup variables are legal in a __kernel only
            tokens.prepend(kernel.start, "__kernel ")
    for constant in found.function_constants:
        tokens.append(constant.name_at, " = 0")
