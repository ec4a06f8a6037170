"""Lays out build/macos/sdk like Apple's SDK, so that clang and CMake work as they do on a Mac.

Headers are links to where they come from; stubs for the linker are written (link_stubs.py).
"""

import json
import shutil
import subprocess
import sysconfig
from pathlib import Path

from .link_stubs import EXTRA, INSTALL_NAMES, attested, retarget, stub
from .paths import (
    FOUNDATION_HEADERS,
    LLVM,
    METAL_HEADERS,
    OLDEST_MACOS,
    SDK,
    SOURCES,
    WORK,
    part,
    tool,
)

PYTHON_HEADERS = WORK / "python"
PYTHON_SYMBOLS = WORK / "python.symbols"


def link_all(sources: Path, target: Path) -> None:
    """Link every entry of one folder into another."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in sources.iterdir():
        (target / entry.name).symlink_to(entry)


def lay_headers() -> None:
    """The C, C++, Objective-C and framework headers."""
    include = SDK / "usr" / "include"
    darwin = part("darwin") / "ziglang" / "lib" / "libc" / "include" / "any-darwin-any"
    link_all(darwin, include)
    libcxx = part("libcxx") / "usr" / "lib" / f"llvm-{LLVM}" / "include" / "c++" / "v1"
    target = include / "c++" / "v1"
    link_all(libcxx, target)
    (target / "__config_site").unlink()
    (target / "__config_site").symlink_to(SOURCES / "libcxx" / "__config_site")
    for name, headers in (("Metal", METAL_HEADERS), ("Foundation", FOUNDATION_HEADERS)):
        framework = SDK / "System" / "Library" / "Frameworks" / f"{name}.framework"
        framework.mkdir(parents=True)
        (framework / "Headers").symlink_to(headers)


def lay_python() -> None:
    """Python's headers with our pyconfig.h, which they look for beside themselves."""
    headers = Path(sysconfig.get_paths()["include"])
    shutil.rmtree(PYTHON_HEADERS, ignore_errors=True)
    link_all(headers, PYTHON_HEADERS)
    (PYTHON_HEADERS / "pyconfig.h").unlink()
    (PYTHON_HEADERS / "pyconfig.h").symlink_to(SOURCES / "python" / "pyconfig.h")


def witnesses() -> list[Path]:
    """The binaries whose imports say what Apple's libraries export."""
    torch = part("torch") / "torch" / "lib"
    names = ("libtorch_cpu", "libtorch_python", "libc10", "libshm")
    return [
        *(torch / f"{name}.dylib" for name in names),
        part("metal-cpp") / "mlx" / "lib" / "libmlx.dylib",
        part("pyobjc-core") / "objc" / "_objc.cpython-311-darwin.so",
    ]


def lay_stubs() -> None:
    """What the linker reads instead of Apple's libraries."""
    libraries = SDK / "usr" / "lib"
    libraries.mkdir(parents=True, exist_ok=True)
    system = part("darwin") / "ziglang" / "lib" / "libc" / "darwin" / "libSystem.tbd"
    (libraries / "libSystem.tbd").write_text(retarget(system.read_text()))
    found = attested(witnesses())
    for name, install_name in INSTALL_NAMES.items():
        # Where the library itself would be, and linked to where -l and -framework look.
        path = (SDK / install_name.lstrip("/")).with_suffix(".tbd")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stub(name, found[name] | EXTRA.get(name, set())))
        if "Frameworks" in install_name:
            short = SDK / "System" / "Library" / "Frameworks" / f"{name}.framework" / f"{name}.tbd"
        else:
            short = libraries / f"{name}.tbd"
        short.symlink_to(path)


def python_symbols() -> list[str]:
    """Names of Python's C API, as Mach-O spells them, from the Python that runs this."""
    names = ("LIBDIR", "LDLIBRARY", "BINDIR", "VERSION")
    libdir, library, bindir, version = (str(sysconfig.get_config_var(name)) for name in names)
    shared = ".so" in library and (Path(libdir) / library).exists()
    python = Path(libdir) / library if shared else Path(bindir) / f"python{version}"
    command = [tool("llvm-nm"), "--dynamic", "--defined-only", "--just-symbol-name", str(python)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    symbols = [name for name in out.split() if name.startswith(("Py", "_Py"))]
    if "PyModule_Create2" not in symbols:
        raise RuntimeError(f"{python} exports no C API of Python")
    return sorted(f"_{name}" for name in symbols)


def build_runtime() -> None:
    """The part of clang's own run-time library that compilers for Linux lack."""
    source = SOURCES / "runtime" / "availability.c"
    built = WORK / "availability.o"
    target = f"arm64-apple-macos{OLDEST_MACOS}"
    flags = ["-O2", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]
    command = [tool("clang"), "-target", target, "-isysroot", str(SDK), *flags]
    command += ["-c", str(source), "-o", str(built)]
    subprocess.run(command, check=True)
    archive = SDK / "usr" / "lib" / "libclang_rt.osx.a"
    subprocess.run([tool("llvm-ar"), "rcs", str(archive), str(built)], check=True)


def make() -> None:
    """Lay out the SDK anew."""
    shutil.rmtree(SDK, ignore_errors=True)
    SDK.mkdir(parents=True)
    (SDK / "SDKSettings.json").write_text(
        json.dumps({"Version": OLDEST_MACOS, "MaximumDeploymentTarget": f"{OLDEST_MACOS}.99"})
    )
    lay_headers()
    lay_python()
    lay_stubs()
    build_runtime()
    symbols = python_symbols()
    PYTHON_SYMBOLS.write_text("\n".join(symbols) + "\n")
    # For the linker: these, and no others, may be left for Python to bring.
    allowed = [f"-Wl,-U,{symbol}" for symbol in symbols]
    (WORK / "link.rsp").write_text(
        "\n".join(["-lclang_rt.osx", "-Wl,-undefined,error", *allowed]) + "\n"
    )
