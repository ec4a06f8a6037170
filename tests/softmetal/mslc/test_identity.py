"""Keys, digests and the command line."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3] / "third_party" / "softmetal"
KERNEL = """#include <metal_stdlib>
kernel void k(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = SCALE; }
"""


def mslc(*arguments, stdin=None, **environment):
    return subprocess.run(
        [sys.executable, str(ROOT / "mslc"), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "scale.metal"
    path.write_text(KERNEL)
    return path


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def test_the_key_is_fnv1a_of_version_macros_and_source(source):
    hashed = b"196609\nA=2\nSCALE=1\n\n" + KERNEL.encode()
    assert mslc("--key", source, "-DSCALE", "-DA=2").stdout.strip() == fnv1a(hashed)
    hashed = b"196610\n\n" + KERNEL.encode()
    assert mslc("--key", source, "--language-version", "3.2").stdout.strip() == fnv1a(hashed)


def test_known_values_of_fnv1a():
    from mslc.identity import key

    assert key(b"") == "cbf29ce484222325"
    assert key(b"foobar") == "85944171f73967e8"


def test_a_folder_gets_a_library_named_by_key_and_digest_that_holds_its_source(source, tmp_path):
    out = tmp_path / "kernels"
    run = mslc(source, "-o", f"{out}/", "-DSCALE=3")
    assert run.returncode == 0, run.stderr
    hashed = b"196609\nSCALE=3\n\n" + KERNEL.encode()
    (library,) = out.iterdir()
    digest = mslc("--digest").stdout.strip()
    assert library.name == f"{fnv1a(hashed)}-{digest}.so"
    loaded = ctypes.CDLL(str(library))
    assert ctypes.c_char_p.in_dll(loaded, "softmetal_source").value == hashed


def test_any_bytes_of_a_source_are_kept(tmp_path):
    text = (
        '// "quotes" \\ ??= \t é \u2028 \x01\n'.encode()
        + b"// \xff\xfe not UTF-8\n"
        + KERNEL.encode()
    )
    path = tmp_path / "odd.metal"
    path.write_bytes(text)
    run = mslc(path, "-o", tmp_path / "odd.so", "-DSCALE=1")
    assert run.returncode == 0, run.stderr
    loaded = ctypes.CDLL(str(tmp_path / "odd.so"))
    held = ctypes.c_char_p.in_dll(loaded, "softmetal_source").value
    assert held == b"196609\nSCALE=1\n\n" + text


def test_the_digest_changes_with_any_file_of_the_compiler(tmp_path):
    import shutil

    for folder in ("mslc", "msl"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    command = [sys.executable, str(tmp_path / "mslc"), "--digest"]
    digest = lambda: subprocess.run(command, capture_output=True, text=True).stdout  # noqa: E731
    before = digest()
    assert before == mslc("--digest").stdout
    (tmp_path / "msl" / "DIGEST").write_text(before)
    assert digest() == before
    with (tmp_path / "msl" / "library" / "math.h").open("a") as header:
        header.write("// changed\n")
    assert digest() != before


def test_list_names_kernels_and_arguments(source):
    run = mslc("--list", source, "-DSCALE=1")
    assert run.stdout == "k [loop] x: buffer(0), i: thread_position_in_grid\n"


def test_errors_go_to_stderr_with_the_name_of_the_source(source, tmp_path):
    run = mslc(source, "-o", tmp_path / "x.so", "--name", "program_source")
    assert run.returncode == 1
    assert "program_source:2:91: error: use of undeclared identifier 'SCALE'" in run.stderr
    assert not (tmp_path / "x.so").exists()
    assert list(tmp_path.iterdir()) == [source]
    run = mslc("-", "--list", stdin="kernel void k(device double* x) {}")
    assert "program_source:1: error: 'double' is not supported" in run.stderr
    assert "No such file" in mslc(tmp_path / "missing.metal", "--list").stderr


def test_a_missing_compiler_is_one_clear_error(source, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    run = mslc(source, "-o", tmp_path / "x.so", PATH=str(empty))
    assert run.returncode == 1
    assert "needs clang++ 16 or newer, which was not found" in run.stderr
    assert "apt-get install clang-19" in run.stderr
    run = mslc(source, "-o", tmp_path / "x.so", SOFTMETAL_CLANG="no-such-clang")
    assert "SOFTMETAL_CLANG is 'no-such-clang', which is not a program" in run.stderr
    assert "Traceback" not in run.stderr


def test_the_address_space_check_is_a_command(tmp_path):
    path = tmp_path / "bad.metal"
    path.write_text("kernel void k(device int* x, constant int* c) { device const int* p = c; }")
    run = mslc("--check-address-spaces", path)
    assert run.returncode == 1
    assert "bad.metal:1:" in run.stderr
