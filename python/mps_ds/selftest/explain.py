"""`--explain MESSAGE`: what an error or a warning that somebody met means, and what to do.

The table is that of docs/troubleshooting.md; a test compares them, and others hold each row to a
message as it is really raised.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """One row: words of a message, its cause, what to do."""

    words: str
    """As they stand in the message; `...` for what differs from case to case."""
    cause: str
    remedy: str

    def matches(self, text: str) -> bool:
        """Whether `text`, in one line or several, has these words, or is two or more of them."""
        given = text.split()
        if len(given) > 1 and " ".join(given).lower() in self.words.lower():
            return True
        pattern = ".*?".join(map(re.escape, self.words.split("...")))
        return re.search(pattern, " ".join(given), re.IGNORECASE) is not None


MESSAGES = (
    # Installing and importing.
    Message(
        "mps_ds needs Python 3.10",
        "the Python is too old",
        "make an environment from Python 3.10 to 3.14 and install into it: "
        "`python3.12 -m venv .venv && .venv/bin/python -m pip install .`",
    ),
    Message(
        "needs Apple Silicon and a native arm64 Python",
        "an Intel build of Python on Apple silicon runs under Rosetta, where there is no MPS; or "
        "the Mac has an Intel processor",
        "`brew install python@3.12` from a Homebrew below /opt/homebrew, or Miniforge for arm64, "
        "and make the environment anew; a Mac with Intel cannot run the kernels",
    ),
    Message(
        "mps_ds needs macOS 14",
        "Metal 3.1, which bfloat16 needs, came with macOS 14",
        "update macOS in System Settings > General > Software Update",
    ),
    Message(
        "mps_ds needs PyTorch 2.10",
        "PyTorch is too old or not installed for this Python",
        "`python -m pip install 'torch>=2.10'`",
    ),
    Message(
        "installed without its native library",
        "the package was copied, not built",
        "`python -m pip install .` in the source folder",
    ),
    Message(
        "mps_ds: its native library does not load",
        "it was built for another machine, or a library that it needs is absent",
        "`python -m mps_ds.selftest` names it; build anew in the source folder with "
        "`python -m pip install --force-reinstall --no-deps .`",
    ),
    Message(
        "this build of mps_ds has no Metal operations",
        "the package was built with MPS_DS_BUILD=cpu",
        "in the source folder: `env -u MPS_DS_BUILD python -m pip install --force-reinstall "
        "--no-deps .`",
    ),
    # The device.
    Message(
        "PyTorch is not linked with support for mps devices",
        "there is no Mac here, and nobody asked for the software device",
        "on Linux set `MPS_DS_SOFT=1` for the process; everything runs on the CPU then, to test, "
        "not to be fast",
    ),
    Message(
        "The software MPS device was built for PyTorch",
        "the software device runs with exactly the PyTorch that it was built with",
        "install that PyTorch, or build for this one as the message says",
    ),
    Message(
        "out of memory",
        "PyTorch's limit is reached: 1.7 times the memory that Metal recommends, or what "
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO or torch.mps.set_per_process_memory_fraction set",
        "smaller batches or 16-bit types; free what is not used and call "
        "`torch.mps.empty_cache()`. The step that failed changed nothing: call it again after "
        "that. A ratio of 0.0 takes the limit away, and may make the Mac swap or stop",
    ),
    Message(
        "the kernels need Metal 3",
        "a GPU of a virtual machine, which lacks what every Mac with Apple silicon has",
        "run on the Mac itself, not in a guest",
    ),
    Message(
        "the GPU failed in a command buffer",
        "a kernel of mps_ds, of PyTorch or of yours read or wrote where it must not, memory "
        "ran out, or it took too long; PyTorch itself does not report that",
        "go back to a checkpoint: what was to be written is undefined. The message has "
        "Metal's reason; run with `MTL_DEBUG_LAYER=1 MTL_SHADER_VALIDATION=1` to find the "
        "kernel",
    ),
    Message(
        "MPS was initialised before fork",
        "a process that was forked uses MPS, as a worker of a data loader does whose data set "
        "makes mps tensors; on a Mac it hangs or is killed instead",
        "let workers make CPU tensors and move them in the training loop, or start them with "
        '`multiprocessing_context="spawn"`',
    ),
    Message(
        "is not currently implemented for the MPS device",
        "PyTorch has no MPS kernel for an operator of the model",
        "`PYTORCH_ENABLE_MPS_FALLBACK=1` runs it on the CPU, which waits for the GPU and copies "
        "each time; better another operator",
    ),
    # Lightning.
    Message(
        "can not run on your system since the accelerator is not available",
        "Lightning finds no MPS device: DISABLE_MPS=1 is set, the Python runs under Rosetta, "
        "`platform.processor()` is not arm, or PyTorch has no MPS",
        "`python -m mps_ds.selftest` says which",
    ),
    Message(
        "No supported gpu backend found",
        'accelerator="gpu", and Lightning finds neither MPS nor CUDA; see the row above',
        "`python -m mps_ds.selftest` says which",
    ),
    Message(
        "You requested gpu: ... But your machine only has: [0]",
        "a Mac has one MPS device, whatever its number of GPU cores",
        '`devices=1`, or "auto"; several processes on it only through '
        "`mps_ds.lightning`'s strategies, started by torchrun",
    ),
    Message(
        "value is not a valid input using mps accelerator",
        "no device was asked for: devices is 0 or empty",
        '`devices=1`, or `accelerator="cpu"`',
    ),
    Message(
        "strategies from the DDP family are not supported on the MPS accelerator",
        "Lightning refuses DDP and its own DeepSpeed strategies on MPS",
        'leave `strategy` out; for ZeRO `strategy="mps_zero2"` of mps_ds.lightning',
    ),
    Message(
        "GPU available but not used",
        "the Trainer was told to use the CPU, and there is an MPS device",
        '`Trainer(accelerator="mps")`, or "auto", which takes TPU, MPS, CUDA, CPU in this order; '
        "only a warning",
    ),
    Message(
        "Fetching MPS device stats requires",
        "Lightning's DeviceStatsMonitor needs psutil",
        "`python -m pip install psutil`",
    ),
    Message(
        "mps_ds.lightning needs Lightning 2.6",
        "Lightning is not installed, or the package that was asked for is not",
        "`python -m pip install 'mps_ds[lightning]'`",
    ),
    Message(
        "mps_ds.lightning was written for Lightning 2.6",
        "another Lightning, which has not been tried; only a warning",
        "if something fails, install the version that the message names",
    ),
    Message(
        "Found invalid type for plugin <mps_ds.lightning",
        "`lightning` and `pytorch_lightning` have distinct classes, and the plugin is made of "
        "those of the other",
        '`mps_ds.lightning.family("pytorch_lightning")` has the plugins of that package',
    ),
    Message(
        "Received both ...plugins=<mps_ds.lightning",
        "the plugin says the precision already",
        "leave out `precision=`",
    ),
    Message(
        "within a step, but the optimizer is",
        "bounds of a Fabric plugin are for FusedAdam",
        "clip with `fabric.clip_gradients`, or use `mps_ds.optim.FusedAdam`",
    ),
    Message(
        "does not allow for gradient clipping because it performs unscaling",
        "FusedAdam was made with `step_supports_amp_scaling=True`, with which Lightning "
        "refuses to clip",
        "leave that argument out",
    ),
    Message(
        "You selected an invalid strategy name: ...strategy='mps_",
        "the strategies of this package are registered when `mps_ds.lightning` is imported",
        "`import mps_ds.lightning`, after `pytorch_lightning` if you use that",
    ),
    Message(
        "needs an mps device, and this process has none",
        "a strategy or callback for mps, where PyTorch has no MPS device",
        "`python -m mps_ds.selftest` says why; on Linux set `MPS_DS_SOFT=1`",
    ),
    Message(
        "is for accelerator='mps', and",
        "the Trainer or Fabric chose, or was told, another accelerator",
        '`accelerator="mps"`',
    ),
    Message(
        "does not work with the plugin",
        "DeepSpeed scales, clips and steps itself, so ZeRO strategies take no precision plugin "
        "of this package",
        "pass `precision=` instead of the plugin",
    ),
    Message(
        "in the environment, but Lightning sees",
        "processes were started by a launcher that Lightning does not know",
        "`python -m torch.distributed.run`",
    ),
    Message(
        "backward() came twice without optimizer.step()",
        "ZeRO 1 and 2 would step with gradients that are not the sum of both",
        "`accumulate_grad_batches` of the Trainer; or add losses up before one backward(); or "
        "stage 3, or no ZeRO",
    ),
    Message(
        "DeviceStats needs psutil",
        "the callback reads CPU and memory percent from psutil",
        "`python -m pip install psutil`",
    ),
    # DeepSpeed.
    Message(
        "mps_ds.deepspeed: there is no mps device",
        "enable() was called where PyTorch has no MPS device; the import of deepspeed calls it "
        "where MPS_DS_DEEPSPEED is set, which child processes inherit",
        "`python -m mps_ds.selftest` says why; on Linux set `MPS_DS_SOFT=1`; for DeepSpeed without "
        "this package `unset MPS_DS_DEEPSPEED`",
    ),
    Message(
        "is too old or too new for this package",
        "mps_ds.deepspeed knows DeepSpeed 0.19.6 and 0.19.8, and could not start with this one",
        "`DS_BUILD_OPS=0 python -m pip install 'deepspeed==0.19.8'`",
    ),
    Message(
        "differs from the versions this was written for",
        "another DeepSpeed than 0.19.6 and 0.19.8: the functions named keep DeepSpeed's own source",
        "`DS_BUILD_OPS=0 python -m pip install 'deepspeed==0.19.8'`; until then do not train in "
        "several processes if `_needs_cpu_staging` is among them",
    ),
    Message(
        "DeepSpeed is not installed",
        "the layer for DeepSpeed, or a ZeRO strategy, needs it",
        "`DS_BUILD_OPS=0 python -m pip install 'mps_ds[deepspeed]'`",
    ),
    Message(
        "a DeepSpeed engine exists already",
        "an engine holds the parts of DeepSpeed that enable() would replace, or disable() take "
        "away",
        "call `mps_ds.deepspeed.enable()` before the first engine, best on the first line",
    ),
    Message(
        "asks for another device",
        "DS_ACCELERATOR names another device than mps",
        "`unset DS_ACCELERATOR`, or set it to mps",
    ),
    Message(
        "You are using an untested ZeRO Optimizer",
        "DeepSpeed knows the optimizers that it allows with ZeRO by class",
        'let the configuration make it (`"type": "AdamW"`), or pass DeepSpeed\'s FusedAdam or '
        'DeepSpeedCPUAdam, or set `"zero_allow_untested_optimizer": true` for others, '
        "`mps_ds.optim.FusedAdam` included",
    ),
    Message(
        "which has no implementation for mps",
        "a feature of DeepSpeed needs another operation",
        "the message says what to use instead",
    ),
    Message(
        "No module named 'mpi4py'",
        "DeepSpeed was started without a launcher and looks for MPI",
        "`python -m torch.distributed.run --nproc-per-node 1 train.py`, or set RANK, "
        "LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
    ),
)


def explain(text: str) -> list[Message]:
    """The rows whose words are in `text`, or have it in them."""
    return [message for message in MESSAGES if message.matches(text)]
