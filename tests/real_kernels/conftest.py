"""Kernels that others wrote, run on the software device and compared with numpy or torch.

They are fetched (fetched.py), so all of these tests are slow. How many kernels ran is printed at
the end, and test_number.py holds the least that there must be.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from real_kernels.fetched import DEEPSPEED, MLX, fetch
from real_kernels.kernels import Kernels


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if item.path.parent == Path(__file__).parent]
    for item in here:
        item.add_marker(pytest.mark.slow)
    last = [item for item in here if item.path.name == "test_number.py"]
    for item in last:
        items.remove(item)
        items.append(item)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory) -> Callable[..., Kernels]:
    """`compiled(label, source)`: a library of instances of MLX's kernels."""
    folder = tmp_path_factory.mktemp("real_kernels")

    def compile_mlx(label: str, source: str, version: str = "3.1") -> Kernels:
        return Kernels(label, source, fetch(MLX) / "mlx" / "include", folder, version)

    return compile_mlx


@pytest.fixture(scope="session")
def compiled_c10(tmp_path_factory) -> Callable[..., Kernels]:
    """`compiled_c10(label, source)`: a library made with PyTorch's own headers for Metal."""
    folder = tmp_path_factory.mktemp("c10")
    include = Path(torch.__file__).parent / "include"
    assert (include / "c10" / "metal").is_dir(), f"this torch has no c10/metal in {include}"
    return lambda label, source: Kernels(label, source, include, folder)


@pytest.fixture(scope="session")
def fused_adam(tmp_path_factory) -> Kernels:
    """DeepSpeed's kernels, the file as it is."""
    (source,) = fetch(DEEPSPEED).rglob("fused_adam.metal")
    folder = tmp_path_factory.mktemp("deepspeed")
    return Kernels("deepspeed", source.read_text(), source.parent, folder)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
