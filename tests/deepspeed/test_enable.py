"""enable() rebinds what DeepSpeed bound, once, and disable() leaves no trace of it."""

from __future__ import annotations

import ast
import concurrent.futures
import hashlib
import importlib
import importlib.util
import inspect
import os
import pickle
import site
import subprocess
import sys
import threading
import time
import types
import warnings
from pathlib import Path

import pytest
import torch

import mps_ds.deepspeed
import mps_ds.optim
from mps_ds.selftest.explain import explain


def state() -> dict[str, object]:
    """Everything that enable() may touch, by name."""
    import deepspeed
    from deepspeed.accelerator import real_accelerator
    from deepspeed.ops.op_builder import all_ops

    from mps_ds.deepspeed import replacements

    told: dict[str, object] = {"accelerator": real_accelerator.ds_accelerator}
    told["ALL_OPS"] = dict(all_ops.ALL_OPS)
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] != "deepspeed":
            continue
        for key, value in list(vars(module).items()):
            if key.endswith("Builder") or key in ("torch_memory_reserved", "has_inf_or_nan"):
                told[f"{name}.{key}"] = value
    for row in replacements.TABLE:
        for module in (row.module, *row.imported_by):
            owner = sys.modules[module]
            *path, name = row.name.split(".")
            for part in path:
                owner = getattr(owner, part)
            told[f"{module}.{row.name}"] = vars(owner)[name]
    told["enabled"] = hasattr(deepspeed, "mps_ds_enabled")
    told["variable"] = os.environ.get("MPS_DS_DEEPSPEED")
    return told


def test_everything_is_rebound_and_put_back() -> None:
    import deepspeed.runtime.engine  # noqa: F401
    from deepspeed.ops import op_builder
    from deepspeed.ops.adam import cpu_adam, fused_adam

    from mps_ds.deepspeed import builders, replacements

    before = state()
    for _ in range(2):
        mps_ds.deepspeed.enable()
        assert mps_ds.deepspeed.is_enabled()
        for module in (op_builder, fused_adam):
            assert module.FusedAdamBuilder is builders.FusedAdamBuilder
        for module in (op_builder, cpu_adam):
            assert module.CPUAdamBuilder is builders.CPUAdamBuilder
        during = state()
        for row in replacements.TABLE:
            for module in (row.module, *row.imported_by):
                key = f"{module}.{row.name}"
                assert during[key] is not before[key], key
                assert during[key].__wrapped__ is before[key], key
        assert during["variable"] == "1"
        mps_ds.deepspeed.disable()
        assert not mps_ds.deepspeed.is_enabled()
        after = state()
        assert after.keys() == before.keys()
        changed = [key for key in before if after[key] is not before[key]]
        assert set(changed) <= {"ALL_OPS"}
        assert after["ALL_OPS"] == before["ALL_OPS"]


def test_no_module_keeps_a_builder_of_deepspeeds_own(enabled) -> None:
    import deepspeed.runtime.engine  # noqa: F401
    from deepspeed.ops.op_builder.builder import OpBuilder

    for name, module in list(sys.modules.items()):
        if name.split(".")[0] != "deepspeed" or name.startswith("deepspeed.ops.op_builder."):
            continue
        for key, value in vars(module).items():
            if key.endswith("OpBuilder"):
                continue  # base classes
            if inspect.isclass(value) and issubclass(value, OpBuilder):
                assert value.__module__.startswith("mps_ds."), f"{name}.{key}"


def test_again_changes_nothing(enabled) -> None:
    before = state()
    mps_ds.deepspeed.enable()
    after = state()
    assert all(after[key] is before[key] for key in before if key != "ALL_OPS")


def test_modules_that_were_imported_meanwhile_are_put_back_too(monkeypatch) -> None:
    """They hold what they took, also under other names."""
    from deepspeed.ops import op_builder
    from deepspeed.runtime import utils

    own = op_builder.RandomLTDBuilder, utils.clip_grad_norm_, utils.torch_memory_reserved
    name = "deepspeed.ops.random_ltd.dropping_utils"
    monkeypatch.delitem(sys.modules, name, raising=False)
    later = types.ModuleType("deepspeed.later")
    monkeypatch.setitem(sys.modules, later.__name__, later)

    mps_ds.deepspeed.enable()
    imported = importlib.import_module(name)
    assert imported.RandomLTDBuilder.__module__ == "mps_ds.deepspeed.builders"
    later.Builder, later.clip = op_builder.RandomLTDBuilder, utils.clip_grad_norm_
    later.memory = utils.torch_memory_reserved
    mps_ds.deepspeed.disable()
    assert imported.RandomLTDBuilder is own[0]
    assert (later.Builder, later.clip, later.memory) == own


