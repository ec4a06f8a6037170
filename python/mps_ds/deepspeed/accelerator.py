"""DeepSpeed's view of the mps device. Imported once deepspeed is: see _enable.py."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from deepspeed.accelerator.abstract_accelerator import DeepSpeedAccelerator

from .builders import builder_class
from .host_memory import HostMemory
from .memory import PeakMemory


class MPSAccelerator(HostMemory, DeepSpeedAccelerator):  # type: ignore[misc]  # deepspeed has no types
    """One device, one in-order queue, memory that the CPU shares.

    There is no second GPU in a Mac: every device index means mps:0, and processes that run side by
    side share it.
    """

    def __init__(self) -> None:
        self._name = "mps"
        self._communication_backend_name = "gloo"
        self._compile_backend = "inductor"
        self._peak = PeakMemory()

    # What it is.

    def is_available(self) -> bool:
        """Whether PyTorch has an mps device in this process."""
        return torch.backends.mps.is_available()

    def is_synchronized_device(self) -> bool:
        """Work runs in the order in which it was encoded, so no stream waits for another."""
        return True

    def use_host_timers(self) -> bool:
        """Time between two mps events can hang (pytorch#162872): time on the host."""
        return True

    def resolves_data_dependency(self) -> bool:
        """As is_synchronized_device."""
        return True

    def handles_memory_backpressure(self) -> bool:
        """As is_synchronized_device."""
        return True

    def device_name(self, device_index: int | None = None) -> str:
        """ "mps", or "mps:0" for any index."""
        return "mps" if device_index is None else "mps:0"

    def device(self, device_index: int | None = None) -> torch.device:
        """mps:0, whatever the index."""
        return torch.device("mps", 0)

    def set_device(self, device_index: int) -> None:
        """Nothing to choose."""

    def current_device(self) -> torch.device:
        """mps:0."""
        return torch.device("mps", 0)

    def current_device_name(self) -> str:
        """ "mps:0"."""
        return "mps:0"

    def device_count(self) -> int:
        """1 where there is an mps device."""
        return torch.mps.device_count()

    def synchronize(self, device_index: int | None = None) -> None:
        """Wait for all work that was encoded."""
        torch.mps.synchronize()
        self._peak.look()

    def on_accelerator(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is on mps."""
        return tensor.device.type == "mps"

    # Random numbers.

    def random(self) -> Any:
        """torch.random."""
        return torch.random

    def set_rng_state(self, new_state: torch.Tensor, device_index: int | None = None) -> None:
        """Set the generator's state, as get_rng_state gave it."""
        torch.mps.set_rng_state(new_state)

    def get_rng_state(self, device_index: int | None = None) -> torch.Tensor:
        """The generator's state, a CPU uint8 tensor."""
        return torch.mps.get_rng_state()

    def manual_seed(self, seed: int) -> None:
        """Seed the generator."""
        torch.mps.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """As manual_seed."""
        torch.mps.manual_seed(seed)

    def seed(self) -> None:
        """Seed the generator at random."""
        torch.mps.seed()

    def initial_seed(self, seed: int | None = None) -> int:
        """The seed in force."""
        return self.default_generator(0).initial_seed()

    def default_generator(self, device_index: int | None = None) -> torch.Generator:
        """The generator of mps:0."""
        return torch.mps._get_default_mps_generator()

    # Streams: one queue, in order.

    @property
    def Stream(self) -> None:
        """None: there are no streams."""
        return None

    def stream(self, stream: Any) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return nullcontext()

    def current_stream(self, device_index: int | None = None) -> None:
        """None."""
        return None

    def default_stream(self, device_index: int | None = None) -> None:
        """None."""
        return None

    @property
    def Event(self) -> type[torch.mps.Event]:
        """torch.mps.Event."""
        return torch.mps.Event

    # Memory, in bytes.

    def empty_cache(self) -> None:
        """Give memory that no tensor holds back to the system."""
        self._peak.look()
        torch.mps.empty_cache()

    def memory_allocated(self, device_index: int | None = None) -> int:
        """What tensors hold."""
        return self._peak.look()[0]

    def max_memory_allocated(self, device_index: int | None = None) -> int:
        """Peak of memory_allocated since the last reset, as far as anybody looked."""
        return self._peak.allocated()

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        """Let PyTorch hold that part (0 to 2; 0: no limit) of total_memory, and raise beyond it."""
        torch.mps.set_per_process_memory_fraction(fraction)

    def reset_max_memory_allocated(self, device_index: int | None = None) -> None:
        """Start a new peak."""
        self._peak.reset_allocated()

    def memory_cached(self, device_index: int | None = None) -> int:
        """As memory_reserved."""
        return self.memory_reserved()

    def max_memory_cached(self, device_index: int | None = None) -> int:
        """As max_memory_reserved."""
        return self.max_memory_reserved()

    def reset_max_memory_cached(self, device_index: int | None = None) -> None:
        """Start a new peak."""
        self._peak.reset_reserved()

    def memory_reserved(self, device_index: int | None = None) -> int:
        """What PyTorch holds from the system."""
        return self._peak.look()[1]

    def max_memory_reserved(self, device_index: int | None = None) -> int:
        """Peak of memory_reserved since the last reset, as far as anybody looked."""
        return self._peak.reserved()

    def memory_stats(self, device_index: int | None = None) -> dict[str, int]:
        """The figures above, under CUDA's names."""
        allocated, reserved = self._peak.look()
        return {
            "allocated_bytes.all.current": allocated,
            "allocated_bytes.all.peak": self._peak.allocated(),
            "reserved_bytes.all.current": reserved,
            "reserved_bytes.all.peak": self._peak.reserved(),
        }

    def reset_peak_memory_stats(self, device_index: int | None = None) -> None:
        """Start both peaks anew."""
        self._peak.reset_allocated()
        self._peak.reset_reserved()

    def total_memory(self, device_index: int | None = None) -> int:
        """What Metal recommends to use at most: the system and other programs share the memory."""
        return torch.mps.recommended_max_memory()

    def available_memory(self, device_index: int | None = None) -> int:
        """What is left of total_memory, and what PyTorch holds without a tensor in it."""
        return max(0, self.total_memory() - self.memory_allocated())

    # Types.

    def is_bf16_supported(self) -> bool:
        """From macOS 14 on."""
        return torch.backends.mps.is_macos_or_newer(14, 0)

    def is_fp16_supported(self) -> bool:
        """Always."""
        return True

    def is_fp64_supported(self) -> bool:
        """Never: DeepSpeed then takes norms in fp32."""
        return False

    def supported_dtypes(self) -> list[torch.dtype]:
        """Floating-point types to train in."""
        dtypes = [torch.float32, torch.float16]
        return [*dtypes, torch.bfloat16] if self.is_bf16_supported() else dtypes

    # Constructors. As in DeepSpeed's own class these are on the CPU: DeepSpeed makes flags with
    # them that it fills from the host, reduces through gloo and reads again.
    BFloat16Tensor = property(lambda self: torch.BFloat16Tensor)
    ByteTensor = property(lambda self: torch.ByteTensor)
    DoubleTensor = property(lambda self: torch.DoubleTensor)
    FloatTensor = property(lambda self: torch.FloatTensor)
    HalfTensor = property(lambda self: torch.HalfTensor)
    IntTensor = property(lambda self: torch.IntTensor)
    LongTensor = property(lambda self: torch.LongTensor)

    # Annotations for profilers, graphs, Triton: not on this device.

    def range_push(self, msg: str, domain: Any = None, category: Any = None) -> None:
        """Nothing."""

    def range_pop(self, domain: Any = None) -> None:
        """Nothing."""

    def lazy_call(self, callback: Callable[[], Any]) -> None:
        """Call it now: the device needs no start of its own."""
        callback()

    def is_triton_supported(self) -> bool:
        """No."""
        return False

    def create_graph(self) -> None:
        """None."""
        return None

    def capture_to_graph(
        self, graph: Any, pool: Any = None, stream: Any = None
    ) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return nullcontext()

    def replay_graph(self, graph: Any) -> None:
        """Nothing."""

    # Communication.

    def communication_backend_name(self) -> str:
        """ "gloo", on the tensors' own memory: mps_ds.distributed."""
        return self._communication_backend_name

    def export_envs(self) -> list[str]:
        """What the launcher hands to its processes."""
        return ["MPS_DS", "SOFTMETAL", "PYTORCH_MPS"]

    def visible_devices_envs(self) -> list[str]:
        """The launcher wants a name to write to; nothing reads it, all processes share the GPU."""
        return ["MPS_VISIBLE_DEVICES"]

    def set_visible_devices_envs(
        self, current_env: MutableMapping[str, str], local_accelerator_ids: list[int]
    ) -> None:
        """Write the ids where visible_devices_envs says."""
        for name in self.visible_devices_envs():
            current_env[name] = ",".join(map(str, local_accelerator_ids))

    # Operations.

    def op_builder_dir(self) -> str:
        """Where DeepSpeed lists builders from: its own folder for mps."""
        return "deepspeed.ops.op_builder.mps"

    def create_op_builder(self, class_name: str) -> Any:
        """A builder by the name of its class."""
        return self.get_op_builder(class_name)()

    def get_op_builder(self, class_name: str) -> type:
        """The class of a builder by its name: builders.py."""
        return builder_class(class_name)

    def build_extension(self) -> Any:
        """torch's BuildExtension."""
        from torch.utils.cpp_extension import BuildExtension

        return BuildExtension

    def get_compile_backend(self) -> str:
        """The backend for engine.compile()."""
        return self._compile_backend

    def set_compile_backend(self, backend: str) -> None:
        """Choose another of torch's backends; ValueError names them."""
        known = torch._dynamo.list_backends(exclude_tags=())
        if backend not in known:
            raise ValueError(f"{backend} is no backend of torch.compile; they are {known}")
        self._compile_backend = backend
