"""The kernels that a file exports: their names, arguments, and whether their threads wait."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from .errors import Location, MslError
from .model import Declarations, Function, Instance
from .tokens import TokenStream, is_name

_POSITIONS = {
    word: "SM_" + word.upper()
    for word in (
        "dispatch_threads_per_threadgroup",
        "grid_origin",
        "quadgroup_index_in_threadgroup",
        "quadgroups_per_threadgroup",
        "simdgroup_index_in_threadgroup",
        "simdgroups_per_threadgroup",
        "thread_index_in_quadgroup",
        "thread_index_in_simdgroup",
        "thread_index_in_threadgroup",
        "thread_position_in_grid",
        "thread_position_in_threadgroup",
        "threadgroup_position_in_grid",
        "threadgroups_per_grid",
        "threads_per_grid",
        "threads_per_simdgroup",
        "threads_per_threadgroup",
    )
}
_POSITIONS["thread_execution_width"] = "SM_THREADS_PER_SIMDGROUP"
_POSITIONS["dispatch_simdgroups_per_threadgroup"] = "SM_SIMDGROUPS_PER_THREADGROUP"

SCALARS = frozenset(
    f"SM_{word}"
    for word in (
        "THREAD_INDEX_IN_THREADGROUP",
        "THREAD_INDEX_IN_SIMDGROUP",
        "THREAD_INDEX_IN_QUADGROUP",
        "QUADGROUP_INDEX_IN_THREADGROUP",
        "QUADGROUPS_PER_THREADGROUP",
        "SIMDGROUP_INDEX_IN_THREADGROUP",
        "SIMDGROUPS_PER_THREADGROUP",
        "THREADS_PER_SIMDGROUP",
    )
)
_NO_BINDING = frozenset(["function_constant", "maybe_unused"])
MAX_BUFFERS = 31

# What makes a thread wait for others, by name.
_WAITS = re.compile(
    r"threadgroup_barrier|(?:__metal_)?(?:simd|quad)_\w+"
    r"|simdgroup_(?:barrier|load|store|multiply\w*|matrix|\w+8x8)|make_filled_simdgroup_matrix"
)


@dataclass
class Parameter:
    """One kernel parameter: what it is bound to."""

    name: str
    kind: str  # enum sm_arg_kind
    index: str  # a constant expression
    is_constant: bool = False
    is_optional: bool = False
    at: Location | None = None


@dataclass
class Kernel:
    """One entry of the library: a kernel, or an instance of a kernel template."""

    name: str
    expression: str
    memory: str  # call that gives the bytes of its threadgroup variables
    parameters: list[Parameter]
    waits: bool
    max_threads: str  # call that gives the most threads of a threadgroup
    needed_constants: list[int]  # function constants that must have a value


def find_kernels(tokens: TokenStream, found: Declarations) -> list[Kernel]:
    """All kernels that the library exports, in source order."""
    uses = _names_used(tokens, found)
    definitions = {kernel.name: kernel for kernel in found.kernels()}
    kernels = [
        _plain_kernel(tokens, kernel, found, uses)
        for kernel in definitions.values()
        if not kernel.is_template
    ]
    kernels += [_instance(tokens, i, definitions, found, uses) for i in found.instances]
    _refuse_equal_names(kernels)
    return kernels


def _plain_kernel(
    tokens: TokenStream, kernel: Function, found: Declarations, uses: dict[str, set[str]]
) -> Kernel:
    assert kernel.body
    host_name = tokens.attribute(kernel.start, kernel.body[0], "host_name")
    scope = "::".join(["", *kernel.namespace, ""])
    return Kernel(
        name=host_name.strip('"') if host_name else kernel.name,
        expression=scope + kernel.name,
        memory=f"{scope}softmetal_memory_of_{kernel.name}()",
        parameters=kernel_parameters(tokens, kernel),
        waits=_may_wait([kernel.name], uses),
        max_threads=f"{scope}softmetal_threads_of_{kernel.name}()",
        needed_constants=_needed_constants([kernel.name], uses, tokens, found),
    )


def _instance(
    tokens: TokenStream,
    instance: Instance,
    definitions: dict[str, Function],
    found: Declarations,
    uses: dict[str, set[str]],
) -> Kernel:
    kernel = definitions.get(instance.base)
    if kernel is None:
        raise MslError(
            f'[[host_name("{instance.host_name}")]]: there is no kernel named {instance.base}',
            tokens.location(instance.at),
        )
    scope = "::".join(["", *instance.namespace, ""])
    names = [t for t in instance.tokens if is_name(t)]
    if instance.tokens[0] == "::":
        scope = ""
    return Kernel(
        name=instance.host_name,
        expression=scope + instance.expression(),
        memory=f"{scope}{instance.expression('softmetal_memory_of_')}()",
        parameters=kernel_parameters(tokens, kernel),
        waits=_may_wait(names, uses),
        max_threads=f"{scope}{instance.expression('softmetal_threads_of_')}()",
        needed_constants=_needed_constants(names, uses, tokens, found),
    )


def _refuse_equal_names(kernels: list[Kernel]) -> None:
    names = [kernel.name for kernel in kernels]
    for name in names:
        if names.count(name) > 1:
            raise MslError(f"two kernels have the name '{name}'")


def max_threads(tokens: TokenStream, kernel: Function) -> str:
    """[[max_total_threads_per_threadgroup(n)]] as written, or the device's limit."""
    assert kernel.body
    limit = tokens.attribute(kernel.start, kernel.body[0], "max_total_threads_per_threadgroup")
    return limit or "SM_MAX_THREADS"


