"""Every public name of torch_npu and torch.npu, with its arguments and their defaults."""

from __future__ import annotations

import inspect
import math
import os
import re
import subprocess
import sys
from typing import Any

import pytest
import torch
import torch_npu
from torch.npu import CubeMathType

# A row is a name and its arguments; a row without brackets is no function. Arguments that the manual does not name need a
# default, so that calls written from it work.
DEVICE = """
is_available() | device_count() | current_device() | set_device(device) | device(device) | device_of(obj) | synchronize(device=None)
init() | is_initialized() | get_device_name(device=None) | get_device_properties(device=None) | get_device_capability(device=None)
mem_get_info(device=None) | can_device_access_peer(device_id, peer_device_id) | utilization(device=None)
is_bf16_supported(including_emulation=False) | utils.get_soc_version() | utils.is_support_inf_nan()
utils.get_cann_version(module="CANN") | utils._is_gte_cann_version(version, module="CANN")
set_sync_debug_mode(debug_mode) | get_sync_debug_mode() | set_device_limit(device, cube_num=-1, vector_num=-1)
get_device_limit(device) | set_stream_limit(stream, cube_num=-1, vector_num=-1) | get_stream_limit(stream)
reset_stream_limit(stream) | stress_detect(type="aic") | stop_device(device_id) | check_uce_in_memory(device_id)
restart_device(device_id, rebuild_all_resources=False) | current_blas_handle() | ipc_collect() | set_op_timeout_ms(timeout)
_sleep(cycles) | _lazy_init() | _lazy_call(callable) | _is_in_bad_fork()
"""
STREAMS = """
Stream(device=None, priority=0) | stream(stream) | StreamContext(stream) | set_stream(stream) | current_stream(device=None)
default_stream(device=None) | SyncLaunchStream(device=None, priority=0) | ExternalStream(stream_ptr=0, device=None)
Event(enable_timing=False, blocking=False, interprocess=False) | ExternalEvent()
Stream.wait_event(self, event) | Stream.wait_stream(self, stream) | Stream.record_event(self, event=None) | Stream.query(self)
Stream.synchronize(self) | Stream.set_data_preprocess_stream(self, is_data_preprocess_stream=False) | Stream.priority_range()
Stream.npu_stream | Stream.stream_id | Stream.device_index | Stream.device_type | Stream.device | Stream.priority
Stream._as_parameter_ | Event.record(self, stream=None) | Event.wait(self, stream=None) | Event.query
Event.elapsed_time(self, end_event) | Event.recorded_time(self) | Event.synchronize(self) | Event.ipc_handle(self)
Event.from_ipc_handle(device, handle) | Event.npu_event | ExternalEvent.reset(self, stream=None)
"""
MEMORY = """
empty_cache() | empty_virt_addr_cache() | memory_allocated(device=None) | max_memory_allocated(device=None)
memory_reserved(device=None) | max_memory_reserved(device=None) | memory_cached(device=None) | max_memory_cached(device=None)
reset_peak_memory_stats(device=None) | reset_accumulated_memory_stats(device=None) | reset_max_memory_allocated(device=None)
reset_max_memory_cached(device=None) | memory_stats(device=None) | memory_stats_as_nested_dict(device=None)
memory_summary(device=None, abbreviated=False) | memory_snapshot(mempool_id=None)
caching_allocator_alloc(size, device=None, stream=None) | caching_allocator_delete(mem_ptr) | get_allocator_backend()
NPUPluggableAllocator | change_current_allocator(allocator) | MemPool | use_mem_pool(pool, device=None) | MemPool.id
MemPool.use_count | MemPool.snapshot | get_per_process_memory_fraction(device=None)
set_per_process_memory_fraction(fraction, device=None) | host_empty_cache() | host_memory_stats() | reset_peak_host_memory_stats()
reset_accumulated_host_memory_stats() | memory._record_memory_history | memory._snapshot | memory._dump_snapshot
memory._save_segment_usage | memory._save_memory_usage
"""
RANDOM = """
manual_seed(seed) | manual_seed_all(seed) | seed() | seed_all() | initial_seed() | get_rng_state(device="npu")
set_rng_state(new_state, device="npu") | get_rng_state_all() | set_rng_state_all(new_states)
_set_rng_state_offset(offset, device="npu") | _get_rng_state_offset(device="npu") | default_generators
"""
AMP = """
amp.autocast(enabled=True, dtype=torch.float16, cache_enabled=True) | amp.custom_fwd | amp.custom_bwd
amp.GradScaler(init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, dynamic=True, enabled=True)
amp.GradScaler.get_npu_overflow_flag() | amp.GradScaler.clear_npu_overflow_flag() | get_amp_supported_dtype()
is_autocast_enabled() | set_autocast_enabled(enabled) | get_autocast_dtype() | set_autocast_dtype(dtype)
get_npu_overflow_flag() | clear_npu_overflow_flag() | utils.npu_check_overflow(grad)
"""
OPTIONS = """
set_option(option) | set_compile_mode(jit_compile=False) | is_jit_compile_false() | set_aoe(dump_path)
set_mm_bmm_format_nd(is_nd) | get_mm_bmm_format_nd() | config.allow_internal_format | matmul.allow_hf32 | matmul.cube_math_type
conv.allow_hf32 | aclnn.allow_hf32 | aclnn.version | enable_deterministic_with_backward(tensor)
disable_deterministic_with_backward(tensor) | set_deterministic_level(level) | use_compatible_impl(is_compatible)
are_compatible_impl_enabled() | preferred_linalg_library(backend=None) | flash_sdp_enabled() | mem_efficient_sdp_enabled()
math_sdp_enabled() | enable_flash_sdp(enabled) | enable_mem_efficient_sdp(enabled) | enable_math_sdp(enabled)
sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True) | init_dump() | set_dump(cfg_file) | finalize_dump()
dump_enable(path, ops=None) | dump_disable() | CubeMathType
"""
GRAPHS = """
NPUGraph() | NPUGraph.capture_begin(self, pool=None, capture_error_mode="global") | NPUGraph.capture_end(self)
NPUGraph.replay(self) | NPUGraph.reset(self) | NPUGraph.pool(self) | NPUGraph.update(self, cpu_update_input)
NPUGraph.debug_dump(self, debug_path) | NPUGraph.super_kernel_optimize
graph(npu_graph, pool=None, stream=None, auto_dispatch_capture=False, capture_error_mode="global") | graph_pool_handle()
is_current_stream_capturing() | make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None)
graph_task_group_begin(stream) | graph_task_group_end(stream) | graph_task_update_begin(stream, handle)
graph_task_update_end(stream) | super_kernel_scope_begin | super_kernel_scope_end | register_npu_graph_handler(op_names)
enable_graph_mode() | disable_graph_mode() | is_graph_mode() | launch_graph() | make_replay_graph(callables, sample_args)
"""
TENSOR_WORDS = ("Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short", "BFloat16")
TYPES = " | ".join(f"{word}{kind}" for word in TENSOR_WORDS for kind in ("Tensor", "Storage"))

