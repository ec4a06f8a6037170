"""The two distributions of Lightning: `lightning`, and `pytorch_lightning` + `lightning_fabric`.

They hold the same code under different names, so their classes are distinct: a plugin made of the
bases of one is not a plugin for the other.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

NAMES = ("lightning", "pytorch_lightning")
TRIED = "2.6"

_INSTALL = (
    f"mps_ds.lightning needs Lightning {TRIED}, and {{what}}. Install it with: "
    "pip install 'mps_ds[lightning]'"
)


@dataclass(frozen=True)
class Family:
    """One distribution.

    Attributes:
        name: "lightning" or "pytorch_lightning".
        trainer: name of the package of the Trainer, or None where only Fabric is installed.
        fabric: name of the package of Fabric.
    """

    name: str
    trainer: str | None
    fabric: str

    def of_trainer(self, submodule: str) -> ModuleType:
        """Import a submodule of the Trainer's package."""
        assert self.trainer is not None
        return importlib.import_module(f"{self.trainer}.{submodule}")

    def of_fabric(self, submodule: str) -> ModuleType:
        """Import a submodule of Fabric's package."""
        return importlib.import_module(f"{self.fabric}.{submodule}")

    def roots(self) -> tuple[str, ...]:
        """The top-level packages that it consists of."""
        return tuple({n.partition(".")[0] for n in (self.trainer, self.fabric) if n is not None})

    def version(self) -> str:
        """Of the package of Fabric, which both distributions have."""
        return str(importlib.import_module(self.fabric).__version__)

    def is_imported(self) -> bool:
        """Whether the process has imported one of its packages."""
        return self.fabric in sys.modules or self.trainer in sys.modules


@cache
def installed() -> tuple[Family, ...]:
    """The distributions on this machine, found without importing them."""
    found = []
    if _has("lightning"):
        found.append(Family("lightning", "lightning.pytorch", "lightning.fabric"))
    if _has("lightning_fabric"):
        trainer = "pytorch_lightning" if _has("pytorch_lightning") else None
        found.append(Family("pytorch_lightning", trainer, "lightning_fabric"))
    return tuple(found)


def get(name: str) -> Family:
    """The distribution of that name.

    Raises:
        ValueError: the name is neither "lightning" nor "pytorch_lightning".
        ImportError: it is not installed.
    """
    if name not in NAMES:
        raise ValueError(f"name is {name!r}; accepted are {NAMES[0]!r} and {NAMES[1]!r}")
    for family in installed():
        if family.name == name:
            return family
    raise ImportError(_INSTALL.format(what=f"{name} is not installed"))


def default() -> Family:
    """`lightning` where it is installed, else `pytorch_lightning`.

    Raises:
        ImportError: neither is installed.
    """
    families = installed()
    if not families:
        raise ImportError(_INSTALL.format(what=f"neither {NAMES[0]} nor {NAMES[1]} is installed"))
    return families[0]


@cache
def warn_of_version(family: Family) -> None:
    """Say once that this Lightning has not been tried: plugins rely on some of its insides."""
    version = family.version()
    if version.split(".")[:2] != TRIED.split("."):
        warnings.warn(
            f"mps_ds.lightning was written for Lightning {TRIED}; this is {family.name} {version}. "
            f"If something fails, install the other: pip install '{family.name}=={TRIED}.*'",
            stacklevel=2,
        )


def derive(name: str, mixin: type, base: Any) -> Any:
    """A class of a mixin of ours and a class of a distribution, where pickles find it.

    That is `mps_ds.lightning`, or `mps_ds.lightning.pytorch_lightning` beside `lightning`. Its
    qualified name is the plain name: Lightning's checkpoints keep the state of a precision
    plugin under it, so that ours and Lightning's own read each other's.
    """
    root = base.__module__.partition(".")[0]
    is_default = (root == "lightning") == (default().name == "lightning")
    module = __package__ if is_default else f"{__package__}.pytorch_lightning"
    body = {"__module__": module, "__qualname__": name, "__doc__": mixin.__doc__}
    return type(name, (mixin, base), body)


def _has(package: str) -> bool:
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None  # not just a folder of that name