# ---- does a kernel wait? ----


def _names_used(tokens: TokenStream, found: Declarations) -> dict[str, set[str]]:
    """For each function, class, alias and constant: the names that its declaration mentions."""
    uses: dict[str, set[str]] = {name: set(used) for name, used in found.aliases.items()}
    attributes = {i for start, end in tokens.attributes.items() for i in range(start, end)}
    for function in found.functions:
        names = uses.setdefault(function.name, set())
        names.update(
            tokens.text[i]
            for i in range(function.start, function.end)
            if tokens.kind[i] == "name" and i not in attributes
        )
    return uses


def _may_wait(roots: list[str], uses: dict[str, set[str]]) -> bool:
    """Whether a barrier or simdgroup operation can be reached from one of these names."""
    return any(_WAITS.fullmatch(name) for name in _reachable(roots, uses))


def _needed_constants(
    roots: list[str], uses: dict[str, set[str]], tokens: TokenStream, found: Declarations
) -> list[int]:
    """Which function constants a kernel uses that the source never asks whether they are defined.

    A constant that only decides whether an argument exists is not used by that.
    """
    reachable = _reachable(roots, uses)
    asked = {
        tokens.text[tokens.match[i + 1] - 1]
        for i, word in enumerate(tokens.text[:-1])
        if word == "is_function_constant_defined" and tokens.text[i + 1] == "("
    }
    return [
        n
        for n, c in enumerate(found.function_constants)
        if c.name in reachable and c.name not in asked
    ]


def _reachable(roots: list[str], uses: dict[str, set[str]]) -> set[str]:
    """These names, and those that their declarations mention, and so on."""
    todo, seen = list(roots), set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        todo.extend(uses.get(name, ()))
    return seen


# ---- parameters ----


def kernel_parameters(tokens: TokenStream, kernel: Function) -> list[Parameter]:
    """What each parameter of a kernel is bound to; Metal's rules for those that do not say."""
    parameters = []
    taken = {
        argument
        for start, end in kernel.parameters
        for item, argument, _ in tokens.attribute_items(start, end)
        if item == "buffer"
    }
    _refuse_repeated_attributes(tokens, kernel)
    threadgroup_count = 0
    for start, end in kernel.parameters:
        if tokens.text[start:end] == ["void"]:
            continue
        parameter = _parameter(tokens, kernel, start, end)
        if parameter.kind == "SM_BUFFER" and not parameter.index:
            parameter.index = next(str(i) for i in range(MAX_BUFFERS + 1) if str(i) not in taken)
            taken.add(parameter.index)
        elif parameter.kind == "SM_THREADGROUP_MEM":
            parameter.index = parameter.index or str(threadgroup_count)
            threadgroup_count += 1
        if parameter.index.isdigit() and int(parameter.index) >= MAX_BUFFERS:
            raise MslError(out_of_range(kernel.name, parameter), parameter.at)
        parameters.append(parameter)
    _refuse_equal_slots(tokens, kernel, parameters)
    return parameters


def _refuse_repeated_attributes(tokens: TokenStream, kernel: Function) -> None:
    seen = set()
    for start, end in kernel.parameters:
        for item, _, at in tokens.attribute_items(start, end):
            if item in seen:
                raise MslError(
                    f"kernel '{kernel.name}': two parameters have the attribute [[{item}]]",
                    tokens.location(at),
                )
            if item in _POSITIONS:
                seen.add(item)


