"""Lightning on Apple silicon: precision plugins, ZeRO strategies by name, figures of the device.

::

    import lightning
    import mps_ds.lightning
    from mps_ds.optim import FusedAdam      # what configure_optimizers returns

    trainer = lightning.Trainer(
        accelerator="mps", gradient_clip_val=1.0,
        plugins=[mps_ds.lightning.MixedPrecision("16-mixed")],
    )

Needs `lightning`, or `pytorch_lightning` with `lightning_fabric`. The two hold distinct classes:
names of this module are made of those of `lightning` where it is installed, and
`family("pytorch_lightning")` has the others. Names that begin with Fabric are for Fabric.

Importing this module registers the strategies with each of the two that the process has imported
already, or with the one that the names here are made of; `family()` registers with its own, too.
docs/lightning.md has examples.
"""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass
from functools import cache
from typing import Any

from . import _fabric_precision, _family, device_stats, precision, strategies
from .strategies import register_strategy

__all__ = [
    "DeviceStats",
    "FabricHalfPrecision",
    "FabricMixedPrecision",
    "FabricPrecision",
    "FabricZeroStrategy",
    "HalfPrecision",
    "MixedPrecision",
    "Names",
    "Precision",
    "ZeroStrategy",
    "family",
    "register_strategy",
]


@dataclass(frozen=True)
class Names:
    """The classes made of one of Lightning's distributions.

    Those for the Trainer are None where only Fabric is installed.

    Attributes:
        name: "lightning" or "pytorch_lightning".
    """

    name: str
    FabricPrecision: Any
    FabricHalfPrecision: Any
    FabricMixedPrecision: Any
    FabricZeroStrategy: Any
    Precision: Any = None
    HalfPrecision: Any = None
    MixedPrecision: Any = None
    ZeroStrategy: Any = None
    DeviceStats: Any = None


@cache
def family(name: str) -> Names:
    """The classes made of `lightning`'s or of `pytorch_lightning`'s.

    Raises:
        ValueError: the name is neither "lightning" nor "pytorch_lightning".
        ImportError: it is not installed.
    """
    found = _family.get(name)
    strategies.register(found)
    parts = [_fabric_precision.build(found), strategies.build(found), device_stats.build(found)]
    if found.trainer is not None:
        parts += [precision.build(found)]
    return Names(name, **ChainMap(*parts))


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(family(_family.default().name), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _register() -> None:
    default = _family.default()
    imported = [f for f in _family.installed() if f.is_imported()]
    for found in imported or [default]:
        strategies.register(found)


_register()
