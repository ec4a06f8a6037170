"""Misuse that the device refuses at the call: each is a trap or garbage on a Mac."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mps_ds import softmetal as metal


@pytest.fixture
def refused() -> Callable[..., Any]:
    """refused("text", call, ...): the call raises ValidationError with that text."""

    def check(text: str, call: Callable[..., Any], *arguments: Any) -> None:
        with pytest.raises(metal.ValidationError) as error:
            call(*arguments)
        assert text in str(error.value)

    return check


# ---- buffers ------------------------------------------------------------------------------------


def test_zero_length_buffer(host: Any, refused: Any) -> None:
    refused("length must be greater than 0", host.device.new_buffer_with_length, 0)
    refused("length must be greater than 0", host.device.new_buffer_with_bytes, b"")


def test_memoryless_storage(host: Any, refused: Any) -> None:
    refused("storage mode 3 is not for buffers", host.device.new_buffer_with_length, 16, 3 << 4)


def test_no_copy_needs_whole_pages(host: Any, refused: Any) -> None:
    import mmap

    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    view = memoryview(pages)
    method = host.device.new_buffer_with_bytes_no_copy
    refused("64 bytes behind a page", method, view[64 : 64 + mmap.PAGESIZE])
    refused("100 bytes", method, view[:100])
    refused("cannot be private", method, view[: mmap.PAGESIZE], metal.STORAGE_PRIVATE)


def test_did_modify_range(host: Any, refused: Any) -> None:
    shared, managed = host.floats(4, "s"), host.buffer(b"x" * 16, "m", metal.STORAGE_MANAGED)
    managed.did_modify_range(0, 16)
    refused("buffer 's' has another storage mode", shared.did_modify_range, 0, 4)
    refused("{8, 9} is beyond the 16 bytes of buffer 'm'", managed.did_modify_range, 8, 9)


# ---- libraries and pipelines --------------------------------------------------------------------


def test_nil_compile_options(host: Any, refused: Any) -> None:
    source = "kernel void k() {}"
    refused(
        "options are nil, which means fast math", host.device.new_library_with_source, source, None
    )
    with metal.changed_settings(strict=False):
        host.device.new_library_with_source(source, None)


def test_nil_function_and_descriptor(host: Any, refused: Any) -> None:
    device = host.device
    refused("WithFunction:nil", device.new_compute_pipeline_state_with_function, None)
    refused("the descriptor is nil", device.new_compute_pipeline_state_with_descriptor, None)
    empty = metal.ComputePipelineDescriptor()
    refused("computeFunction is nil", device.new_compute_pipeline_state_with_descriptor, empty)


def test_descriptor_with_too_many_threads(host: Any, refused: Any) -> None:
    descriptor = metal.ComputePipelineDescriptor()
    descriptor.set_compute_function(host.library.new_function_with_name("add_one"))
    descriptor.max_total_threads_per_threadgroup = 2048
    refused(
        "2048 is more than 1024", host.device.new_compute_pipeline_state_with_descriptor, descriptor
    )


def test_function_constant_of_a_type_that_is_none(refused: Any) -> None:
    values = metal.FunctionConstantValues()
    refused(
        "cannot be a function constant",
        values.set_constant_value,
        b"1234",
        metal.DataType.STRUCT,
        0,
    )


# ---- life of a command buffer and its encoders --------------------------------------------------


def test_encoder_left_open_at_commit(host: Any, refused: Any) -> None:
    e = host.encoder("add_one").bind(host.floats(1)).dispatch()
    e.encoder.label, e.commands.label = "step", "training"
    text = (
        "commit: compute encoder 'step' (kernel 'add_one') of command buffer 'training' is still "
        "open (endEncoding is missing)"
    )
    refused(text, e.commands.commit)
    e.finish()  # it can still be ended


def test_encoder_released_while_open(host: Any, refused: Any) -> None:
    commands = host.queue.command_buffer()
    commands.compute_command_encoder()
    refused(
        "a compute encoder of this command buffer was released without endEncoding", commands.commit
    )


def test_second_encoder_while_one_is_open(host: Any, refused: Any) -> None:
    e = host.encoder("add_one")
    refused(
        "computeCommandEncoder: a compute encoder (kernel 'add_one')",
        e.commands.compute_command_encoder,
    )
    e.abandon()
    e.commands.compute_command_encoder().end_encoding()


def test_every_method_after_endEncoding(host: Any, refused: Any) -> None:
    x = host.floats(1)
    e = host.encoder("add_one").bind(x)
    enc = e.encoder
    enc.end_encoding()
    calls: list[tuple[Any, ...]] = [
        (enc.set_compute_pipeline_state, host.pipeline("saxpy")),
        (enc.set_buffer, x, 0, 0),
        (enc.set_buffer_offset, 0, 0),
        (enc.set_bytes, b"1234", 1),
        (enc.set_threadgroup_memory_length, 16, 0),
        (enc.use_resource, x, metal.USAGE_READ),
        (enc.use_resources, [x], metal.USAGE_READ),
        (enc.memory_barrier,),
        (enc.dispatch_threads, (1, 1, 1), (1, 1, 1)),
        (enc.dispatch_threadgroups, (1, 1, 1), (1, 1, 1)),
        (enc.push_debug_group, "g"),
        (enc.end_encoding,),
    ]
    for call in calls:
        refused("called after endEncoding, in a compute encoder (kernel 'add_one')", *call)


def test_commit_twice(host: Any, refused: Any) -> None:
    commands = host.encoder().commit()
    refused("commit: this command buffer was committed before", commands.commit)
    commands.wait_until_completed()


def test_after_commit(host: Any, refused: Any) -> None:
    commands = host.encoder().commit()
    commands.wait_until_completed()
    refused(
        "computeCommandEncoder: this command buffer was committed", commands.compute_command_encoder
    )
    refused("addCompletedHandler:: this", commands.add_completed_handler, print)
    refused("addScheduledHandler:: this", commands.add_scheduled_handler, print)
    refused("enqueue: this command buffer was committed", commands.enqueue)


def test_enqueue_twice(host: Any, refused: Any) -> None:
    queue = host.device.new_command_queue()
    commands = queue.command_buffer()
    commands.enqueue()
    refused("was enqueued before", commands.enqueue)
    commands.commit()
    commands.wait_until_completed()


def test_wait_before_commit(host: Any, refused: Any) -> None:
    commands = host.queue.command_buffer()
    refused("was not committed, Metal would wait for ever", commands.wait_until_completed)
    refused("was not committed, Metal would wait for ever", commands.wait_until_scheduled)


def test_wait_inside_a_handler(host: Any) -> None:
    errors: list[str] = []

    def handler(commands: metal.CommandBuffer) -> None:
        try:
            commands.wait_until_completed()
        except metal.ValidationError as e:
            errors.append(str(e))

    e = host.encoder()
    e.commands.add_completed_handler(handler)
    e.finish()
    assert errors == ["Metal: waitUntilCompleted in a handler on the same queue: deadlock"]


def test_more_command_buffers_than_the_queue_has(host: Any, refused: Any) -> None:
    queue = host.device.new_command_queue(3)
    kept = [queue.command_buffer() for _ in range(3)]
    refused("3 command buffers of this queue exist and none is committed", queue.command_buffer)
    kept.pop()
    kept.append(queue.command_buffer())  # a released one makes room
    kept[0].commit()
    kept.append(queue.command_buffer())  # waits for the committed one


def test_debug_groups_must_match(host: Any, refused: Any) -> None:
    e = host.encoder()
    refused("no pushDebugGroup: before it", e.encoder.pop_debug_group)
    e.encoder.push_debug_group("a")
    refused("1 pushDebugGroup: without popDebugGroup", e.encoder.end_encoding)
    e.encoder.pop_debug_group()
    e.abandon()
    refused("popDebugGroup without pushDebugGroup:", e.commands.pop_debug_group)


# ---- arguments of an encoder --------------------------------------------------------------------


def test_setBytes_takes_1_to_4096_bytes(host: Any, refused: Any) -> None:
    e = host.encoder("peek_bytes")
    e.encoder.set_bytes(b"x" * 4096, 0)
    refused(
        "length 4097 at index 3 is more than 4096 bytes, use a buffer (setBytes: is for data under "
        "4 KB), in a compute encoder (kernel 'peek_bytes')",
        e.encoder.set_bytes,
        b"x" * 4097,
        3,
    )
    refused("length is 0 at index 2", e.encoder.set_bytes, np.zeros(0)[:0], 2)
    e.abandon()


def test_there_are_31_slots(host: Any, refused: Any) -> None:
    e, x = host.encoder(), host.floats(1)
    e.encoder.set_buffer(x, 0, 30)
    for call in (
        (e.encoder.set_buffer, x, 0, 31),
        (e.encoder.set_buffer_offset, 0, 31),
        (e.encoder.set_bytes, b"1234", 31),
        (e.encoder.set_threadgroup_memory_length, 16, 31),
    ):
        refused("index 31 is not below 31", *call)
    e.abandon()


def test_offset_past_the_end(host: Any, refused: Any) -> None:
    e, x = host.encoder("add_one"), host.floats(4, "x")
    refused(
        "offset 17 at index 0 is beyond the 16 bytes of buffer 'x'", e.encoder.set_buffer, x, 17, 0
    )
    e.encoder.set_buffer(x, 16, 0)
    refused("argument 'x' at index 0 needs 1 bytes, 0 are set", e.dispatch)
    e.encoder.set_buffer(x, 0, 0)
    refused("offset 20 at index 0 is beyond", e.encoder.set_buffer_offset, 20, 0)
    refused("no buffer is set at index 1", e.encoder.set_buffer_offset, 0, 1)
    e.abandon()


def test_offset_must_suit_the_type(host: Any, refused: Any) -> None:
    x = host.floats(16)
    e = host.encoder("wide")
    e.encoder.set_buffer(x, 4, 0)
    refused(
        "argument 'x' at index 0 is bound at offset 4, which is not a multiple of 16", e.dispatch
    )
    e.encoder.set_compute_pipeline_state(host.pipeline("add_one"))
    e.dispatch()
    e.encoder.set_buffer_offset(2, 0)
    refused("offset 2, which is not a multiple of 4", e.dispatch)
    e.finish()


def test_constant_buffers_are_aligned_to_4_bytes_at_least(refused: Any) -> None:
    source = """
