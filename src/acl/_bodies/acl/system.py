"""Bodies of `acl`: start, stop, versions, messages, half floats."""

from __future__ import annotations

import math
import struct
from typing import Any

from softnpu.base.errors import NpuError, codes
from softnpu.base.log import ERROR, log
from softnpu.base.recent import recent
from softnpu.runtime.device import soc
from softnpu.runtime.process import process

_CANN = {
    "version": "8.1.RC1",
    "major_version": "8",
    "minor_version": "1",
    "release_version": "RC1",
    "patch_version": "",
    "reserved": "",
}
_PACKAGES = ("CANN", "runtime", "compiler", "hccl", "toolkit", "opp", "opp_kernel", "driver")


def init(config_path: str | None) -> None:
    owner = process()
    owner.start(config_path)
    if owner.config.dump:
        from softnpu.observe import dump  # late: numpy and the file formats, for the few programs that dump

        dump.configure(owner, owner.config.dump)


def finalize() -> None:
    process().stop()


def finalize_reference() -> int:
    return process().stop_reference()


def get_version() -> tuple[int, int, int]:
    return 1, 13, 0


def get_soc_name() -> str:
    return soc(process().settings.soc).name


def get_cann_version(pkg: int) -> dict[str, str]:
    if not 0 <= pkg < len(_PACKAGES):
        raise NpuError(
            codes.INVALID_PARAM, f"package {pkg} is not known", f"use aclCANNPackageName 0 to {len(_PACKAGES) - 1}"
        )
    return dict(_CANN)


def get_version_str(pkg_name: str) -> str:
    if pkg_name.lower() not in {name.lower() for name in _PACKAGES}:
        raise NpuError(codes.INVALID_PARAM, f"package {pkg_name!r} is not known", f"use one of {', '.join(_PACKAGES)}")
    return _CANN["version"]


def _attributes() -> dict[int, int]:
    devices = process().devices
    chip = devices[0].soc if devices else None
    return {0: int(bool(chip and chip.inf_nan)), 1: int(bool(chip and chip.bf16)), 2: 0}


def get_cann_attribute_list() -> tuple[list[int], int]:
    supported = [attr for attr, value in _attributes().items() if value]
    return supported, len(supported)


def get_cann_attribute(attr: int) -> int:
    values = _attributes()
    if attr not in values:
        raise NpuError(codes.INVALID_PARAM, f"attribute {attr} is not known", "use aclCannAttr 0, 1 or 2")
    return values[attr]


def get_device_capability(device_id: int, info: int) -> int:
    chip = process().device(device_id).soc
    values = {0: chip.ai_cores, 1: chip.vector_cores, 2: chip.l2_bytes}
    if info not in values:
        raise NpuError(codes.INVALID_PARAM, f"device info {info} is not known", "use aclDeviceInfo 0, 1 or 2")
    return values[info]


def get_recent_err_msg() -> str | None:
    return recent.take()


def app_log(level: int, msg: str) -> None:
    if not 0 <= level <= ERROR:
        raise NpuError(
            codes.INVALID_PARAM, f"log level {level} is not known", "use 0 debug, 1 info, 2 warning or 3 error"
        )
    log().write(level, msg, "APP")


def float16_to_float(value: int) -> float:
    number: Any = struct.unpack("<e", struct.pack("<H", value & 0xFFFF))[0]
    return float(number)


def float_to_float16(value: float) -> int:
    try:
        packed = struct.pack("<e", value)
    except OverflowError:  # beyond the largest half float: infinity of the same sign
        packed = struct.pack("<e", math.copysign(math.inf, value))
    bits: Any = struct.unpack("<H", packed)[0]
    return int(bits)
