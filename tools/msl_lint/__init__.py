"""Checks of our Metal kernels that need no Metal: `python tools/msl_lint [FILE.metal ...]`.

    language.py    what Metal 3.1 lacks, though clang accepts it as C++
    versions.py    names that a newer Metal brings: to be guarded by __METAL_VERSION__
    pointers.py    pointers and references without an address space
    waiting.py     our own rule: no threadgroup waits for, or reads, another of the same dispatch
    contraction.py a pragma turns contraction off before all code
    compiled.py    what only a compiler tells: recursion, calls through pointers, contraction
    readings.py    read again as C++ for OpenCL, and as C++14 with -pedantic-errors

Tokens and declarations come from mslc, the compiler of the software device.
"""