DTYPES = """
float32 float16 int8 int32 uint8 int16 uint16 uint32 int64 uint64 float64 bool string complex64 complex128 bfloat16 int4 uint1
complex32 hifloat8 float8_e5m2 float8_e4m3fn float8_e8m0fnu float6_e3m2 float6_e2m3 float4_e2m1fn_x2 float4_e1m2fn_x2
"""
PACKAGE = """
npu | erase_stream(tensor, stream) | matmul_checksum(a, b, c) | ParallelStore | _ShardedGradScaler | HiFloat8Tensor | Format
get_npu_format(self) | npu_format_cast | npu_format_cast_ | get_storage_size | empty_with_format | unsafe_empty_with_format
print_npugraph_tensor(tensor) | save_npugraph_tensor(tensor, save_path) | utils.save_async | utils.storage._rebuild_npu_tensor
_C._cd.DType | __version__ | _autoload()
"""
TORCH = """
Tensor.npu | Tensor.is_npu | UntypedStorage.npu | UntypedStorage.is_npu | TypedStorage.npu | TypedStorage.is_npu
UntypedStorage._share_npu_ | UntypedStorage._new_shared_npu | UntypedStorage._release_ipc_counter_npu | nn.Module.npu
nn.Module.cast_weight(self, device) | utils.dumper(enabled=True, use_dump=False, use_load=False, check_overflow=False,
dump_path=None, load_file_path=None, load_with_acl_dump=False) | utils.get_op_map() | npu
"""


def rows(table: str) -> list[str]:
    return [" ".join(row.split()) for row in re.split(r"\||\n(?=\w)", table.strip()) if row.strip()]


def joined(table: str) -> list[str]:
    """Rows of a table in which one goes on in the next line."""
    return [" ".join(row.split()) for row in table.strip().replace("False,\n", "False, ").replace("\n", "|").split("|")]


def found(root: Any, path: str) -> Any:
    for part in path.split("."):
        root = getattr(root, part)
    return root