def test_what_others_put_over_ours_stays(monkeypatch) -> None:
    import torch
    from deepspeed.accelerator import get_accelerator, real_accelerator, set_accelerator
    from deepspeed.runtime import utils

    before = real_accelerator.ds_accelerator
    own = torch.Tensor.copy_, utils.get_global_norm_of_tensors
    mps_ds.deepspeed.enable()
    ours = torch.Tensor.to, utils.clip_grad_norm_

    def to(self, *args, **kwargs):
        return ours[0](self, *args, **kwargs)

    def clip(*args):
        return ours[1](*args)

    try:
        torch.Tensor.to, utils.clip_grad_norm_ = to, clip
        another = type(get_accelerator())()
        set_accelerator(another)
        mps_ds.deepspeed.disable()
        assert (torch.Tensor.to, utils.clip_grad_norm_, get_accelerator()) == (to, clip, another)
        assert (torch.Tensor.copy_, utils.get_global_norm_of_tensors) == own
        assert torch.ones(1).to("mps", non_blocking=True).item() == 1
    finally:
        del torch.Tensor.to
        utils.clip_grad_norm_ = ours[1].__wrapped__
        set_accelerator(before)


def in_a_process(arguments, environment=None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("when", ["before", "meanwhile", "never"])
def test_collectives_of_others_stay(when) -> None:
    import mps_ds.distributed as collectives

    assert not collectives.is_enabled()
    try:
        if when == "before":
            collectives.enable()
        mps_ds.deepspeed.enable()
        assert collectives.is_enabled()
        if when == "meanwhile":
            collectives.enable()
        mps_ds.deepspeed.disable()
        assert collectives.is_enabled() is (when != "never")
    finally:
        collectives.disable()


def test_others_do_not_take_collectives_from_deepspeed() -> None:
    import mps_ds.distributed as collectives

    mps_ds.deepspeed.enable()
    collectives.enable()
    collectives.disable()
    assert collectives.is_enabled()
    mps_ds.deepspeed.disable()
    assert not collectives.is_enabled()


def test_what_was_there_before_is_there_again(monkeypatch) -> None:
    import deepspeed.ops

    monkeypatch.setenv("MPS_DS_DEEPSPEED", "yes")
    before = {"something": True}
    monkeypatch.setattr(deepspeed.ops, "__compatible_ops__", before, raising=False)
    mps_ds.deepspeed.enable()
    assert deepspeed.ops.__compatible_ops__["fused_adam"]
    mps_ds.deepspeed.disable()
    assert deepspeed.ops.__compatible_ops__ is before
    assert before == {"something": True}
    assert os.environ["MPS_DS_DEEPSPEED"] == "yes"


def test_replaced_methods_can_be_pickled() -> None:
    mps_ds.deepspeed.enable()
    try:
        for method in (torch.Tensor.to, torch.Tensor.copy_):
            assert pickle.loads(pickle.dumps(method)) is method
    finally:
        mps_ds.deepspeed.disable()


def test_the_table_of_builders_is_deepspeeds_again() -> None:
    """In a process where nothing has looked at it before enable(): it is filled when imported."""
    program = """
import mps_ds.deepspeed
mps_ds.deepspeed.enable()
mps_ds.deepspeed.disable()
from deepspeed.ops.op_builder.all_ops import ALL_OPS
print(sorted({type(op).__module__.split(".")[0] for op in ALL_OPS.values()}))
"""
    done = in_a_process(["-c", program])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['deepspeed']"


def test_it_is_in_force_when_it_returns_in_any_thread(monkeypatch) -> None:
    from mps_ds.deepspeed import bindings

    rebind, calls = bindings.rebind, []

    def slow_rebind(undo) -> None:
        calls.append(1)
        time.sleep(0.3)
        rebind(undo)

    monkeypatch.setattr(bindings, "rebind", slow_rebind)
    start = threading.Barrier(3)

    def enable() -> bool:
        start.wait()
        mps_ds.deepspeed.enable()
        return mps_ds.deepspeed.is_enabled()

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        told = [pool.submit(enable) for _ in range(3)]
    mps_ds.deepspeed.disable()
    assert [one.result() for one in told] == [True] * 3
    assert calls == [1]


def test_an_engine_that_exists_refuses_both(one_process) -> None:
    import deepspeed
    import torch

    engine, *_ = deepspeed.initialize(
        model=torch.nn.Linear(2, 2),
        config={
            "train_batch_size": 1,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        },
    )
    with pytest.raises(RuntimeError, match=r"disable\(\): a DeepSpeed engine exists already"):
        mps_ds.deepspeed.disable()
    assert mps_ds.deepspeed.is_enabled()
    from mps_ds.deepspeed import _enable

    with pytest.raises(RuntimeError, match=r"enable\(\): a DeepSpeed engine exists already") as e:
        _enable._refuse_engines("enable()")
    assert [row.words for row in explain(str(e.value))] == ["a DeepSpeed engine exists already"]
    engine.destroy()
    del engine


@pytest.fixture
def unknown_source(monkeypatch):
    """One function whose source is not the one in the table."""
    import dataclasses

    from mps_ds.deepspeed import replacements

    rows = [
        dataclasses.replace(row, digests=("0" * 16,)) if row.name == "has_inf_or_nan" else row
        for row in replacements.TABLE
    ]
    monkeypatch.setattr(replacements, "TABLE", tuple(rows))


SOURCE = '''
import functools

def plain(a,
          b=(1,
2)):
    if a:
        return """
text
    at any column"""

    return b
# a comment
class Class:
    x = 1

    def method(
        self,
    ):
        def inner():
            return 2
        return inner

    # a comment
    @functools.cache
    def decorated(self): return 3

    async_ = 4
    def last(self):
        return 5
VALUE = 6
class Other:
    def method(self):
        return 7
'''


def test_an_unknown_function_stays_with_one_warning(unknown_source) -> None:
    from deepspeed.runtime import utils

    own = utils.has_inf_or_nan
    with pytest.warns(UserWarning, match="stays in place of: deepspeed.runtime.utils.has_inf") as w:
        mps_ds.deepspeed.enable()
    try:
        assert len([x for x in w if "mps_ds:" in str(x.message)]) == 1
        assert utils.has_inf_or_nan is own
        assert utils.clip_grad_norm_.__wrapped__, "the others are replaced"
    finally:
        mps_ds.deepspeed.disable()


def test_strict_raises_and_leaves_nothing_behind(unknown_source, monkeypatch) -> None:
    monkeypatch.setenv("MPS_DS_STRICT", "1")
    before = state()
    with pytest.raises(RuntimeError, match=r"differs from the versions .* \(0\.19\.6, 0\.19\.8\)"):
        mps_ds.deepspeed.enable()
    assert not mps_ds.deepspeed.is_enabled()
    after = state()
    assert all(after[key] is before[key] for key in before if key != "ALL_OPS")


@pytest.mark.parametrize("off", ["", "0", "False"])
def test_strict_can_be_said_to_be_off(unknown_source, monkeypatch, off) -> None:
    monkeypatch.setenv("MPS_DS_STRICT", off)
    with pytest.warns(UserWarning, match="stays in place of"):
        mps_ds.deepspeed.enable()
    mps_ds.deepspeed.disable()


@pytest.mark.parametrize(
    "name", ["plain", "Class.method", "Class.decorated", "Class.last", "Other.method"]
)
def test_a_digest_is_that_of_the_whole_function(tmp_path, monkeypatch, name) -> None:
    """Each character of its source counts, and none of what stands around it."""
    from mps_ds.deepspeed import replacements

    def digest(source: str) -> str:
        (tmp_path / "some_module.py").write_text(source)
        monkeypatch.delitem(sys.modules, "some_module", raising=False)
        importlib.invalidate_caches()
        replacements._lines.cache_clear()
        replacements.digest.cache_clear()
        return replacements.digest("some_module", name)

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    node: ast.AST = ast.parse(SOURCE)
    for part in name.split("."):
        (node,) = [n for n in node.body if getattr(n, "name", None) == part]
    first, last = node.lineno - 1, node.end_lineno
    lines = SOURCE.splitlines(keepends=True)
    own = hashlib.sha256("".join(lines[first:last]).strip().encode()).hexdigest()
    assert digest(SOURCE) == own[:16]
    for i, line in enumerate(lines):
        if line.strip():
            changed = "".join([*lines[:i], line.rstrip() + "  # changed\n", *lines[i + 1 :]])
            assert (digest(changed) == own[:16]) is not (first <= i < last), line
    assert replacements.digest("some_module", "Class.not_there") == ""
    assert replacements.digest("no_such_module", name) == ""


def test_all_functions_of_this_version_are_known() -> None:
    from mps_ds.deepspeed import replacements

    unknown = [
        row.name
        for row in replacements.TABLE
        if replacements.digest(row.module, row.name) not in row.digests
    ]
    assert unknown == []


def test_a_known_version_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="mps_ds")
        mps_ds.deepspeed.enable()
    mps_ds.deepspeed.disable()


