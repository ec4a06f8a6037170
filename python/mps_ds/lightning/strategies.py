"""Strategies on mps, by name: ``Trainer(accelerator="mps", strategy="mps_zero2")``.

Names, because Lightning refuses instances of parallel strategies on mps. Nothing here imports
deepspeed: a ZeRO strategy does, when a Trainer or a Fabric asks for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from ._family import Family, derive, warn_of_version
from ._replicas import ReplicasOnMPS
from ._zero import ZeroOfFabric, ZeroOfTrainer

ZERO: dict[str, tuple[str, dict[str, Any]]] = {
    "mps_zero1": ("ZeRO 1 on mps: optimizer states in shards", {"stage": 1}),
    "mps_zero2": ("ZeRO 2 on mps: gradients in shards too", {"stage": 2}),
    "mps_zero2_offload": (
        "ZeRO 2 on mps with the optimizer's step on the CPU",
        {"stage": 2, "offload_optimizer": True},
    ),
    "mps_zero3": ("ZeRO 3 on mps: params in shards too", {"stage": 3}),
}
REPLICAS = ("mps_replicas", "DistributedDataParallel on mps: a copy of the model in each process")
# Lightning takes a name with one of these in it for a strategy of its own, and refuses it on mps.
REFUSED_BY_LIGHTNING = ("deepspeed", "ddp", "dp")

_own: dict[str, tuple[str, dict[str, Any]]] = {}  # what register_strategy was given
_registries: list[tuple[Any, type]] = []  # registries of Lightning, and the ZeRO strategy for each


@cache
def build(family: Family) -> dict[str, type]:
    """The ZeRO strategies of one distribution of Lightning, by their public names."""
    of = family.of_fabric
    classes = {"FabricZeroStrategy": _derive_zero("FabricZeroStrategy", ZeroOfFabric, of)}
    if family.trainer is not None:
        classes["ZeroStrategy"] = _derive_zero("ZeroStrategy", ZeroOfTrainer, family.of_trainer)
    return classes


def _derive_zero(name: str, mixin: Any, of: Callable[[str], Any]) -> type:
    """Of `of`, which imports a submodule of the Trainer's or Fabric's package."""
    strategy: Any = derive(name, mixin, of("strategies.deepspeed").DeepSpeedStrategy)
    strategy.stock = of("strategies.deepspeed").DeepSpeedStrategy
    strategy.stock_precision = of("plugins.precision.deepspeed").DeepSpeedPrecision
    return strategy  # type: ignore[no-any-return]


def register(family: Family) -> None:
    """Register all names with a distribution's Trainer and Fabric. A second call does nothing."""
    warn_of_version(family)
    zero = build(family)
    _register(
        family.of_fabric("strategies").STRATEGY_REGISTRY,
        zero["FabricZeroStrategy"],
        derive("FabricReplicasStrategy", ReplicasOnMPS, family.of_fabric("strategies").DDPStrategy),
    )
    if family.trainer is not None:
        strategies = family.of_trainer("strategies")
        _register(
            strategies.StrategyRegistry,
            zero["ZeroStrategy"],
            derive("ReplicasStrategy", ReplicasOnMPS, strategies.DDPStrategy),
        )


def _register(registry: Any, zero: type, replicas: type) -> None:
    if any(registry is known for known, _ in _registries):
        return
    for name, (description, options) in {**ZERO, **_own}.items():
        registry.register(name, zero, description=description, **options)
    name, description = REPLICAS
    registry.register(name, replicas, description=description)
    _registries.append((registry, zero))


def register_strategy(name: str, description: str = "", **options: Any) -> None:
    """Register a ZeRO strategy of your own under a name, for Trainer and Fabric.

    Args:
        name: what to pass as `strategy=`. A name that you have registered before is replaced.
        description: for those who list the registry.
        options: arguments of Lightning's DeepSpeedStrategy, such as `stage`, `offload_optimizer`,
            `loss_scale`, or `config`, a DeepSpeed configuration.

    Raises:
        ValueError: a name that Lightning would not find or would refuse on mps, or that another
            strategy has; a stage that there is not. Nothing is registered then.
        TypeError: an option that DeepSpeedStrategy does not have.
    """
    _check_options(options)
    if not name:
        raise ValueError("name is empty")
    if name != name.lower():
        raise ValueError(f"name={name!r}: Lightning looks names up in lower case")
    for word in REFUSED_BY_LIGHTNING:
        if word in name:
            raise ValueError(f"name={name!r}: Lightning refuses names with {word!r} in it on mps")
    if name not in _own and any(name in registry for registry, _ in _registries):
        raise ValueError(f"name={name!r}: there is a strategy of that name already")
    _own[name] = (description, options)
    for registry, strategy in _registries:
        registry.register(name, strategy, description=description, override=True, **options)


def _check_options(options: dict[str, Any]) -> None:
    for _, strategy in _registries:
        known = inspect.signature(strategy.stock.__init__).parameters  # type: ignore[attr-defined]
        for option in options:
            if option not in known or option == "self":
                raise TypeError(
                    f"{option} is no option of DeepSpeedStrategy; it has {', '.join(known)}"
                )
    if options.get("stage", 0) not in range(4):
        raise ValueError(f"stage is {options['stage']}; accepted are 0 to 3")