kernel void k(constant char* x [[buffer(0)]], device char* y [[buffer(1)]]) { y[0] = x[0]; }
"""
    device = metal.Device()
    function = device.new_library_with_source(source, metal.precise_options())
    pipeline = device.new_compute_pipeline_state_with_function(function.new_function_with_name("k"))
    x = device.new_buffer_with_bytes(b"abcdefgh")
    commands = device.new_command_queue().command_buffer()
    encoder = commands.compute_command_encoder()
    encoder.set_compute_pipeline_state(pipeline)
    encoder.set_buffer(x, 1, 1)  # device char*: any offset
    encoder.set_buffer(x, 2, 0)
    refused("'x' at index 0 is bound at offset 2", encoder.dispatch_threads, (1, 1, 1), (1, 1, 1))
    encoder.set_buffer_offset(4, 0)
    encoder.dispatch_threads((1, 1, 1), (1, 1, 1))
    encoder.end_encoding()
    commands.commit()
    commands.wait_until_completed()
    assert bytes(memoryview(x)) == b"aecdefgh"


def test_slot_left_unset(host: Any, refused: Any) -> None:
    e = host.encoder("saxpy").bind(host.floats(1), None, np.float32(1))
    text = (
        "argument 'x' at index 1 has no buffer or bytes set, in a compute encoder (kernel 'saxpy')"
    )
    refused(text, e.dispatch)
    e.abandon()


def test_too_few_bytes_for_a_reference(host: Any, refused: Any) -> None:
    e = host.encoder("step").bind(host.floats(1), np.uint16(1))
    refused("argument 'k' at index 1 needs 4 bytes, 2 are set", e.dispatch)
    e.abandon()


def test_setBytes_for_what_the_kernel_writes(host: Any, refused: Any) -> None:
    e = host.encoder("add_one").bind(np.float32(1))
    refused(
        "argument 'x' at index 0 is written by the kernel, but was set with setBytes:", e.dispatch
    )
    e.abandon()


def test_threadgroup_memory(host: Any, refused: Any) -> None:
    e = host.encoder("shared_sum").bind(host.floats(4))
    refused("'scratch' at threadgroup index 0 has no setThreadgroupMemoryLength:", e.dispatch)
    method = e.encoder.set_threadgroup_memory_length
    refused("length 20 is not a multiple of 16 bytes", method, 20, 0)
    refused("length 32784 is more than the 32768 bytes", method, 32784, 0)
    method(32768, 0)
    e.dispatch(4, 4).finish()


def test_threadgroup_memory_of_all_slots_together(host: Any, refused: Any) -> None:
    e = host.encoder("two_scratches").bind(host.floats(1))
    e.encoder.set_threadgroup_memory_length(32768, 0)
    e.encoder.set_threadgroup_memory_length(16, 1)
    refused(
        "32784 bytes of threadgroup memory are more than maxThreadgroupMemoryLength", e.dispatch
    )
    e.abandon()


def test_nil_pipeline_and_resource(host: Any, refused: Any) -> None:
    e = host.encoder()
    refused("the pipeline is nil", e.encoder.set_compute_pipeline_state, None)
    refused("resource 0 is nil", e.encoder.use_resource, None, metal.USAGE_READ)
    refused("resource 1 is nil", e.encoder.use_resources, [host.floats(1), None], metal.USAGE_READ)
    refused("usage is neither Read nor Write", e.encoder.use_resource, host.floats(1), 0)
    e.abandon()


# ---- dispatches ---------------------------------------------------------------------------------


def test_dispatch_without_a_pipeline(host: Any, refused: Any) -> None:
    e = host.encoder()
    refused(
        "dispatchThreads:threadsPerThreadgroup:: no setComputePipelineState: before it", e.dispatch
    )
    e.abandon()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_zero_size(host: Any, refused: Any, axis: int) -> None:
    e = host.encoder("add_one").bind(host.floats(1))
    zero: Any = tuple(int(k != axis) for k in range(3))
    one = (1, 1, 1)
    refused(f"the grid {zero} has a dimension of 0", e.encoder.dispatch_threads, zero, one)
    refused(f"the grid {zero} has a dimension of 0", e.encoder.dispatch_threadgroups, zero, one)
    refused(
        f"threadsPerThreadgroup {zero} has a dimension of 0", e.encoder.dispatch_threads, one, zero
    )
    refused(f"threadsPerThreadgroup {zero} has", e.encoder.dispatch_threadgroups, one, zero)
    e.abandon()


def test_too_many_threads_per_threadgroup(host: Any, refused: Any) -> None:
    e = host.encoder("limited").bind(host.floats(1024))
    text = (
        "threadsPerThreadgroup (257, 1, 1) has 257 threads, maxTotalThreadsPerThreadgroup of the "
        "pipeline is 256"
    )
    refused(text, e.dispatch, 1024, 257)
    refused("(16, 17, 1) has 272 threads", e.dispatch, 1024, (16, 17))
    e.encoder.set_compute_pipeline_state(host.pipeline("add_one"))
    refused("is too large", e.dispatch, 1, 2048)
    refused("is too large", e.dispatch, 1 << 32, 1)
    e.dispatch(1024, 1024).finish()


def test_promised_whole_simdgroups(host: Any, refused: Any) -> None:
    descriptor = metal.ComputePipelineDescriptor()
    descriptor.set_compute_function(host.library.new_function_with_name("add_one"))
    descriptor.thread_group_size_is_multiple_of_thread_execution_width = True
    e = host.encoder().bind(host.floats(64))
    e.encoder.set_compute_pipeline_state(
        host.device.new_compute_pipeline_state_with_descriptor(descriptor)
    )
    refused(
        "33 threads per threadgroup are not a multiple of threadExecutionWidth", e.dispatch, 64, 33
    )
    e.dispatch(64, 64).finish()