def lacks_a_part(undo) -> None:
    raise TypeError("no such part")


def test_a_version_that_lacks_what_is_replaced_is_named(monkeypatch) -> None:
    import deepspeed

    from mps_ds.deepspeed import bindings

    monkeypatch.setattr(bindings, "rebind", lacks_a_part)
    before = state()
    monkeypatch.setattr(deepspeed, "__version__", "0.16.9")
    expected = r"DeepSpeed 0\.16\.9 is too old or too new .* deepspeed==0\.19\.8 \(no such part\)"
    with pytest.raises(RuntimeError, match=expected):
        mps_ds.deepspeed.enable()
    monkeypatch.setattr(deepspeed, "__version__", "0.19.8")
    with pytest.raises(TypeError, match="no such part"):  # a fault of ours, and no other
        mps_ds.deepspeed.enable()
    after = state()
    assert all(after[key] is before[key] for key in before if key != "ALL_OPS")


def test_the_version_is_known_without_an_installation(monkeypatch) -> None:
    """A checkout on PYTHONPATH has no metadata."""
    import importlib.metadata

    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    mps_ds.deepspeed.enable()
    mps_ds.deepspeed.disable()


def test_an_optimizer_that_deepspeed_does_not_know(one_process) -> None:
    import deepspeed
    import torch

    model = torch.nn.Linear(2, 2)
    with pytest.raises(AssertionError) as error:
        deepspeed.initialize(
            model=model,
            optimizer=mps_ds.optim.FusedAdam(model.parameters()),
            config={"train_batch_size": 1, "zero_optimization": {"stage": 1}},
        )
    wanted = ["You are using an untested ZeRO Optimizer"]
    assert [row.words for row in explain(str(error.value))] == wanted


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is not None, reason="MPI is here")
def test_without_a_launcher(enabled) -> None:
    from deepspeed.comm.comm import mpi_discovery

    with pytest.raises(ModuleNotFoundError) as error:
        mpi_discovery(verbose=False)
    assert [row.words for row in explain(str(error.value))] == ["No module named 'mpi4py'"]


