"""Lightning's DeepSpeed strategies on mps.

Lightning has two, for Trainer and for Fabric, in each of its distributions. :class:`ZeroOnMPS` goes
before one of them, and lifts or changes what they assume of CUDA.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import torch

from ._one_device import OneDevice, need_mps

DEEPSPEED_BUCKET = 500_000_000  # DeepSpeed's reduce_bucket_size where a config has none


class ZeroOnMPS(OneDevice):
    """Mixed in before a DeepSpeedStrategy of Lightning."""

    stock: ClassVar[Any]  # the DeepSpeedStrategy it is mixed in before
    stock_precision: ClassVar[Any]  # the DeepSpeedPrecision of the same distribution

    # Of DeepSpeedStrategy.
    config: Any
    model: Any

    _without_step: Any = None  # the engine that went backward last, until it steps

    def __init__(
        self, *args: Any, overlap_comm: bool = False, config: Any = None, **options: Any
    ) -> None:
        """As the DeepSpeedStrategy, after :func:`mps_ds.deepspeed.enable`.

        Args:
            args: of DeepSpeedStrategy.
            overlap_comm: off, other than in Lightning: a Mac has one queue, in order, so there is
                nothing to overlap with, and DeepSpeed would keep a second buffer of gradients.
            config: of DeepSpeedStrategy: a DeepSpeed configuration, or the path of one.
            options: of DeepSpeedStrategy.

        Raises:
            ImportError: deepspeed is not installed.
            RuntimeError: there is no mps device, or a DeepSpeed engine was made before.
        """
        need_mps(type(self).__name__)
        from mps_ds import deepspeed

        deepspeed.enable()
        # Lightning writes into it, and a registered one is for many Trainers.
        config = copy.deepcopy(config) if isinstance(config, dict) else config
        super().__init__(  # type: ignore[call-arg]
            *args, overlap_comm=overlap_comm, config=config, **options
        )

    def setup_environment(self) -> None:
        """Check the device and the plugin, and join the processes.

        Raises:
            RuntimeError: as check_device_and_processes, or there is a precision plugin that does
                not know DeepSpeed.
        """
        self.check_device_and_processes()
        precision = self.precision_in_use()
        if not isinstance(precision, self.stock_precision):
            raise RuntimeError(
                f"{type(self).__name__} does not work with the plugin {type(precision).__name__}: "
                "DeepSpeed scales, clips and steps itself. Leave the plugin out and pass "
                "precision='32-true', '16-mixed', 'bf16-mixed', '16-true' or 'bf16-true'"
            )
        # The stock one refuses all but CUDA.
        super(self.stock, self).setup_environment()  # type: ignore[misc]

    def precision_in_use(self) -> Any:
        """The precision plugin."""
        raise NotImplementedError

    def check_stepped(self, engine: Any) -> None:
        """Refuse a second backward pass without a step, where DeepSpeed loses gradients.

        Raises:
            RuntimeError: ZeRO 1 or 2 would step with gradients that are not the sum of both.
        """
        partitions_each_time = engine.zero_optimization_stage() in (1, 2)
        if (
            self._without_step is engine
            and partitions_each_time
            and engine.is_gradient_accumulation_boundary()
        ):
            raise RuntimeError(
                "backward() came twice without optimizer.step() in between, and ZeRO 1 and 2 would "
                "train on wrong gradients. Call step() after each backward(). To accumulate, use "
                "accumulate_grad_batches (Trainer, automatic optimization), or add losses up "
                "before backward(), or take stage 3 or no ZeRO"
            )
        self._without_step = engine

    def optimizer_step(self, *args: Any, **more: Any) -> Any:
        """Let DeepSpeed step, or count a batch that it accumulates."""
        result = super().optimizer_step(*args, **more)  # type: ignore[misc]
        self._without_step = None
        return result

    def cap_bucket(self, model: torch.nn.Module) -> None:
        """Let the buffer that gradients are reduced in be no larger than all gradients.

        DeepSpeed allocates it in full for each backward pass: 800 MB as Lightning sets it.
        """
        zero = self.config.get("zero_optimization")
        elements = sum(
            getattr(param, "ds_numel", param.numel())  # ZeRO 3 leaves no elements in the param
            for param in model.parameters()
            if param.requires_grad
        )
        if zero and elements:
            given = int(zero.get("reduce_bucket_size", DEEPSPEED_BUCKET))
            zero["reduce_bucket_size"] = min(given, elements)


class ZeroOfTrainer(ZeroOnMPS):
    """DeepSpeed's ZeRO on mps for Trainer: Lightning's DeepSpeedStrategy, and its arguments."""

    precision_plugin: Any

    def precision_in_use(self) -> Any:
        """The precision plugin."""
        return self.precision_plugin

    def _setup_model(self, model: torch.nn.Module) -> torch.nn.Module:
        # An earlier run has moved the module to the CPU. DeepSpeed brings a module back, but not
        # the params that ZeRO 3 keeps whole.
        return model.to(self.root_device)

    def _setup_model_and_optimizer(self, model: torch.nn.Module, *args: Any, **more: Any) -> Any:
        self.cap_bucket(model)
        return super()._setup_model_and_optimizer(model, *args, **more)  # type: ignore[misc]

    def backward(self, closure_loss: torch.Tensor, optimizer: Any, *args: Any, **more: Any) -> Any:
        """Let DeepSpeed go backward, without a division by `accumulate_grad_batches`.

        Lightning has divided the loss by it already (2.6), and both together train on gradients
        that are too small by that factor: Adam hides it, clipping does not.
        """
        self.check_stepped(self.model)
        more.setdefault("scale_wrt_gas", False)
        return super().backward(closure_loss, optimizer, *args, **more)  # type: ignore[misc]

    def teardown(self) -> None:
        """Take DeepSpeed's hooks from the module, which Lightning leaves there.

        With them the engine stays in memory, and a second fit() of the same module calls its hooks
        beside those of the new engine, which ends in an AttributeError within DeepSpeed.
        """
        import deepspeed

        engine = self.model
        if isinstance(engine, deepspeed.DeepSpeedEngine):
            engine.destroy()
            self._without_step = None
            for hook in (engine.module_forward_pre_hook, engine.module_forward_post_hook):
                if hook is not None:
                    hook.remove()
        super().teardown()  # type: ignore[misc]


class ZeroOfFabric(ZeroOnMPS):
    """DeepSpeed's ZeRO on mps for Fabric: Lightning's DeepSpeedStrategy, and its arguments."""

    precision: Any

    def precision_in_use(self) -> Any:
        """The precision plugin."""
        return self.precision

    def _initialize_engine(self, model: torch.nn.Module, *args: Any, **more: Any) -> Any:
        self.cap_bucket(model)
        # DeepSpeed clips to 1.0 where nothing is said; Fabric, and Lightning's Trainer, do not.
        self.config.setdefault("gradient_clipping", 0.0)
        return super()._initialize_engine(model, *args, **more)  # type: ignore[misc]

    def backward(self, tensor: torch.Tensor, module: Any, *args: Any, **more: Any) -> Any:
        """Let DeepSpeed go backward; `module` is its engine."""
        self.check_stepped(module)
        return super().backward(tensor, module, *args, **more)  # type: ignore[misc]
