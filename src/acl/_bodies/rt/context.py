"""Bodies of `acl.rt`: contexts."""

from __future__ import annotations

from softnpu.base.errors import NpuError, codes
from softnpu.runtime.process import process
from softnpu.runtime.streams.stream import Context

_OPTIONS = range(4)


def create_context(device_id: int) -> int:
    return process().registry.create_context(device_id).handle


def destroy_context(ctx: Context) -> None:
    if ctx.default:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"context {ctx.handle:#x} is the default context of device {ctx.device.index}",
            "it ends with acl.rt.reset_device",
        )
    owner = process()
    owner.handles.remove("context", ctx.handle)  # of two threads that destroy it, one gets past here
    owner.registry.destroy_context(ctx)


def set_context(ctx: Context) -> None:
    process().registry.local.context = ctx


def get_context() -> int:
    return process().current().handle


def ctx_get_current_default_stream() -> int:
    owner = process()
    return owner.registry.named(owner.current().default_stream).handle


def get_primary_ctx_state(device_id: int) -> tuple[int, int]:
    owner = process()
    primary = owner.registry.primary.get(owner.device(device_id))
    return int(primary is not None and primary.alive), 0


def _option(opt: int) -> int:
    if opt not in _OPTIONS:
        raise NpuError(codes.INVALID_PARAM, f"system parameter {opt} is not known", "use aclSysParamOpt 0 to 3")
    return opt


def _value(options: dict[int, int], opt: int) -> int:
    if _option(opt) not in options:
        raise NpuError(codes.RT_SYSPARAMOPT_NOT_SET, f"system parameter {opt} was never set", "set it first")
    return options[opt]


def ctx_set_sys_param_opt(opt: int, value: int) -> None:
    process().current().options[_option(opt)] = value


def ctx_get_sys_param_opt(opt: int) -> int:
    return _value(process().current().options, opt)


def set_sys_param_opt(opt: int, value: int) -> None:
    process().options[_option(opt)] = value


def get_sys_param_opt(opt: int) -> int:
    return _value(process().options, opt)
