"""The compiler mslc, from the source tree."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3] / "third_party" / "softmetal"
sys.path.insert(0, str(ROOT))

HEADER = "#include <metal_stdlib>\nusing namespace metal;\n"


@pytest.fixture(scope="session")
def translate():
    """`translate(text, version)`: the kernels and C++ of a source; no C++ compiler runs on it."""
    from mslc.compile import Options
    from mslc.compile import translate as translate_bytes

    def run(text, version=(3, 1), **options):
        options = Options(language_version=version, name="t.metal", **options)
        return translate_bytes((HEADER + text).encode(), options)

    return run


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """`compiled(text)`: compiles a source to the end; raises MslError with the diagnostics."""
    from mslc.compile import Options, compile_library
    from mslc.compile import translate as translate_bytes

    folder = tmp_path_factory.mktemp("libraries")

    def run(text, version=(3, 1), **options):
        options = Options(language_version=version, name="t.metal", **options)
        translation = translate_bytes((HEADER + text).encode(), options)
        compile_library(translation, options, folder / "library.so")
        return translation

    return run
