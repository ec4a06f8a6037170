"""Names that Metal 3.1 does not have, with the version that brings them.

A name is guarded if it is gone when the file is preprocessed for an older version:

    #if __METAL_VERSION__ >= 320
      atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
    #endif

From Apple's Metal Shading Language Specification, "All OS: Since Metal x.y", and the headers that
its sections name. To be added to when a specification comes out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .source import OLDEST, Problem, Source

Version = tuple[int, int]

NAMES: dict[str, Version] = {
    # Fences and memory orders other than relaxed; scopes; coherence of device memory.
    "atomic_thread_fence": (3, 2),
    "memory_order_acquire": (3, 2),
    "memory_order_release": (3, 2),
    "memory_order_acq_rel": (3, 2),
    "memory_order_seq_cst": (3, 2),
    "thread_scope": (3, 2),
    "thread_scope_thread": (3, 2),
    "thread_scope_simdgroup": (3, 2),
    "thread_scope_threadgroup": (3, 2),
    "thread_scope_device": (3, 2),
    "coherent": (3, 2),
    "memory_coherence": (3, 2),
    "memory_coherence_threadgroup": (3, 2),
    "memory_coherence_device": (3, 2),
    # Logging.
    "os_log": (3, 2),
    "os_log_default": (3, 2),
    # Tensors and the operations on them.
    "tensor": (4, 0),
    "tensor_handle": (4, 0),
    "tensor_inline": (4, 0),
    "tensor_offset": (4, 0),
    "tensor_ops": (4, 0),
    "cooperative_tensor": (4, 0),
    "extents": (4, 0),
    "dextents": (4, 0),
    "matmul2d": (4, 0),
    "matmul2d_descriptor": (4, 0),
    "convolution2d": (4, 0),
    "convolution2d_descriptor": (4, 0),
    "execution_thread": (4, 0),
    "execution_simdgroup": (4, 0),
    "execution_simdgroups": (4, 0),
    "mpp": (4, 0),
    # Attributes.
    "user_annotation": (4, 0),
}
# Those that mslc does not have are in newer_headers/, empty, so that they can be included here.
HEADERS: dict[str, Version] = {
    "metal_logging": (3, 2),
    "metal_tensor": (4, 0),
    "metal_cooperative_tensor": (4, 0),
    "MetalPerformancePrimitives/MetalPerformancePrimitives.h": (4, 0),
}
PRAGMAS: dict[str, Version] = {
    "METAL fp math_mode": (3, 2),
    "METAL fp contract": (3, 2),
}

_OWN_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
_GUARD = re.compile(r"__METAL_VERSION__\s*(?:>=|>|<|<=|==)\s*(\d+)")


def asked_for(path: Path) -> list[Version]:
    """The newer versions that a file, or a header of ours that it includes, tells apart."""
    found: set[Version] = set()
    todo, seen = [path], {path}
    while todo:
        file = todo.pop()
        text = file.read_text(encoding="utf-8")
        found.update((int(n) // 100, int(n) % 100 // 10) for n in _GUARD.findall(text))
        included = {file.parent / name for name in _OWN_INCLUDE.findall(text)}
        todo += [header for header in included - seen if header.exists()]
        seen |= included
    return sorted(version for version in found if version > OLDEST)


def check(source: Source) -> Iterator[Problem]:
    """Names, headers and pragmas that this version lacks."""
    tokens = source.tokens
    for i, word in enumerate(tokens.text):
        since = NAMES.get(word)
        if since and since > source.version and tokens.kind[i] == "name":
            yield Problem(*tokens.location(i), _message(f"'{word}'", since))
    for file, line, text in source.lines():
        for pragma, since in PRAGMAS.items():
            if since > source.version and re.match(rf"\s*#\s*pragma\s+{pragma}\b", text):
                yield Problem(file, line, _message(f"#pragma {pragma}", since))
    yield from _headers(source)


def _headers(source: Source) -> Iterator[Problem]:
    """Headers that were included: the preprocessor marks where each is entered."""
    file, line = str(source.path), 1
    for text in source.preprocessed.splitlines():
        marker = re.match(r'# (\d+) "([^"]*)"((?: \d)*)', text)
        if not marker:
            line += 1
            continue
        if "1" in marker[3].split():
            for header, since in HEADERS.items():
                if since > source.version and marker[2].endswith(f"/{header}"):
                    yield Problem(file, line, _message(f"<{header}>", since))
        file, line = marker[2], int(marker[1])


def _message(what: str, since: Version) -> str:
    major, minor = since
    return (
        f"{what} needs Metal {major}.{minor}: put it between "
        f"'#if __METAL_VERSION__ >= {major}{minor}0' and '#endif'"
    )
