"""The checks, in the order in which they run. Imported only once torch is known to work."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mps_ds.selftest.checks import (
    dispatch,
    gradients,
    host,
    library,
    mixed,
    numerics,
    optimizer,
)
from mps_ds.selftest.report import Figure
from mps_ds.selftest.training import training_run


@dataclass(frozen=True)
class Check:
    """A check raises, or returns figures with their bounds. `long`: left out by --quick."""

    name: str
    title: str
    run: Callable[[], Sequence[Figure]]
    long: bool = False


CHECKS: tuple[Check, ...] = (
    Check("library", "the native library loads and registers its operators", library.loads),
    Check("kernels", "the Metal kernels compile", library.kernels_compile),
    Check("accuracy", "Adam and AdamW against float64", numerics.accuracy),
    Check("sizes", "sizes around every boundary, 0 included", numerics.sizes),
    Check("views", "views at odd offsets, and what lies around them", numerics.views),
    Check("strides", "transposed, channels_last and strided tensors", numerics.strides),
    Check("sixteen-bits", "float16 and bfloat16 params against float64", mixed.sixteen_bits),
    Check("norms", "norms of lists of tensors against float64", gradients.norms),
    Check("overflow", "one infinity or NaN anywhere is found", gradients.overflow),
    Check("unscaling", "gradients unscaled and checked in one pass", gradients.unscaling),
    Check("clipping", "clip_grad_norm_ against float64", gradients.clipping),
    Check("one-dispatch", "2,000 tensors in one dispatch", dispatch.one_dispatch),
    Check("no-sync", "a training step never waits for the GPU", dispatch.no_sync),
    Check("scaled-step", "FusedAdam.step(scaler=, max_norm=) against float64", mixed.scaled_step),
    Check("cpu-adam", "CPU Adam against float64", host.cpu_adam),
    Check("cpu-view", "the CPU and the GPU share memory", host.cpu_views),
    Check("step-counts", "each parameter counts its own steps", optimizer.step_counts),
    Check(
        "stale-backward", "a backward over overwritten parameters raises", optimizer.stale_backward
    ),
    Check("state-dict", "state_dict to and from torch.optim.AdamW", optimizer.state_dicts),
    Check("bad-input", "bad input raises and writes nothing", optimizer.bad_input),
    Check("training", "a small GPT, FusedAdam against torch.optim.AdamW", training_run, long=True),
)
