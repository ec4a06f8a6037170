"""The extension for macOS is what a Mac's loader accepts; each rule's violation is found."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_it_obeys_every_rule(extension):
    from macos import check_extension

    assert check_extension.check(extension) == []


def test_torch_mps_is_weak_and_torch_is_imported_by_the_stable_abi(extension):
    from macos import macho

    torch = [symbol for symbol in macho.imports(extension) if symbol.library == "libtorch_cpu"]
    weak = {symbol.symbol for symbol in torch if symbol.weak}
    assert weak == {
        "__ZN5torch3mps18get_command_bufferEv",
        "__ZN5torch3mps18get_dispatch_queueEv",
    }
    assert len(torch) > 30
    assert all(symbol.symbol.startswith(("_aoti_torch_", "_torch_")) for symbol in torch
               if not symbol.weak)  # fmt: skip


def test_a_symbol_that_only_newer_torch_has_is_found(extension, monkeypatch):
    from macos import check_extension, macho

    real = macho.exports

    def without_one(path: Path):
        missing = {"_aoti_torch_get_dim"} if "torch-oldest" in str(path) else set()
        return real(path) - missing

    monkeypatch.setattr(macho, "exports", without_one)
    problems = check_extension.check_imports(extension)
    assert problems == ["_aoti_torch_get_dim is not in torch==2.10.0"]


@pytest.fixture
def copy(extension, tmp_path):
    """A copy of the extension to break."""
    return Path(shutil.copy(extension, tmp_path))


def problems_of(path: Path) -> str:
    from macos import check_extension

    return "\n".join(check_extension.check(path))


def command_at(data: bytes, number: int) -> int:
    """Where a load command is in the file."""
    at = 32
    for _ in range(struct.unpack_from("<I", data, 16)[0]):
        kind, size = struct.unpack_from("<2I", data, at)
        if kind == number:
            return at
        at += size
    raise AssertionError(f"no load command {number:#x}")


def test_changed_byte(copy):
    data = bytearray(copy.read_bytes())
    data[data.index(b"no reason given")] ^= 1
    copy.write_bytes(data)
    assert "differ from what was signed" in problems_of(copy)


def test_no_signature(copy):
    from macos import check_extension, macho

    data = bytearray(copy.read_bytes())
    at = command_at(data, macho.LC_CODE_SIGNATURE)
    struct.pack_into("<I", data, at, 0x26)  # LC_FUNCTION_STARTS, which has the same form
    copy.write_bytes(data)
    assert check_extension.check_signature(macho.read(copy)) == ["has no code signature"]


def test_other_oldest_macos(copy):
    from macos import macho

    data = bytearray(copy.read_bytes())
    at = command_at(data, macho.LC_BUILD_VERSION)
    struct.pack_into("<I", data, at + 12, 15 << 16)
    copy.write_bytes(data)
    assert "made for platform 1, 15.0; not macOS 14.0" in problems_of(copy)


def test_dylib_instead_of_bundle(copy):
    from macos import check_extension, macho

    data = bytearray(copy.read_bytes())
    struct.pack_into("<I", data, 12, 6)
    copy.write_bytes(data)
    problems = check_extension.check_header(macho.read(copy))
    assert [problem for problem in problems if "not an arm64 bundle" in problem]


def test_rpath_and_foreign_libraries(copy):
    from macos.paths import tool

    subprocess.run(
        [tool("llvm-install-name-tool"), "-add_rpath", "/opt/lib",
         "-change", "/usr/lib/libc++.1.dylib", "@rpath/libomp.dylib", str(copy)],
        check=True,
    )  # fmt: skip
    problems = problems_of(copy)
    assert "links @rpath/libomp.dylib" in problems
    assert "/opt/lib" in problems
    assert "signed" not in problems  # LLVM's tool signs anew


def relinked(source: str, tmp_path: Path, without: str = "") -> Path:
    """The extension linked with one more source."""
    from cross import compile_like, link_with

    planted = tmp_path / "planted.mm"
    planted.write_text(source)
    done = compile_like("mps/encode.mm", planted)
    assert done.returncode == 0, done.stderr
    target = tmp_path / "planted.so"
    done = link_with(target, planted.with_suffix(".o"), without=without)
    assert done.returncode == 0, done.stderr
    return target


def test_import_that_is_not_on_the_list(extension, tmp_path):
    target = relinked(
        "#include <stdlib.h>\n"
        '__attribute__((constructor)) static void f() { setenv("A", "B", 1); }',
        tmp_path,
    )
    assert "import of _setenv from libSystem: not on the list" in problems_of(target)


def test_strong_import_of_torch_mps(extension, tmp_path):
    target = relinked(
        "namespace torch::mps { void commit(); }\n"
        "__attribute__((constructor)) static void f() { torch::mps::commit(); }",
        tmp_path,
    )
    assert "import of __ZN5torch3mps6commitEv from libtorch_cpu: not on the list" in problems_of(
        target
    )


def test_export(extension, tmp_path):
    target = relinked(
        'extern "C" __attribute__((visibility("default"))) int leaked() { return 1; }',
        tmp_path,
        without="-Xlinker -exported_symbol -Xlinker _PyInit__C",
    )
    assert "_leaked" in problems_of(target)