def out_of_range(kernel: str, parameter: Parameter) -> str:
    """The error of an index that is no slot."""
    return (
        f"kernel '{kernel}': index {parameter.index} of '{parameter.name}' is out of range: a "
        f"kernel has {MAX_BUFFERS} slots, 0 to {MAX_BUFFERS - 1}"
    )


def equal_slots(kernel: str, one: Parameter, other: Parameter) -> str:
    """The error of two parameters with one slot."""
    index = one.index if one.index == other.index else f"{one.index} = {other.index}"
    return f"kernel '{kernel}': '{one.name}' and '{other.name}' have the same index {index}"


def slot_pairs(parameters: list[Parameter]) -> Iterator[tuple[Parameter, Parameter]]:
    """All pairs whose slots must differ: not two that are there only with a function constant."""
    slots = [p for p in parameters if p.kind in ("SM_BUFFER", "SM_THREADGROUP_MEM")]
    for one, other in combinations(slots, 2):
        if one.kind == other.kind and not (one.is_optional and other.is_optional):
            yield one, other


def _parameter(tokens: TokenStream, kernel: Function, start: int, end: int) -> Parameter:
    attributes_at = next((i for i in range(start, end) if i in tokens.attributes), end)
    type_end = next(
        (i for i in range(start, attributes_at) if tokens.text[i] == "="), attributes_at
    )
    names = [i for i in range(start, type_end) if is_name(tokens.text[i])]
    name = tokens.text[names[-1]]
    words = tokens.text[start:type_end]
    kind, index = "", "0"
    items = list(tokens.attribute_items(start, end))
    for item, argument, at in items:
        if kind and item not in _NO_BINDING:
            raise MslError(
                f"kernel '{kernel.name}': parameter '{name}' has two attributes that say what it "
                f"is, the second is [[{item}]]",
                tokens.location(at),
            )
        if item == "buffer":
            kind, index = "SM_BUFFER", argument or ""
        elif item == "threadgroup":
            kind, index = "SM_THREADGROUP_MEM", argument or ""
        elif item in _POSITIONS:
            kind, index = _POSITIONS[item], "-1"
        elif item not in _NO_BINDING:
            raise MslError(
                f"kernel '{kernel.name}': the attribute [[{item}]] of '{name}' is not supported by "
                "the software device",
                tokens.location(at),
            )
    if not kind:
        kind, index = _implicit_binding(tokens, kernel, name, words, start), ""
    _check_type(tokens, kernel, name, kind, words, start)
    optional = any(item == "function_constant" for item, _, _ in items)
    place = tokens.location(start)
    return Parameter(name, kind, index, "constant" in words, optional, place)


def _implicit_binding(
    tokens: TokenStream, kernel: Function, name: str, words: list[str], at: int
) -> str:
    if "threadgroup" in words:
        return "SM_THREADGROUP_MEM"
    if "device" in words or "constant" in words:
        return "SM_BUFFER"
    raise MslError(
        f"kernel '{kernel.name}': parameter '{name}' has neither an address space nor an attribute "
        "that says what it is",
        tokens.location(at),
    )


def _check_type(
    tokens: TokenStream, kernel: Function, name: str, kind: str, words: list[str], at: int
) -> None:
    """A buffer is a pointer or reference to device or constant memory, and so on."""
    spaces = {"SM_BUFFER": ("device", "constant"), "SM_THREADGROUP_MEM": ("threadgroup",)}
    is_memory = bool({"*", "&", "["} & set(words))  # T a[2] is a pointer
    if kind in spaces:
        if is_memory and set(spaces[kind]) & set(words):
            return
        wanted = f"a pointer or reference to {' or '.join(spaces[kind])} memory"
    else:
        if not is_memory:
            return
        wanted = "an integer or a vector of integers"
    raise MslError(
        f"kernel '{kernel.name}': parameter '{name}' must be {wanted}", tokens.location(at)
    )


def _refuse_equal_slots(tokens: TokenStream, kernel: Function, parameters: list[Parameter]) -> None:
    for one, other in slot_pairs(parameters):
        if one.index == other.index:
            raise MslError(
                equal_slots(kernel.name, one, other),
                tokens.location(kernel.name_at),
            )