def test_another_accelerator_is_not_overruled(monkeypatch) -> None:
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    with pytest.raises(RuntimeError, match="DS_ACCELERATOR=cpu asks for another device") as e:
        mps_ds.deepspeed.enable()
    assert [row.words for row in explain(str(e.value))] == ["asks for another device"]


PROGRAM = """
import multiprocessing, os, sys
import mps_ds.softmps
def show():
    import mps_ds
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    from deepspeed.ops.adam import fused_adam
    print(type(get_accelerator()).__module__, fused_adam.FusedAdamBuilder.__module__, flush=True)
if __name__ == "__main__":
    import mps_ds.deepspeed
    mps_ds.deepspeed.enable()
    show()
    child = multiprocessing.get_context("spawn").Process(target=show)
    child.start()
    child.join()
    assert child.exitcode == 0
"""


def test_before_the_import_and_in_spawned_children(tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM if sys.platform != "darwin" else PROGRAM.replace(".softmps", ""))
    environment = {k: v for k, v in os.environ.items() if k != "MPS_DS_DEEPSPEED"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = in_a_process([program], environment)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("mps_ds")]
    assert said == ["mps_ds.deepspeed.accelerator mps_ds.deepspeed.builders"] * 2, done.stdout


@pytest.mark.skipif(
    not any((Path(p) / "mps_ds_deepspeed.pth").exists() for p in site.getsitepackages()),
    reason="the package is on PYTHONPATH, so its start-up hook is not installed",
)
def test_the_hook_enables_a_program_that_knows_nothing_of_this_package() -> None:
    program = (
        "import deepspeed; from deepspeed.accelerator import get_accelerator; "
        "print(type(get_accelerator()).__module__)"
    )
    environment = {**os.environ, "MPS_DS_DEEPSPEED": "1"}
    if sys.platform != "darwin":
        environment["MPS_DS_SOFT"] = "1"
    done = in_a_process(["-c", program], environment)
    assert done.stdout.split()[-1:] == ["mps_ds.deepspeed.accelerator"], done.stderr


THREADS = """
import sys, threading
import mps_ds.softmps
import mps_ds.deepspeed
def imports():
    import deepspeed
def enables():
    while "deepspeed" not in sys.modules:  # the other thread has begun
        pass
    mps_ds.deepspeed.enable()
threads = [threading.Thread(target=each, daemon=True) for each in (imports, enables)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(timeout=100)
print(*[thread.is_alive() for thread in threads], mps_ds.deepspeed.is_enabled())
"""


def test_an_import_with_the_hook_beside_enable_ends(tmp_path) -> None:
    """Each would wait for a lock of the other, did enable() import under its own."""
    program = THREADS if sys.platform != "darwin" else THREADS.replace("import mps_ds.softmps", "")
    environment = {**os.environ, "MPS_DS_DEEPSPEED": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = in_a_process(["-c", program], environment)
    assert done.stdout.splitlines()[-1:] == ["False False True"], done.stderr


def test_without_deepspeed_the_error_says_how_to_install_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    with pytest.raises(ImportError, match=r"DS_BUILD_OPS=0 python -m pip install"):
        mps_ds.deepspeed.enable()
