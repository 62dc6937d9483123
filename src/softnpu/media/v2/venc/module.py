"""Settings of the whole encoder of `acl.himpi`: `venc_set_mod_param` and its getter."""

from __future__ import annotations

from softnpu import constants as c
from softnpu.base.log import WARNING, log
from softnpu.media.v2.checks import check_in
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.sys.system import System
from softnpu.media.v2.venc.structs import MOD_PARAM

_KEY = "venc_mod_param"
_MEMBERS = {
    c.HI_VENC_MOD_VENC: "venc_mod_param",
    c.HI_VENC_MOD_H264: "h264_mod_param",
    c.HI_VENC_MOD_H265: "h265_mod_param",
    c.HI_VENC_MOD_JPEG: "jpeg_mod_param",
}
_BY_PAYLOAD = {c.HI_PT_H264: "h264_mod_param", c.HI_PT_H265: "h265_mod_param", c.HI_PT_JPEG: "jpeg_mod_param"}
_DEFAULTS = {"one_stream_buf": 1, "mini_buf_mode": 1, "qp_hist_en": 1, "max_user_data_len": 1024}


def _current(system: System) -> Fields:
    parameters: Fields | None = system.memo.get(_KEY)
    if parameters is None:
        parameters = MOD_PARAM.blank()
        for member in _MEMBERS.values():
            values = getattr(parameters, member)
            for name, number in _DEFAULTS.items():
                if hasattr(values, name):
                    setattr(values, name, number)
        system.memo[_KEY] = parameters
    return parameters


def _check(mod_type: int) -> None:
    check_in("mod_type", mod_type, range(1, 6))


def get_param(system: System, mod_type: int) -> Fields:
    """All parts, whichever was asked for: the guide's program looks into another one."""
    _check(mod_type)
    parameters = MOD_PARAM.read(MOD_PARAM.write(_current(system)))
    parameters.mod_type = mod_type
    return parameters


def set_param(system: System, parameters: Fields) -> None:
    """Keep the part that `mod_type` names."""
    _check(parameters.mod_type)
    if living := system.venc.living():
        raise himpi_error(
            "venc",
            "NOT_PERM",
            f"the encode channels {living} are open",
            "call venc_set_mod_param before any channel is created",
        )
    member = _MEMBERS.get(parameters.mod_type)
    if member is None:
        log().write(WARNING, f"mod_type {parameters.mod_type} has no parameters", "DVPP", "venc_set_mod_param")
        return
    values, kept = getattr(parameters, member), _current(system)
    old = vars(getattr(kept, member))
    if hasattr(values, "one_stream_buf"):
        check_in("one_stream_buf", values.one_stream_buf, range(2))
    idle = [name for name, value in vars(values).items() if name != "one_stream_buf" and value != old[name]]
    if idle:
        log().write(WARNING, f"{', '.join(idle)} of {member} have no effect", "DVPP", "venc_set_mod_param")
    setattr(kept, member, values)


def one_packet(system: System, payload: int) -> bool:
    """Whether a frame of this payload type comes as one packet (the default), or as one for each unit."""
    member = _BY_PAYLOAD.get(payload)
    return member is None or bool(getattr(_current(system), member).one_stream_buf)
