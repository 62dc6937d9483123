"""`torch.npu`: devices, streams, memory, random numbers and options of the npu device."""

# ruff: noqa: F401 (the names are the interface)
from __future__ import annotations

from typing import Any

from torch_npu.npu import _lazy, amp, memory, options, random, streams, sync_debug, utils
from torch_npu.npu._lazy import (
    DeferredNpuCallError,
    _is_in_bad_fork,
    _lazy_call,
    _lazy_init,
    init,
    is_initialized,
)
from torch_npu.npu.amp import (
    clear_npu_overflow_flag,
    get_autocast_dtype,
    get_npu_overflow_flag,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from torch_npu.npu.backends import (
    enable_flash_sdp,
    enable_math_sdp,
    enable_mem_efficient_sdp,
    flash_sdp_enabled,
    math_sdp_enabled,
    mem_efficient_sdp_enabled,
    preferred_linalg_library,
    sdp_kernel,
)
from torch_npu.npu.device import (
    _exchange_device,
    _maybe_exchange_device,
    _NPUDeviceProperties,
    _sleep,
    can_device_access_peer,
    current_blas_handle,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    ipc_collect,
    is_available,
    mem_get_info,
    set_device,
    set_op_timeout_ms,
    synchronize,
    utilization,
)
from torch_npu.npu.dumps import dump_disable, dump_enable, finalize_dump, init_dump, set_dump
from torch_npu.npu.graph_mode import (
    disable_graph_mode,
    enable_graph_mode,
    is_graph_mode,
    launch_graph,
    make_replay_graph,
    register_npu_graph_handler,
)
from torch_npu.npu.graphs import (
    NPUGraph,
    graph,
    graph_pool_handle,
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
    is_current_stream_capturing,
    make_graphed_callables,
    super_kernel_scope_begin,
    super_kernel_scope_end,
)
from torch_npu.npu.limits import (
    check_uce_in_memory,
    get_device_limit,
    get_stream_limit,
    reset_stream_limit,
    restart_device,
    set_device_limit,
    set_stream_limit,
    stop_device,
    stress_detect,
)
from torch_npu.npu.memory import (
    MemPool,
    NPUPluggableAllocator,
    caching_allocator_alloc,
    caching_allocator_delete,
    change_current_allocator,
    empty_cache,
    empty_virt_addr_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_empty_cache,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from torch_npu.npu.options import (
    CubeMathType,
    aclnn,
    are_compatible_impl_enabled,
    config,
    conv,
    disable_deterministic_with_backward,
    enable_deterministic_with_backward,
    get_deterministic_level,
    get_mm_bmm_format_nd,
    is_jit_compile_false,
    matmul,
    set_aoe,
    set_compile_mode,
    set_deterministic_level,
    set_mm_bmm_format_nd,
    set_option,
    use_compatible_impl,
)
from torch_npu.npu.random import (
    _get_rng_state_offset,
    _set_rng_state_offset,
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_npu.npu.streams import (
    Event,
    ExternalEvent,
    ExternalStream,
    Stream,
    StreamContext,
    SyncLaunchStream,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from torch_npu.npu.sync_debug import get_sync_debug_mode, set_sync_debug_mode
from torch_npu.npu.utils import _get_device_index, get_amp_supported_dtype, is_bf16_supported


def __getattr__(name: str) -> Any:
    """torch's checkpointing reads `_initialized` as an attribute, so it must be up to date whenever it is read."""
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module 'torch_npu.npu' has no attribute {name!r}")