def check(root: Any, row: str) -> None:
    path, bracket, rest = row.partition("(")
    value = found(root, path)
    if not bracket:
        return
    wanted = inspect.signature(eval(f"lambda {rest.removesuffix(')')}: 0")).parameters
    real = inspect.signature(value).parameters
    named = [one for one in real.values() if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
    assert [one.name for one in named][: len(wanted)] == list(wanted), f"{row}: it takes ({', '.join(real)})"
    for one in wanted.values():
        assert real[one.name].default == one.default, f"{row}: the default of {one.name} is {real[one.name].default}"
    for one in named[len(wanted) :]:
        assert one.default is not one.empty, f"{row}: {one.name} has no default"


@pytest.mark.parametrize(
    "row", [row for table in (DEVICE, STREAMS, MEMORY, RANDOM, AMP, OPTIONS, GRAPHS, TYPES) for row in rows(table)]
)
def test_torch_npu_module(row: str) -> None:
    check(torch.npu, row)


@pytest.mark.parametrize("row", rows(PACKAGE))
def test_torch_npu_has_every_name(row: str) -> None:
    check(torch_npu, row)


@pytest.mark.parametrize("row", joined(TORCH))
def test_torch_has_every_name(row: str) -> None:
    check(torch, row)


def test_a_wrong_row_is_found() -> None:
    for row in ("synchronize(dev=None)", "synchronize(device=0)", "nowhere()", "set_device()"):
        with pytest.raises((AssertionError, AttributeError)):
            check(torch.npu, row)


def test_dtype_numbers() -> None:
    numbers = {name: getattr(torch_npu, name) for name in DTYPES.split()}
    assert all(type(number) is int and number >= 256 for number in numbers.values())
    assert len(set(numbers.values())) == len(numbers)
    assert (numbers["float32"], numbers["bfloat16"], numbers["int8"]) == (256, 283, 258)
    assert torch_npu._C._cd.DType.float16 == numbers["float16"]


def test_modules_are_one() -> None:
    import torch.npu as by_import

    assert torch.npu is torch_npu.npu is by_import


def test_enumerations_have_the_values_of_the_manual() -> None:
    assert {one.name: int(one) for one in CubeMathType} == {
        "KEEP_DTYPE": 0,
        "ALLOW_FP32_DOWN_PRECISION": 1,
        "USE_FP16": 2,
        "USE_HF32": 3,
        "USE_FP32_ADD": 4,
    }
    fields = """name total_memory cube_core_num vector_core_num L2_cache_size uuid major minor is_multi_gpu_board is_integrated
    multi_processor_count max_threads_per_multi_processor warp_size regs_per_multiprocessor gcnArchName"""
    properties = torch.npu.get_device_properties()
    assert [name for name in fields.split() if not hasattr(properties, name)] == []
    generator = torch.Generator(device="npu")
    methods = "manual_seed seed initial_seed get_state set_state get_offset set_offset clone_state graphsafe_get_state"
    assert [name for name in methods.split() if not callable(getattr(generator, name, None))] == []


@pytest.mark.parametrize("name", ["ParallelStore", "_ShardedGradScaler", "HiFloat8Tensor"])
def test_later_parts_say_so(name: str) -> None:
    with pytest.raises(RuntimeError, match=rf"torch_npu\.{name} .* is not supported(?s:.*)ERR0[02]007"):
        getattr(torch_npu, name)(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_matmul_checksum(dtype: torch.dtype) -> None:
    a, b = torch.randn(3, 40, 64).npu().to(dtype), torch.randn(3, 64, 30).npu().to(dtype)
    c = a @ b
    assert torch_npu.matmul_checksum(a, b, c) is False
    c[1, 7, 3] += 20
    assert torch_npu.matmul_checksum(a, b, c) is True


def test_grad_scaler() -> None:
    weight = torch.ones(3, device="npu", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    for dynamic, after in ((True, 512.0), (False, 1024.0)):
        scaler = torch.npu.amp.GradScaler(init_scale=1024.0, dynamic=dynamic)
        with torch.no_grad():
            weight.fill_(1)
        scaler.scale((weight * float("inf")).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert weight.tolist() == [1, 1, 1], "a step with inf is left out"
        assert scaler.get_scale() == after
        optimizer.zero_grad()
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert weight.tolist() == [0, 0, 0]
        optimizer.zero_grad()
        again = torch.npu.amp.GradScaler()
        again.load_state_dict(scaler.state_dict())
        assert again.get_scale() == after
        assert again.state_dict()["dynamic"] is dynamic
    with pytest.raises(ValueError, match=r"Device type of outputs should be npu\."):
        torch.npu.amp.GradScaler().scale(torch.ones(1))


def test_overflow_flag_is_of_older_chips() -> None:
    for value, wanted in ((1.0, False), (math.inf, True), (torch.ones(3), False), (torch.tensor([1, math.nan]), True)):
        assert torch.npu.utils.npu_check_overflow(value.npu() if isinstance(value, torch.Tensor) else value) is wanted
    with pytest.raises(RuntimeError, match="npu_check_overflow"):
        torch.npu.get_npu_overflow_flag()
    program = """
import torch
n = torch.npu
print(n.get_npu_overflow_flag())
n.clear_npu_overflow_flag()
print(n.amp.GradScaler.get_npu_overflow_flag())
"""
    # Chip mode refuses a GPU beside it.
    environment = {**os.environ, "SOFTNPU_SOC": "Ascend910A", "SOFTNPU_TORCH": "chip", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_autocast_names() -> None:
    assert torch.npu.is_autocast_enabled() is False
    with torch.npu.amp.autocast(dtype=torch.bfloat16):
        assert torch.npu.is_autocast_enabled() is True
        assert torch.npu.get_autocast_dtype() == torch.bfloat16
    torch.npu.set_autocast_enabled(True)
    torch.npu.set_autocast_dtype(torch.bfloat16)
    try:
        assert (torch.ones(2, 2, device="npu") @ torch.ones(2, 2, device="npu")).dtype == torch.bfloat16
    finally:
        torch.npu.set_autocast_enabled(False)
        torch.npu.set_autocast_dtype(torch.float16)
