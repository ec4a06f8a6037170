"""Op builders: where DeepSpeed asks for a native operation, by the name of a builder's class.

Nothing is built: the operations are part of this package.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from deepspeed.ops.op_builder.builder import OpBuilder

# For operations that DeepSpeed has and this package has not: what serves instead.
_TORCHS_OWN = "torch's own operators (replace_with_kernel_inject=False)"
_NO_ENGINE_V2 = "the model as torch has it: DeepSpeed's second inference engine runs on CUDA alone"
_GLOO = "gloo, which is what runs"
_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
_LAYER = "torch.nn.TransformerEncoderLayer"
_NO_NVME = "offload to device cpu: there is no NVMe offload here"
_INSTEAD = {
    "AsyncIOBuilder": _NO_NVME,
    "CCLCommBuilder": _GLOO,
    "CPUAdagradBuilder": "torch.optim.Adagrad, or DeepSpeedCPUAdam",
    "CPULionBuilder": "DeepSpeedCPUAdam",
    "DeepCompileBuilder": 'torch.compile ("compile": {"deepcompile": false})',
    "EvoformerAttnBuilder": _ATTENTION,
    "FPQuantizerBuilder": "no floating-point quantisation",
    "FlashAttentionBuilder": _ATTENTION,
    "FusedLambBuilder": "FusedAdam, or a Lamb written with torch (zero_allow_untested_optimizer)",
    "FusedLionBuilder": "FusedAdam, or a Lion written with torch (zero_allow_untested_optimizer)",
    "GDSBuilder": _NO_NVME,
    "InferenceBuilder": _TORCHS_OWN,
    "InferenceCoreBuilder": _NO_ENGINE_V2,
    "InferenceCutlassBuilder": _NO_ENGINE_V2,
    "NotImplementedBuilder": "FusedAdam and DeepSpeedCPUAdam, the native operations that are here",
    "PackbitsBuilder": "FusedAdam: there are no 1-bit optimizers here",
    "PinMemoryBuilder": "host memory as it is: the GPU reaches all of it, so none has to be pinned",
    "QuantizerBuilder": "no quantised communication (zero_quantized_* false)",
    "RaggedOpsBuilder": _NO_ENGINE_V2,
    "RaggedUtilsBuilder": _NO_ENGINE_V2,
    "RandomLTDBuilder": 'all tokens in every layer ("random_ltd": {"enabled": false})',
    "ShareMemCommBuilder": _GLOO,
    "SparseAttnBuilder": _ATTENTION,
    "SpatialInferenceBuilder": _TORCHS_OWN,
    "StochasticTransformerBuilder": _LAYER,
    "TransformerBuilder": _LAYER,
    "UtilsBuilder": "torch._utils._flatten_dense_tensors, which DeepSpeed falls back to",
}


class _MpsBuilder(OpBuilder):  # type: ignore[misc]  # deepspeed has no types
    """What the builders below share: there is nothing to compile."""

    NAME: str

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name=self.NAME if name is None else name)

    def absolute_name(self) -> str:
        """DeepSpeed's name of the operation."""
        return f"deepspeed.ops.adam.{self.NAME}_op"

    def sources(self) -> list[str]:
        """None."""
        return []

    def is_compatible(self, verbose: bool = False) -> bool:
        """Whether the operation can run here."""
        return torch.backends.mps.is_available()


class FusedAdamBuilder(_MpsBuilder):
    """multi_tensor_adam on mps."""

    BUILD_VAR = "DS_BUILD_FUSED_ADAM"
    NAME = "fused_adam"

    def load(self, verbose: bool = True) -> Any:
        """The module whose multi_tensor_adam DeepSpeed's FusedAdam calls."""
        from mps_ds import ops

        return ops


class CPUAdamBuilder(_MpsBuilder):
    """create_adam, adam_update, adam_rollback and destroy_adam on the CPU."""

    BUILD_VAR = "DS_BUILD_CPU_ADAM"
    NAME = "cpu_adam"

    def load(self, verbose: bool = True) -> Any:
        """The module that DeepSpeedCPUAdam calls."""
        from mps_ds.ops import cpu_adam

        return cpu_adam


class MissingOpBuilder(_MpsBuilder):
    """The builder of an operation that is not here. `builder_class` makes one class for each."""

    BUILD_VAR = "DS_BUILD_NOT_IMPLEMENTED"
    NAME = "deepspeed_not_implemented"  # DeepSpeed knows it as incompatible, so its tests skip
    op = "?"

    def absolute_name(self) -> str:
        """DeepSpeed's name of such an operation."""
        return f"deepspeed.ops.comm.{self.NAME}_op"

    def is_compatible(self, verbose: bool = False) -> bool:
        """No."""
        return False

    def load(self, verbose: bool = True) -> Any:
        """Raise: ValueError, as DeepSpeed's builder for mps does."""
        message = f"mps_ds: DeepSpeed asks for {self.op}, which has no implementation for mps"
        instead = _INSTEAD.get(self.op)
        raise ValueError(f"{message}. Use {instead}." if instead else f"{message}.")


@functools.cache
def builder_class(name: str) -> type[_MpsBuilder]:
    """The class that stands for DeepSpeed's builder of that name."""
    known: dict[str, type[_MpsBuilder]] = {
        "FusedAdamBuilder": FusedAdamBuilder,
        "CPUAdamBuilder": CPUAdamBuilder,
    }
    missing = {"op": name, "__module__": __name__, "__doc__": f"{name}: not here."}
    return known.get(name) or type(name, (MissingOpBuilder,), missing)
