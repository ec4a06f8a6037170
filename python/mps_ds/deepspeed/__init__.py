"""DeepSpeed on Apple silicon: its engine and ZeRO optimizers on the operations of this package.

::

    import mps_ds.deepspeed

    mps_ds.deepspeed.enable()       # before the first engine; before or after `import deepspeed`
    engine, *_ = deepspeed.initialize(model=model, config=config)

docs/deepspeed.md goes from nothing to a trained model and says which mode is for whom.
"""

from __future__ import annotations

from ._enable import disable, enable, is_enabled

__all__ = ["disable", "enable", "is_enabled"]
