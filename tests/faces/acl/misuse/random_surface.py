"""A program that calls the whole declared surface of `acl` at random from several threads.

    python random_surface.py CALLS SEED [THREADS]

Arguments are valid (live handles, good pointers), at the edge, stale, of the wrong kind, or of the wrong type. Every answer is
compared with the return shape of its row. A watchman drops the tasks of all streams now and then, since a random
program also makes streams wait for what never comes. Prints one line of figures; any deviation ends with exit code 1.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import mmap
import os
import random
import sys
import threading
import time
import tomllib
import warnings
from pathlib import Path

import numpy as np

import acl
import softnpu
from softnpu.runtime.process import SURVIVES_FINALIZE, process

SPEC = Path(softnpu.__file__).parent / "spec/api"
M64 = (1 << 64) - 1
SCALARS = {
    "i16",
    "i32",
    "i64",
    "u8",
    "u32",
    "u64",
    "ptr",
    "f32",
    "f64",
    "str",
    "bytes",
    "ndarray",
    "tuple",
    "dict",
    "callable",
    "callable?",
    "object",
}
WRONG = [
    None,
    1.5,
    "x",
    b"x",
    [],
    {},
    (),
    object(),
    np.int64(3),
    True,
    float("nan"),
    2**200,
    -(2**200),
    lambda: None,
    [1, "a"],
    "\0",
    "ü" * 300,
]
TYPES = {"int": int, "float": float, "str": str, "dict": dict, "list": list, "bytes": bytes, "ndarray": np.ndarray}
BASES = {"acl": acl} | {
    f"acl.{name}": getattr(acl, name) for name in ["rt", "mdl", "op", "blas", "prof", "fv", "util", "media", "himpi"]
}
RARE = {"init": 0.02, "finalize": 0.01, "finalize_reference": 0.02, "reset_device_force": 0.05, "reset_device": 0.2}


class Row:
    """A declared function: how to call it and what it may answer."""

    def __init__(self, module, row):
        self.label = f"{module}.{row['name']}"
        self.name = row["name"]
        self.function = getattr(BASES[module], row["name"])
        self.kinds = [part.split(":")[1].strip() for part in row["args"].split(",") if part.strip()]
        self.names = [part.split(":")[0].strip() for part in row["args"].split(",") if part.strip()]
        self.optional = row.get("optional", 0)
        self.returns = [] if row["returns"] == "none" else [item.strip() for item in row["returns"].split(",")]
        self.made = self.maker(row["args"])

    def maker(self, _):
        """The handle kind that a success puts first in its answer."""
        makers = {
            "create_context": "context", "create_stream": "stream", "create_stream_with_config": "stream", "create_event": "event",
            "create_event_with_flag": "event", "create_event_ex_with_flag": "event", "create_notify": "notify",
            "create_tensor_desc": "tensor_desc", "create_data_buffer": "data_buffer", "create_dataset": "dataset",
            "allocator_create_desc": "allocator_desc", "malloc_physical": "physical_mem", "malloc": "ptr", "malloc_host": "ptr",
            "malloc_align32": "ptr", "malloc_cached": "ptr", "malloc_with_cfg": "ptr", "malloc_host_with_cfg": "ptr", "reserve_mem_address": "ptr",
            "start_thread": "tid", "ipc_mem_get_export_key": "key", "notify_get_export_key": "key", "get_context": "context",
            "ctx_get_current_default_stream": "stream", "dvpp_malloc": "ptr", "dvpp_get_pic_desc": "pic_desc",
            **{f"dvpp_create_{kind}": kind for kind in ("channel_desc", "pic_desc", "stream_desc", "batch_pic_desc", "roi_config", "resize_config", "border_config", "jpege_config", "hist", "lut_map")},
        }  # fmt: skip
        return makers.get(self.name)

    def check(self, answer):
        """Whether an answer has the documented shape."""
        if len(self.returns) != 1:
            if not self.returns:
                return answer is None
            return (
                type(answer) is tuple and len(answer) == len(self.returns) and all(map(self.item, self.returns, answer))
            )
        return self.item(self.returns[0], answer)

    def item(self, text, value):
        """Whether one item fits `ret`, `name: type` or `name: type = default`."""
        if text == "ret":
            return type(value) is int
        kind, _, default = (part.strip() for part in text.partition(":")[2].partition("="))
        return isinstance(value, TYPES[kind]) or (default == "None" and value is None)


class Pool:
    """Values that calls gave and later calls may use, live or dead, shared by all threads."""

    def __init__(self):
        self.values = {}

    def add(self, kind, value):
        kept = self.values.setdefault(kind, [])
        kept.append(value)
        if len(kept) > 40:
            del kept[random.randrange(len(kept) - 5)]

    def any(self, rng, kind):
        kept = self.values.get(kind)
        return kept[rng.randrange(len(kept))] if kept else 0


POOL = Pool()
ARRAY = np.arange(4096, dtype=np.uint8)
PAGES = mmap.mmap(-1, 3 << 20)  # foreign memory that nobody told us about, between two walls that stop a long write
PAGES_AT = np.frombuffer(PAGES, np.uint8).ctypes.data + (1 << 20)
mprotect = ctypes.CDLL(None).mprotect
for wall in (PAGES_AT - (1 << 20), PAGES_AT + (1 << 20)):
    assert mprotect(ctypes.c_void_p(wall), ctypes.c_size_t(1 << 20), 0) == 0
BYTES = bytes(range(256)) * 16
FAILURES = []


def integer(rng, kind):
    edges = [
        0,
        1,
        -1,
        2,
        3,
        7,
        8,
        63,
        64,
        65,
        255,
        256,
        4095,
        4096,
        2**31 - 1,
        -(2**31),
        2**31,
        2**32 - 1,
        2**32,
        2**47,
        2**63 - 1,
        2**63,
        M64,
        M64 + 1,
        -(2**63),
    ]
    if rng.random() < 0.75:
        return (
            rng.randrange(0, 16)
            if kind in ("i32", "u8", "u32", "i16")
            else rng.choice([1, 2, 8, 16, 64, 100, 512, 1024])
        )
    value = rng.choice(edges)
    limits = {"i16": 2**15, "i32": 2**31, "i64": 2**63}
    if kind in limits:
        return value if rng.random() < 0.1 else max(-limits[kind], min(limits[kind] - 1, value))
    return value & 255 if kind == "u8" else value


def pointer(rng):
    choice = rng.random()
    if choice < 0.6:
        return POOL.any(rng, "ptr")
    if choice < 0.7:
        return POOL.any(rng, "ptr") + rng.choice([1, 8, 64, 100, 4096, 1 << 21])
    if choice < 0.75:
        return acl.util.numpy_to_ptr(ARRAY) + rng.randrange(64)
    if choice < 0.8:
        return PAGES_AT + rng.randrange(64)
    if choice < 0.9:
        return acl.util.bytes_to_ptr(BYTES)
    return rng.choice(
        [0, 1, 8, 0xDEADBEEF, 2**47 - 8, 2**48, 2**63, M64, POOL.any(rng, "stream"), POOL.any(rng, "tensor_desc")]
    )


def argument(rng, kind, name):
    if rng.random() < 0.04:
        return rng.choice(WRONG)
    if kind == "ptr":
        return pointer(rng)
    if name == "tid":
        return POOL.any(rng, "tid")
    if name in ("timeout_ms", "timeout", "ms"):  # short: who waits long for what nobody sends would look like a hang
        return rng.choice([0, 1, 2, 5, -2])
    if name == "thread_id":
        return rng.choice([threading.get_ident(), threading.get_ident(), 0, 12345])
    if name == "key":
        return rng.choice([POOL.any(rng, "key") or "", "softnpu-" + "0" * 32, "../../etc/passwd", ""])
    if name == "level":
        return rng.choice([0, 1, 2, 3, 9])
    if kind in ("i16", "i32", "i64", "u8", "u32", "u64"):
        return integer(rng, kind)
    if kind in ("f32", "f64"):
        return rng.choice([0.0, 1.5, -2, 65504.0, 1e30, float("inf"), float("nan")])
    if kind == "str":
        return rng.choice(["", "x", "Add", "/nonexistent/file", "/tmp", "conv1", "名", "a" * 2000])
    if kind == "bytes":
        return rng.choice([b"", b"abc", BYTES])
    if kind == "ndarray":
        return rng.choice([ARRAY, ARRAY[::2], np.empty(0), np.ones((2, 3), np.float16)])
    if kind == "tuple":
        return rng.choice([(), (1,), (2, 3), (-1,), ("a",), (10**9, 10**9)])
    if kind == "dict":
        return rng.choice(
            [
                {},
                {"numAttrs": 0, "attrs": []},
                {"location": {"id": 0, "type": 1}},
                {"failureMode": 0},
                {"overflowSwitch": 1},
                {1: 2},
                {"location": 5},
            ]
        )
    if kind in ("callable", "callable?"):
        return rng.choice([lambda *a: 0, lambda *a: 1 / 0, len])
    if kind == "object":
        return rng.choice([None, 1, [1, 2], "data", {"a": 1}])
    if kind.startswith("list"):
        inner = kind[5:-1] or "object"
        return [argument(rng, inner, "item") for _ in range(rng.choice([0, 1, 2, 4]))]
    handle = kind.rstrip("!?")
    choice = rng.random()
    if choice < 0.8:
        return POOL.any(rng, handle)
    return rng.choice(
        [0, 1, 12345, POOL.any(rng, "stream"), POOL.any(rng, "event"), POOL.any(rng, "ptr"), 0x5E03000000000010, M64]
    )


def call(rng, row):
    count = len(row.kinds)
    if rng.random() < 0.01:
        count = rng.randrange(0, count + 2)
    args = [argument(rng, kind, name) for kind, name in zip(row.kinds[:count], row.names[:count], strict=True)]
    args += [0] * (count - len(args))
    if row.name == "start_thread" and rng.random() < 0.9:
        args = [lambda *a: None, None]
    try:
        answer = row.function(*args)
    except (TypeError, ValueError):
        return
    except RuntimeError as error:
        if row.name not in ("stop_thread", "get_group_info_detail"):
            FAILURES.append(f"{row.label}{tuple(args)!r} raised {error!r}")
        return
    except BaseException as error:
        FAILURES.append(f"{row.label}{tuple(args)!r} raised {error!r}")
        return
    if not row.check(answer):
        FAILURES.append(f"{row.label}{tuple(args)!r} answered {answer!r}, declared {row.returns}")
    if row.made is not None and answer not in (None, 0):
        first, code = answer if isinstance(answer, tuple) else (answer, 0)
        if code == 0 and first:
            POOL.add(row.made, first)
            if row.made == "ptr" and rng.random() < 0.7:
                acl.rt.free(first) if row.name.startswith("malloc") and "host" not in row.name else acl.rt.free_host(
                    first
                )


def worker(rows, weights, calls, seed):
    rng = random.Random(seed)
    chosen = rng.choices(rows, weights, k=calls)
    for number, row in enumerate(chosen):
        if number % 50 == 0:
            acl.init()
            acl.rt.set_device(rng.randrange(2))
            for make in (acl.rt.create_stream, acl.rt.create_event):
                value, ret = make()
                if ret == 0:
                    POOL.add(make.__name__.removeprefix("create_"), value)
        call(rng, row)
        if len(FAILURES) > 20:
            return


def watchman(stop):
    while not stop.wait(0.02):
        for stream in [stream for device in list(process().devices) for stream in process().registry.streams(device)]:
            stream.abort()


def everything():
    rows = []
    for path in sorted(SPEC.glob("*.toml")):
        spec = tomllib.loads(path.read_text())
        rows += [Row(spec["module"], row) for row in spec["function"]]
    busy = {"acl", "acl.rt", "acl.util"}
    weights = [RARE.get(row.name, 1.0) * (3.0 if row.label.rpartition(".")[0] in busy else 1.0) for row in rows]
    return rows, weights


def clean():
    """Back to the beginning: destroy what survives finalize, forget the pool."""
    owner = process()
    acl.init()  # a thread that lost a race with finalize may have left something behind: a whole round sweeps it
    acl.finalize()
    for kind in (*SURVIVES_FINALIZE, "allocator_desc"):
        for handle, _, _ in owner.handles.live(kind):
            owner.handles.discard(handle)
    from softnpu.runtime import threads

    for ident in list(threads._threads):
        with contextlib.suppress(RuntimeError):
            acl.util.stop_thread(ident)
    POOL.values.clear()
    gc.collect()


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    calls, seed = int(sys.argv[1]), int(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 4
    faulthandler.dump_traceback_later(float(os.environ.get("FUZZ_LIMIT", "240")), exit=True)
    warnings.simplefilter("ignore")
    rows, weights = everything()
    stop = threading.Event()
    threading.Thread(target=watchman, args=(stop,), daemon=True).start()
    import onnx.shape_inference  # noqa: F401  what single operators need is loaded before memory is compared
    import onnxruntime  # noqa: F401

    start = time.perf_counter()
    levels = []
    for part in range(4):
        group = [
            threading.Thread(target=worker, args=(rows, weights, calls // 4 // count, seed * 1000 + part * 100 + i))
            for i in range(count)
        ]
        for thread in group:
            thread.start()
        for thread in group:
            thread.join()
        clean()
        levels.append((resident(), len(os.listdir("/proc/self/fd")), threading.active_count()))
    elapsed = time.perf_counter() - start
    stop.set()
    live = process().memory.allocator.live_allocations()
    if live:
        FAILURES.append(f"{len(live)} allocations live after finalize, e.g. {live[0].describe()}")
    if len(process().handles):
        FAILURES.append(f"{len(process().handles)} handles left: {process().handles.live()[:3]}")
    if levels[-1][0] > levels[1][0] + (24 << 20):
        FAILURES.append(f"memory grows: {[level[0] >> 20 for level in levels]} MiB")
    if levels[-1][1] > levels[1][1] + 2:
        FAILURES.append(f"file descriptors grow: {[level[1] for level in levels]}")
    for failure in FAILURES[:20]:
        print("FAILED", failure[:600])
    print(
        f"{calls} calls of {len(rows)} functions in {elapsed:.1f} s from {count} threads; MiB, descriptors, threads after each quarter: {[(a >> 20, b, c) for a, b, c in levels]}"
    )
    return int(bool(FAILURES))


if __name__ == "__main__":
    sys.stdout.flush()
    code = main()
    sys.stdout.flush()
    sys.exit(code)
