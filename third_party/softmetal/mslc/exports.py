"""The end of the generated C++: what the library exports to the host (msl/softmetal_abi.h)."""

from __future__ import annotations

from collections.abc import Iterator

from .kernels import MAX_BUFFERS, SCALARS, Kernel, Parameter, equal_slots, out_of_range, slot_pairs
from .model import Declarations

# ---- C++ ---------------------------------------------------------------------------------------


TABLE = "<softmetal library table>"  # the name of that part of the file in diagnostics


def c_string(text: str) -> str:
    """A C string literal for any bytes (surrogate-escaped where not UTF-8)."""
    printable = set(range(32, 127)) - {ord('"'), ord("\\"), ord("?")}
    out = []
    for byte in text.encode("utf-8", "surrogateescape"):
        out.append(chr(byte) if byte in printable else "\\n" if byte == 10 else f"\\{byte:03o}")
        if byte == 10:
            out.append('"\n"')
    return '"' + "".join(out) + '"'


def library_table(found: Declarations, kernels: list[Kernel], hashed_source: str) -> str:
    """Definitions of softmetal_library() and softmetal_source."""
    return "\n".join(
        [
            *(line for kernel in kernels for line in _requirements(kernel)),
            f'\n# 1 "{TABLE}"',
            "namespace softmetal {",
            "static void compute_constants() {",
            *(f"  {function}();" for function in found.computed_constants),
            "}",
            "}  // namespace softmetal",
            *(_parameter_names(n, kernel) for n, kernel in enumerate(kernels)),
            *(_needed_constants(n, kernel) for n, kernel in enumerate(kernels)),
            'extern "C" __attribute__((visibility("default"))) const sm_library* '
            "softmetal_library() {",
            "  if (!softmetal::processor_suffices()) return nullptr;",
            "  static const sm_kernel kernels[] = {",
            *(_describe(n, kernel) for n, kernel in enumerate(kernels)),
            "      sm_kernel{}};",
            "  static const sm_fconst constants[] = {",
            *(_constant(c.name, c.namespace, c.index) for c in found.function_constants),
            "      sm_fconst{}};",
            "  static const sm_library library = {SM_ABI_VERSION, kernels, "
            f"{len(kernels)}, constants, {len(found.function_constants)}, softmetal::tracing}};",
            "  return &library;",
            "}",
            'extern "C" __attribute__((visibility("default"))) const char* softmetal_source =',
            c_string(hashed_source) + ";\n",
        ]
    )


def _requirements(kernel: Kernel) -> Iterator[str]:
    """What only the compiler can evaluate: static assertions, placed where the parameters stand."""
    name = kernel.name
    for p in kernel.parameters:
        if p.kind in ("SM_BUFFER", "SM_THREADGROUP_MEM") and not p.index.isdigit():
            in_range = f"({p.index}) >= 0 && ({p.index}) < {MAX_BUFFERS}"
            yield _assertion(p, in_range, out_of_range(name, p))
    for n, p in enumerate(kernel.parameters):
        if p.index == "-1":
            allowed = f"softmetal::position_parameter<decltype({kernel.expression}), {n}, "
            lanes, types = (1, "") if p.kind in SCALARS else (3, ", or a vector of two or three")
            yield _assertion(
                p,
                f"{allowed}{lanes}>::ok",
                f"kernel '{name}': parameter '{p.name}', a {p.kind.removeprefix('SM_').lower()}, "
                f"must be ushort or uint{types}",
            )
    for one, other in slot_pairs(kernel.parameters):
        if not (one.index.isdigit() and other.index.isdigit()):
            differ = f"({one.index}) != ({other.index})"
            yield _assertion(other, differ, equal_slots(name, one, other))


def _assertion(parameter: Parameter, condition: str, message: str) -> str:
    assert parameter.at
    line = f"\n# {parameter.at.line} {c_string(parameter.at.file)}\n"
    return f"{line}static_assert({condition}, {c_string(message)});"


def _parameter_names(n: int, kernel: Kernel) -> str:
    names = ", ".join([f'"{p.name}"' for p in kernel.parameters] + ["nullptr"])
    return f"static const char* const softmetal_names_{n}[] = {{{names}}};"


def _needed_constants(n: int, kernel: Kernel) -> str:
    numbers = ", ".join([*map(str, kernel.needed_constants), "-1"])
    return f"static const int softmetal_needed_{n}[] = {{{numbers}}};"


def _describe(n: int, kernel: Kernel) -> str:
    flags = {True: "true", False: "false"}
    parameters = "".join(
        f", softmetal::Parameter<{p.kind}, {p.index}, {flags[p.is_constant]}, "
        f"{flags[p.is_optional]}>"
        for p in kernel.parameters
    )
    return (
        f"      softmetal::Kernel<{flags[not kernel.waits]}, decltype({kernel.expression}), "
        f"&{kernel.expression}{parameters}>::describe({c_string(kernel.name)}, "
        f"softmetal_names_{n}, {kernel.max_threads}, {kernel.memory}, softmetal_needed_{n}),"
    )


def _constant(name: str, namespace: tuple[str, ...], index: str) -> str:
    scope = "::".join(["", *namespace, ""])
    return (
        f'      sm_fconst{{"{name}", {index}, (void*)&{scope}{name}, sizeof({scope}{name}), '
        f"softmetal::data_type<decltype({scope}{name})>::value, &{scope}softmetal_defined_{name}}},"
    )
