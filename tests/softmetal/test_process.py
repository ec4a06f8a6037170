"""The device in the life of a process: start, fork, exit, missing tools, other signal handlers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PRELUDE = """
import faulthandler, os, signal, sys, time
import numpy as np
from mps_ds import softmetal as metal

SOURCE = '''
kernel void poke(device float* x [[buffer(0)]], constant int& i [[buffer(1)]]) {
  x[i] = 1;
}
kernel void spin(device uint* x [[buffer(0)]]) {
  for (uint i = 0; i < 2000000000u; ++i) x[0] = x[0] * 3 + i;
}
'''

def poke(where):
    try:
        metal.run(SOURCE, "poke", [np.zeros(4, np.float32), np.int32(where)], 1)
        return "ok"
    except metal.MetalError as e:
        return str(e)
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def output(code: str, **environment: str) -> str:
    result = run(code, **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_a_forked_child_is_told_to_spawn() -> None:
    text = output("""
device, queue = metal.Device(), metal.Device().new_command_queue()
buffer = device.new_buffer_with_bytes(np.ones(4, np.float32))
child = os.fork()
if child == 0:
    for call in (metal.Device, lambda: device.new_buffer_with_length(4), queue.command_buffer,
                 lambda: device.new_library_with_source("", metal.precise_options())):
        try:
            call()
            os._exit(1)
        except metal.ValidationError as e:
            assert "cannot be used in the child: start it with spawn" in str(e)
    del buffer
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(metal.array(buffer, np.float32).tolist(), poke(0))
""")
    assert text.splitlines() == ["0", "[1.0, 1.0, 1.0, 1.0] ok"]


def test_exit_while_a_kernel_runs() -> None:
    result = run("""
device = metal.Device()
library = device.new_library_with_source(SOURCE, metal.precise_options())
commands = device.new_command_queue().command_buffer()
encoder = commands.compute_command_encoder()
encoder.set_compute_pipeline_state(
    device.new_compute_pipeline_state_with_function(library.new_function_with_name("spin")))
encoder.set_buffer(device.new_buffer_with_length(4), 0, 0)
encoder.dispatch_threads((1, 1, 1), (1, 1, 1))
encoder.end_encoding()
commands.commit()
while commands.status != metal.CommandBufferStatus.SCHEDULED: pass
print("leaving")
""")
    assert (result.returncode, result.stdout, result.stderr) == (0, "leaving\n", "")


@pytest.mark.parametrize("tools", ["none", "addr2line", "llvm-symbolizer-99"])
def test_without_llvm_symbolizer(tmp_path: Path, tools: str) -> None:
    """The line of a fault comes from whatever symbolizer there is; without one it is left out."""
    import shutil

    warm = output("print(poke(0))")  # compiled into the cache: the compiler may need the tools
    assert warm == "ok"
    if tools != "none":
        real = shutil.which("addr2line") if tools == "addr2line" else _llvm_symbolizer()
        if not real:
            pytest.skip(f"{tools} is not installed")
        (tmp_path / (tools if tools == "addr2line" else "llvm-symbolizer-20")).symlink_to(real)
    text = output("print(poke(4))", PATH=str(tmp_path))
    assert "kernel 'poke': out-of-bounds write at byte offset 16" in text
    assert ("program_source:3" in text) == (tools != "none")


def _llvm_symbolizer() -> str | None:
    import shutil

    names = ["llvm-symbolizer", *(f"llvm-symbolizer-{n}" for n in range(30, 13, -1))]
    return next((path for path in map(shutil.which, names) if path), None)


def test_a_fault_handler_that_was_there_before_still_gets_the_hosts_faults() -> None:
    result = run("""
faulthandler.enable()
print("16" in poke(4), flush=True)
import ctypes; ctypes.string_at(0)
""")
    assert result.stdout == "True\n"
    assert result.returncode < 0
    assert "Fatal Python error: Segmentation fault" in result.stderr


def test_a_fault_handler_that_came_later_does_not_get_kernels_faults() -> None:
    result = run("""
poke(0)
faulthandler.enable()
print("16" in poke(4))
print("16" in poke(4))
""")
    assert (result.returncode, result.stdout, result.stderr) == (0, "True\nTrue\n", "")


def test_the_host_dereferencing_a_gpuAddress_is_explained() -> None:
    result = run("""
poke(0)
import ctypes
ctypes.string_at(metal.Device().new_buffer_with_length(16).gpu_address)
""")
    assert result.returncode < 0
    assert "the host used a gpuAddress as a pointer" in result.stderr


def test_compiled_libraries_are_cached_across_processes(tmp_path: Path) -> None:
    code = "poke(0); print(metal.counters()['libraries_compiled'])"
    environment = {"SOFTMETAL_CACHE": str(tmp_path / "new" / "cache")}
    assert output(code, **environment) == "1"
    assert output(code, **environment) == "0"
    (library,) = (tmp_path / "new" / "cache").iterdir()
    assert library.suffix == ".so"
    library.write_bytes(b"damaged")
    assert output(code, **environment) == "1"


def test_a_library_of_another_source_with_the_same_name_is_not_used(tmp_path: Path) -> None:
    environment = {"SOFTMETAL_CACHE": str(tmp_path)}
    other = (
        "metal.Device().new_library_with_source('kernel void other() {}', metal.precise_options())"
    )
    output(other, **environment)
    (wrong,) = tmp_path.iterdir()
    output("poke(0)", **environment)
    (right,) = set(tmp_path.iterdir()) - {wrong}
    right.write_bytes(wrong.read_bytes())
    assert output("print(poke(0), metal.counters()['libraries_compiled'])", **environment) == "ok 1"


def test_processes_compile_the_same_source_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "SOFTMETAL_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", PRELUDE + "print(poke(0))"]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [process.communicate()[0] for process in running] == ["ok\n"] * 4
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"SOFTMETAL_CACHE": "/dev/null/cache"}, "cannot create the folder for compiled kernels"),
    ],
)
def test_a_cache_that_cannot_be_written(environment: Any, text: str) -> None:
    assert text in output("print(poke(0))", **environment)


def test_a_compiler_that_is_not_there(tmp_path: Path) -> None:
    text = output(
        "metal.set_compiler(['/no/such/compiler']); print(poke(0))", SOFTMETAL_CACHE=str(tmp_path)
    )
    assert "/no/such/compiler" in text
