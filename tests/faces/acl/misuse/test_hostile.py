"""Nasty pointers and sizes for every function that takes a pointer: the interpreter survives, the code is documented.

The calls are made in a process of their own (this file, run as a program), so that a crash is a failed test.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import acl
from acl import _rows
from softnpu.base.errors import codes
from softnpu.runtime.memory import foreign
from tests.paths import ROOT, SOURCE

PAGE = mmap.PAGESIZE
TOP = 1 << 64
SIZES = [1, 8, PAGE, 1 << 20, 1 << 40, 1 << 63, TOP - 1]
ROOM = 1 << 20
MODULES = ("acl", "acl.rt", "acl.util", "acl.mdl", "acl.media")
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Bench:
    """Sound memory and handles beside which one argument at a time is nasty."""

    def __init__(self) -> None:
        self.device = acl.rt.malloc(ROOM, 0)[0]
        self.other = acl.rt.malloc(ROOM, 0)[0]
        self.stream = acl.rt.create_stream()[0]
        self.desc = acl.create_tensor_desc(0, [1], 2)
        self.buffer = acl.create_data_buffer(0, 0)
        self.physical = acl.rt.malloc_physical(2 << 20, {"location": {"id": 0, "type": 1}}, 0)[0]
        self.allocator = acl.rt.allocator_create_desc()
        self.copy = acl.rt.malloc(64, 0)[0]
        self.channel = acl.media.dvpp_create_channel_desc()
        assert acl.media.dvpp_create_channel(self.channel) == 0
        self.picture, self.output = self.nv12(64), self.nv12(32)
        self.odd = acl.media.dvpp_create_pic_desc()  # whose memory is the nasty pointer
        self.hist = acl.media.dvpp_create_hist()
        self.packet = acl.media.dvpp_create_stream_desc()
        self.encoder = acl.media.venc_create_channel_desc()
        self.file = acl.media.dvpp_malloc(ROOM)[0]
        assert acl.media.dvpp_jpeg_encode_async(self.channel, self.output, self.file, self.cell(ROOM), 0, 0) == 0
        assert acl.rt.synchronize_stream(0) == 0
        self.file_size = int.from_bytes(self.kept, "little")

    def nv12(self, side: int, desc: int = 0, ptr: int = 0) -> int:
        """A picture in sound memory, or where it is told."""
        desc = desc or acl.media.dvpp_create_pic_desc()
        size = side * side * 3 // 2
        fields = {
            "data": ptr or acl.media.dvpp_malloc(size)[0], "size": size, "format": 1,
            "width": side, "height": side, "width_stride": side, "height_stride": side,
        }  # fmt: skip
        for name, value in fields.items():
            assert getattr(acl.media, f"dvpp_set_pic_desc_{name}")(desc, value) == 0
        return int(desc)

    def describe(self, ptr: int) -> int:
        """A description of a picture at the nasty pointer."""
        desc = self.nv12(32, self.odd, 1)
        assert acl.media.dvpp_set_pic_desc_data(desc, ptr) == 0
        return desc

    def cell(self, size: int) -> int:
        """A size where JPEGE looks for it."""
        self.kept = (size & 0xFFFFFFFF).to_bytes(4, "little")
        return int(acl.util.bytes_to_ptr(self.kept))


Call = Callable[[Bench, int, int], Any]
# The pointer is read, or only looked at.
READS: dict[str, list[Call]] = {
    "acl.rt.memcpy": [lambda b, p, n: acl.rt.memcpy(b.device, TOP - 1, p, n, 1)],
    "acl.rt.memcpy_async": [
        lambda b, p, n: acl.rt.memcpy_async(b.device, TOP - 1, p, n, 1, b.stream),
        lambda b, p, n: acl.rt.memcpy_async(b.device, TOP - 1, p, n, 5, b.stream),
    ],
    "acl.rt.memcpy_async_with_condition": [
        lambda b, p, n: acl.rt.memcpy_async_with_condition(b.device, TOP - 1, p, n, 4, b.stream)
    ],
    "acl.rt.memcpy2d": [
        lambda b, p, n: acl.rt.memcpy2d(b.device, n, p, n, n, 1, 1),
        lambda b, p, n: acl.rt.memcpy2d(b.device, 1, p, n, 1, n, 1),
        lambda b, p, n: acl.rt.memcpy2d(b.device, 1, p, n, 1, 3, 1),
    ],
    "acl.rt.memcpy2d_async": [lambda b, p, n: acl.rt.memcpy2d_async(b.device, 1, p, n, 1, 2, 1, b.stream)],
    "acl.rt.reduce_async": [lambda b, p, n: acl.rt.reduce_async(b.device, p, n, 10, 4, b.stream, 0)],
    "acl.rt.set_memcpy_desc": [
        lambda b, p, n: acl.rt.set_memcpy_desc(b.copy, 1, p, b.device, n, 0),
        lambda b, p, n: (
            acl.rt.set_memcpy_desc(b.copy, 1, p, b.device, n, 0),
            acl.rt.memcpy_async_with_desc(b.copy, 1, b.stream),
        )[1],
        lambda b, p, n: acl.rt.set_memcpy_desc(b.copy, 1, b.device, b.other, n, p),
    ],
    "acl.rt.memcpy_async_with_desc": [lambda b, p, _: acl.rt.memcpy_async_with_desc(p, 1, b.stream)],
    "acl.rt.mem_flush": [lambda _, p, n: acl.rt.mem_flush(p, n)],
    "acl.rt.mem_invalidate": [lambda _, p, n: acl.rt.mem_invalidate(p, n)],
    "acl.rt.cmo_async": [lambda b, p, n: acl.rt.cmo_async(p, n, 1, b.stream)],
    "acl.rt.value_wait": [lambda b, p, _: acl.rt.value_wait(p, 0, 0, b.stream)],
    "acl.rt.pointer_get_attributes": [lambda _, p, __: acl.rt.pointer_get_attributes(p)],
    "acl.rt.host_get_device_pointer": [lambda _, p, __: acl.rt.host_get_device_pointer(p, 0)],
    "acl.rt.host_unregister": [lambda _, p, __: acl.rt.host_unregister(p)],
    "acl.rt.host_register": [lambda _, p, n: (acl.rt.host_register(p, n, 0), acl.rt.host_unregister(p))[0]],
    "acl.rt.host_register_v2": [lambda _, p, n: (acl.rt.host_register_v2(p, n, 2), acl.rt.host_unregister(p))[0]],
    "acl.rt.free": [lambda _, p, __: acl.rt.free(p)],
    "acl.rt.free_host": [lambda _, p, __: acl.rt.free_host(p)],
    "acl.rt.release_mem_address": [lambda _, p, __: acl.rt.release_mem_address(p)],
    "acl.rt.unmap_mem": [lambda _, p, __: acl.rt.unmap_mem(p)],
    "acl.rt.map_mem": [lambda b, p, n: acl.rt.map_mem(p, n, 0, b.physical, 0)],
    "acl.rt.reserve_mem_address": [lambda _, p, n: acl.rt.reserve_mem_address(n, 0, p, 0)],
    "acl.rt.ipc_mem_get_export_key": [lambda _, p, n: acl.rt.ipc_mem_get_export_key(p, n, 65, 0)],
    "acl.rt.ipc_mem_import_by_key": [lambda _, p, __: acl.rt.ipc_mem_import_by_key(f"softnpu-{p:032x}"[:40], 0)],
    "acl.rt.allocator_set_obj_to_desc": [lambda b, p, _: acl.rt.allocator_set_obj_to_desc(b.allocator, p)],
    "acl.mdl.bundle_load_from_mem": [lambda _, p, n: acl.mdl.bundle_load_from_mem(p, n)],
    "acl.mdl.load_from_mem": [lambda _, p, n: acl.mdl.load_from_mem(p, n)],
    "acl.mdl.load_from_mem_with_mem": [lambda b, p, n: acl.mdl.load_from_mem_with_mem(p, n, b.device, 4, b.device, 4)],
    "acl.mdl.load_from_file_with_mem": [lambda _, p, n: acl.mdl.load_from_file_with_mem("no.om", p, n, p, n)],
    "acl.mdl.query_size_from_mem": [lambda _, p, n: acl.mdl.query_size_from_mem(p, n)],
    "acl.mdl.get_desc_from_mem": [lambda b, p, n: acl.mdl.get_desc_from_mem(acl.mdl.create_desc(), p, n)],
    "acl.set_tensor_const": [lambda b, p, n: acl.set_tensor_const(b.desc, p, n)],
    "acl.create_data_buffer": [lambda _, p, n: acl.destroy_data_buffer(acl.create_data_buffer(p, n))],
    "acl.update_data_buffer": [lambda b, p, n: acl.update_data_buffer(b.buffer, p, n)],
    "acl.media.dvpp_free": [lambda _, p, __: acl.media.dvpp_free(p)],
    "acl.media.dvpp_set_pic_desc_data": [
        lambda b, p, _: acl.media.dvpp_vpc_resize_async(b.channel, b.describe(p), b.output, 0, b.stream),
        lambda b, p, _: acl.media.dvpp_vpc_calc_hist_async(b.channel, b.describe(p), b.hist, 0, b.stream),
        lambda b, p, _: acl.media.dvpp_jpeg_encode_async(b.channel, b.describe(p), b.device, b.cell(ROOM), 0, b.stream),
    ],
    "acl.media.dvpp_set_stream_desc_data": [lambda b, p, _: acl.media.dvpp_set_stream_desc_data(b.packet, p)],
    "acl.media.dvpp_vpc_pyr_down_async": [
        lambda b, p, _: acl.media.dvpp_vpc_pyr_down_async(b.channel, b.picture, b.output, p, b.stream)
    ],
    "acl.media.dvpp_vpc_calc_hist_async": [
        lambda b, p, _: acl.media.dvpp_vpc_calc_hist_async(b.channel, b.picture, b.hist, p, b.stream)
    ],
    "acl.media.dvpp_jpeg_get_image_info": [lambda _, p, n: acl.media.dvpp_jpeg_get_image_info(p, n)],
    "acl.media.dvpp_jpeg_get_image_info_v2": [lambda _, p, n: acl.media.dvpp_jpeg_get_image_info_v2(p, n)],
    "acl.media.dvpp_jpeg_predict_dec_size": [lambda _, p, n: acl.media.dvpp_jpeg_predict_dec_size(p, n, 1)],
    "acl.media.dvpp_jpeg_decode_async": [
        lambda b, p, n: acl.media.dvpp_jpeg_decode_async(b.channel, p, n, b.output, b.stream)
    ],
    "acl.media.dvpp_png_get_image_info": [lambda _, p, n: acl.media.dvpp_png_get_image_info(p, n)],
    "acl.media.dvpp_png_predict_dec_size": [lambda _, p, n: acl.media.dvpp_png_predict_dec_size(p, n, 12)],
    "acl.media.dvpp_png_decode_async": [
        lambda b, p, n: acl.media.dvpp_png_decode_async(b.channel, p, n, b.describe(b.device), b.stream)
    ],
    "acl.media.venc_set_channel_desc_buf_addr": [
        lambda b, p, _: acl.media.venc_set_channel_desc_buf_addr(b.encoder, p)
    ],
    "acl.media.venc_send_frame": [lambda b, p, _: acl.media.venc_send_frame(b.encoder, b.picture, p, 0, None)],
    "acl.util.ptr_to_bytes": [lambda _, p, n: acl.util.ptr_to_bytes(p, n)],
    "acl.util.ptr_to_numpy": [
        lambda _, p, n: acl.util.ptr_to_numpy(p, (n,), 2).max(),
        lambda _, p, n: acl.util.ptr_to_numpy(p, (n, n), 12).max(),
    ],
}
# The pointer is written to.
WRITES: dict[str, list[Call]] = {
    "acl.rt.memcpy": [lambda b, p, n: acl.rt.memcpy(p, TOP - 1, b.device, min(n, ROOM), 2)],
    "acl.rt.memcpy_async": [lambda b, p, n: acl.rt.memcpy_async(p, TOP - 1, b.device, min(n, ROOM), 2, b.stream)],
    "acl.rt.memcpy_async_with_condition": [
        lambda b, p, n: acl.rt.memcpy_async_with_condition(p, TOP - 1, b.device, min(n, ROOM), 3, b.stream)
    ],
    "acl.rt.memcpy2d": [
        lambda b, p, n: acl.rt.memcpy2d(p, n, b.device, 1, 1, 4, 2),
        lambda b, p, n: acl.rt.memcpy2d(p, ROOM, b.device, ROOM, min(n, ROOM), 1, 2),
    ],
    "acl.rt.memcpy2d_async": [lambda b, p, n: acl.rt.memcpy2d_async(p, n, b.device, 1, 1, 4, 2, b.stream)],
    "acl.rt.memset": [lambda _, p, n: acl.rt.memset(p, TOP - 1, 7, n)],
    "acl.rt.memset_async": [lambda b, p, n: acl.rt.memset_async(p, TOP - 1, 7, n, b.stream)],
    "acl.rt.reduce_async": [lambda b, p, n: acl.rt.reduce_async(p, b.device, min(n, ROOM), 10, 4, b.stream, 0)],
    "acl.rt.value_write": [lambda b, p, _: acl.rt.value_write(p, 1, 0, b.stream)],
    "acl.rt.get_overflow_status": [lambda b, p, _: acl.rt.get_overflow_status(p, 64, b.stream)],
    "acl.rt.set_memcpy_desc": [
        lambda b, p, n: acl.rt.set_memcpy_desc(p, 1, b.device, b.other, n, 0),
        lambda b, p, n: (
            acl.rt.set_memcpy_desc(b.copy, 1, b.device, p, min(n, ROOM), 0),
            acl.rt.memcpy_async_with_desc(b.copy, 1, b.stream),
        )[1],
    ],
    "acl.media.dvpp_set_pic_desc_data": [
        lambda b, p, _: acl.media.dvpp_vpc_resize_async(b.channel, b.picture, b.describe(p), 0, b.stream),
        lambda b, p, _: acl.media.dvpp_jpeg_decode_async(b.channel, b.file, b.file_size, b.describe(p), b.stream),
    ],
    "acl.media.dvpp_jpeg_encode_async": [
        lambda b, p, n: acl.media.dvpp_jpeg_encode_async(b.channel, b.picture, p, b.cell(n), 0, b.stream),
        lambda b, p, _: acl.media.dvpp_jpeg_encode_async(b.channel, b.picture, b.device, p, 0, b.stream),
    ],
}


# Calls that keep a pointer or look it up without touching what it points to: these may succeed with any.
UNTOUCHED = {
    "acl.create_data_buffer",
    "acl.update_data_buffer",
    "acl.rt.allocator_set_obj_to_desc",
    "acl.rt.pointer_get_attributes",
    "acl.rt.release_mem_address",
    "acl.rt.reserve_mem_address",
    "acl.rt.set_memcpy_desc",
    "acl.media.dvpp_set_stream_desc_data",
    "acl.media.dvpp_vpc_pyr_down_async",
    "acl.media.dvpp_vpc_calc_hist_async",
    "acl.media.venc_set_channel_desc_buf_addr",
}


def answer_of(bench: Bench, call: Call, ptr: int, size: int, must_fail: bool) -> str:
    """A sentence when a call answered, or its stream said afterwards, what it should not; else nothing."""
    try:
        answer = call(bench, ptr, size)
    except ValueError:
        return ""
    code = answer[-1] if isinstance(answer, tuple) else answer
    later = acl.rt.synchronize_stream_with_timeout(bench.stream, 20_000)
    for answer_code in (code, later):
        if isinstance(answer_code, int) and (
            answer_code not in codes.TABLE or answer_code in (500000, 200000, 507000, 507046)
        ):
            return f"answered {answer!r}, the stream {later}: {acl.get_recent_err_msg()}"
    return "succeeded" if must_fail and code == later == 0 else ""


def freed_array(size: int) -> int:
    array = numpy.ones(size, numpy.uint8)
    return int(array.ctypes.data)


def pages(rights: int, count: int = 2) -> int:
    address = _libc.mmap(None, (count + 1) * PAGE, rights, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    _libc.munmap(address + count * PAGE, PAGE)
    return int(address)


def nowhere() -> Iterator[tuple[str, int]]:
    """Addresses that can be neither read nor written."""
    for address in (0, 1, 8, 0xDEADBEEF, (1 << 47) - 8, 1 << 47, 1 << 48, 1 << 56, 1 << 63, TOP - 8, TOP - 1):
        yield f"{address:#x}", address
    yield "unmapped", pages(mmap.PROT_READ) + 2 * PAGE
    yield "no rights", pages(0)
    yield "no rights, odd", pages(0) + 3
    yield "freed large array", freed_array(64 << 20)
    freed = acl.rt.malloc(5000, 0)[0]
    acl.rt.free(freed)
    yield "freed device memory", freed
    large = acl.rt.malloc(300 << 20, 0)[0]
    acl.rt.free(large)
    yield "freed large device memory", large
    yield "nothing allocated", large + (2 << 30)
    yield "addresses without memory", acl.rt.reserve_mem_address(2 << 20, 0, 0, 0)[0]
    yield "a stream", acl.rt.create_stream()[0]
    yield "a description", acl.create_tensor_desc(0, [1], 2)


def readable() -> Iterator[tuple[str, int]]:
    """Addresses that may be read but must not be written."""
    yield "None", id(None)
    yield "a function", id(pages)
    yield "a module", id(acl)
    yield "freed small array", freed_array(1000)
    yield "read-only page", pages(mmap.PROT_READ)
    yield "end of a read-only page", pages(mmap.PROT_READ) + 2 * PAGE - 5
    for low, _, rights, name in foreign._maps():
        if name.strip() in ("[vvar]", "[vdso]", "[stack]", "[heap]") and rights.startswith("r"):
            yield name.strip(), low


def writable() -> Iterator[tuple[str, int]]:
    """Addresses that may be written, if not for as many bytes as are asked for."""
    yield "end of a page", pages(mmap.PROT_READ | mmap.PROT_WRITE) + 2 * PAGE - 5
    yield "end of an allocation", acl.rt.malloc(4 << 20, 0)[0] + (4 << 20) - 3
    yield "end of a small allocation", acl.rt.malloc(100, 0)[0] + 99
    yield "end of host memory", acl.rt.malloc_host(100)[0] + 99
    yield "end of a bytes object", acl.util.bytes_to_ptr(KEPT)
    yield "end of an array", acl.util.numpy_contiguous_to_ptr(ARRAY)[0]


KEPT = bytes(3)
ARRAY = numpy.zeros(3, numpy.uint8)


def main() -> None:
    """Make all the calls; prints what was wrong, then how many calls there were."""
    if "maps" in sys.argv[1:]:

        def old_kernel(*_arguments: int) -> int:
            ctypes.set_errno(errno.EINVAL)
            return -1

        foreign._madvise = old_kernel
    assert acl.init() == 0 and acl.rt.set_device(0) == 0
    bench, count, wrong = Bench(), 0, []
    sets: list[tuple[Iterator[tuple[str, int]], dict[str, list[Call]], bool]] = [
        (nowhere(), READS, True),
        (nowhere(), WRITES, True),
        (readable(), READS, False),
        (writable(), READS, False),
        (writable(), WRITES, False),
    ]
    for addresses, table, nothing_there in sets:
        for what, ptr in addresses:
            for name, calls in table.items():
                must_fail = nothing_there and (name not in UNTOUCHED or table is WRITES)
                for call in calls:
                    for size in [*SIZES, (TOP - ptr) % TOP or 5, (TOP - ptr + 64) % TOP or 5]:
                        count += 1
                        trouble = answer_of(bench, call, ptr, size, must_fail)
                        if trouble:
                            wrong.append(f"{name}({what}, {size}) {trouble}")
    for line in wrong[:20]:
        print(line)
    assert acl.rt.memset(bench.device, ROOM, 1, ROOM) == 0
    assert acl.util.ptr_to_bytes(bench.device, ROOM) == b"\1" * ROOM
    assert acl.finalize() == 0
    print(f"{count} calls, {len(wrong)} wrong")


def run(tmp_path: Path, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.faces.acl.misuse.test_hostile", *arguments]
    settings = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), str(ROOT)]),
        "HOME": str(tmp_path), "SOFTNPU_RUNTIME_DIR": str(tmp_path), **environment,
    }  # fmt: skip
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize(
    ("arguments", "check"), [((), ""), ((), "strict"), (("maps",), "")], ids=["plain", "strict", "old kernel"]
)
def test_no_pointer_crashes_the_interpreter(tmp_path: Path, arguments: tuple[str, ...], check: str) -> None:
    text = run(tmp_path, *arguments, SOFTNPU_CHECK=check)
    count, _, wrong = text.splitlines()[-1].partition(" calls, ")
    assert wrong == "0 wrong", text
    assert int(count) > 10_000
    logs = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*.log"))
    assert "internal error" not in logs


def test_every_function_with_a_pointer_is_in_the_tables() -> None:
    takes = {
        f"{module}.{name}"
        for module in MODULES
        for name, row in _rows.rows_of(module).items()
        if ": ptr" in row.args and _rows.body_of(module, name) is not None
    }
    assert takes <= READS.keys() | WRITES.keys()


@pytest.mark.usefixtures("runtime")
def test_functions_without_a_body_take_any_pointer() -> None:
    for module in ("acl.mdl", "acl.op", "acl.media", "acl.rt"):
        for name, row in _rows.rows_of(module).items():
            kinds = [kind for _, kind in row.arguments]
            if "ptr" not in kinds or row.optional or _rows.body_of(module, name) is not None:
                continue
            samples: dict[str, Any] = {"str": "x", "f32": 1.0, "f64": 1.0, "object": None}
            function = getattr(sys.modules[module], name)
            for ptr in (0, 8, 0xDEADBEEF, 1 << 63):
                arguments = [
                    ptr if kind == "ptr" else [] if kind.startswith("list") else samples.get(kind, 1) for kind in kinds
                ]
                answer = function(*arguments)
                code = answer[-1] if isinstance(answer, tuple) else answer
                assert code in (200001, 0, None), (name, answer)


if __name__ == "__main__":
    main()
