"""acl.rt.memcpy against ctypes and numpy: the overhead of a small copy, the speed of a large one."""

from __future__ import annotations

import ctypes

import numpy as np
from _tools import Result, interleaved, loop

import acl

SMALL, LARGE, COUNT = 64, 256 << 20, 20_000


def _small() -> list[Result]:
    device, host = acl.rt.malloc(4096, 0)[0], acl.rt.malloc_host(4096)[0]
    data = bytes(4096)
    from_bytes = acl.util.bytes_to_ptr(data)
    foreign = (ctypes.c_char * 4096)()
    address = ctypes.addressof(foreign)
    cases = {
        "host memory": lambda: acl.rt.memcpy(device, SMALL, host, SMALL, 1),
        "a bytes object": lambda: acl.rt.memcpy(device, SMALL, from_bytes, SMALL, 1),
        "a ctypes array": lambda: acl.rt.memcpy(device, SMALL, address, SMALL, 1),
    }
    raw = loop(lambda: ctypes.memmove(device, host, SMALL), COUNT)
    times = interleaved(raw, *(loop(case, COUNT) for case in cases.values()))
    peer = times[0] / COUNT * 1e6
    rows = []
    for name, seconds in zip(cases, times[1:], strict=True):
        ours = seconds / COUNT * 1e6
        wish = "≤ 4 µs over memmove" if name != "a ctypes array" else "– (asks the kernel)"
        rows.append(
            Result(
                f"memcpy 64 B from {name}",
                f"{ours:.2f} µs",
                f"ctypes.memmove {peer:.2f} µs",
                f"{ours / peer:.1f}",
                wish,
                ours - peer <= 4 or name == "a ctypes array",
            )
        )
    acl.rt.free(device), acl.rt.free_host(host)
    return rows


def _large() -> list[Result]:
    source, target = np.ones(LARGE, np.uint8), np.zeros(LARGE, np.uint8)
    device, back = acl.rt.malloc(LARGE, 0)[0], acl.rt.malloc_host(LARGE)[0]
    pointer, source = acl.util.numpy_contiguous_to_ptr(source)
    acl.rt.memset(device, LARGE, 0, LARGE), acl.rt.memset(back, LARGE, 0, LARGE)
    peer, up, down, inside = interleaved(
        lambda: np.copyto(target, source),
        lambda: acl.rt.memcpy(device, LARGE, pointer, LARGE, 1),
        lambda: acl.rt.memcpy(back, LARGE, device, LARGE, 2),
        lambda: acl.rt.memcpy(device + LARGE // 2, LARGE // 2, device, LARGE // 2, 3),
    )
    rows = []
    for name, seconds, size in (
        ("host → device", up, LARGE),
        ("device → host", down, LARGE),
        ("inside the device", inside, LARGE // 2),
    ):
        speed, reference = size / seconds / 1e9, LARGE / peer / 1e9
        rows.append(
            Result(
                f"memcpy {size >> 20} MiB {name}",
                f"{speed:.1f} GB/s",
                f"numpy.copyto {reference:.1f} GB/s",
                f"{speed / reference:.2f}",
                "≥ 0.95",
                speed / reference >= 0.95,
            )
        )
    acl.rt.free(device), acl.rt.free_host(back)
    return rows


def results() -> list[Result]:
    """Measure."""
    acl.init()
    acl.rt.set_device(0)
    rows = _small() + _large()
    acl.rt.reset_device(0)
    acl.finalize()
    return rows
