"""DeepSpeed#7148, #7556, pytorch#122705: no OpenMP runtime of our own, no flags of one machine."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mps_ds import _native

ROOT = Path(__file__).resolve().parents[2]
LISTS_LIBRARIES = ["otool", "-L"] if sys.platform == "darwin" else ["readelf", "-d"]


@pytest.mark.skipif(not shutil.which(LISTS_LIBRARIES[0]), reason="needs readelf or otool")
def test_no_second_openmp_runtime_is_linked() -> None:
    command = [*LISTS_LIBRARIES, _native.C.__file__]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "torch_cpu" in listed
    assert not re.findall(r"lib\w*omp\d?\b", listed)


def test_nothing_is_compiled_for_the_machine_at_hand() -> None:
    builds = [ROOT / "setup.py", *ROOT.glob("CMakeLists.txt"), *ROOT.glob("cmake/*.cmake")]
    builds += [p for p in (ROOT / "csrc").rglob("*") if p.suffix in (".cmake", ".txt")]
    assert len(builds) > 4
    for path in builds:
        assert not re.search(r"-m(arch|cpu|tune)=native|-fopenmp|OpenMP", path.read_text()), path
