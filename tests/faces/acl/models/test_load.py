"""acl.mdl: load, query, unload, configuration objects, bundles."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acl
from softnpu.cli import atc
from tests.faces.acl.models.support import (
    INVALID,
    NOT_SUPPORTED,
    WEIGHT,
    Memory,
    Net,
    dataset,
    device,
    floats,
    host,
    load,
    om,
    proto,
)
from tests.support import in_thread, message, ok

PATH, DATA, ID, SMALL = 145002, 145006, 145003, 145000
NO_CONTEXT, NOT_STARTED = 107002, 100001
STALE = 107000  # what this face answers for every handle that was destroyed
FILE, FILE_MEM, MEM, MEM_MEM, FILE_Q, MEM_Q = range(1, 7)


@pytest.fixture(autouse=True)
def _engine(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_ENGINE", "onnxruntime")


@pytest.fixture
def data() -> Iterator[bytes]:
    yield om("two").read_bytes()


def works(number: int) -> None:
    """The model of this id computes what "two" computes."""
    a, b = floats(2, 3), floats(3)
    outputs = Memory(24), Memory(32)
    ok(acl.mdl.execute(number, dataset(device(a), device(b)), dataset(*outputs)))
    np.testing.assert_allclose(outputs[0].get(np.float32, 2, 3), a + b, rtol=1e-6)
    np.testing.assert_allclose(outputs[1].get(np.float32, 2, 4), a @ WEIGHT, rtol=1e-5, atol=1e-6)


# ---- files and memory ------------------------------------------------------------------------------------------------


def test_ids_count_from_one_and_are_not_used_again() -> None:
    assert acl.mdl.load_from_file(str(om("two"))) == (1, 0)
    assert acl.mdl.load_from_file(str(om("two"))) == (2, 0)
    assert acl.mdl.unload(1) == 0
    assert acl.mdl.load_from_file(str(om("relu"))) == (3, 0)
    works(2)


def test_a_model_is_loaded_from_memory(data: bytes) -> None:
    number, ret = acl.mdl.load_from_mem(host(data), len(data))
    assert (number, ret) == (1, 0)
    works(number)


def test_memory_may_change_after_loading(data: bytes) -> None:
    room = bytearray(data)
    number = ok(acl.mdl.load_from_mem(host(room), len(room)))
    room[:] = bytes(len(room))
    works(number)


@pytest.mark.parametrize("kind", ["missing", "folder", "empty"])
@pytest.mark.parametrize("call", ["load_from_file", "query_size", "bundle_load_from_file"])
def test_files_that_cannot_be_read(call: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "no.om"
    if kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.write_bytes(b"")
    answer = getattr(acl.mdl, call)(str(path))
    assert answer == ((0, 0, PATH) if call == "query_size" else (0, PATH))
    assert "no.om" in message()


@pytest.mark.parametrize("kept", [1, 100, 255, 256, 300, -1])
@pytest.mark.parametrize("where", ["file", "memory"])
def test_a_truncated_model_is_refused(kept: int, where: str, data: bytes, tmp_path: Path) -> None:
    part = data[:kept]
    path = tmp_path / "cut.om"
    path.write_bytes(part)
    if where == "file":
        answers = acl.mdl.load_from_file(str(path)), acl.mdl.query_size(str(path))
    else:
        answers = acl.mdl.load_from_mem(host(part), len(part)), acl.mdl.query_size_from_mem(host(part), len(part))
    assert answers == ((0, DATA), (0, 0, DATA))


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "picture.om"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" * 1000)
    assert acl.mdl.load_from_file(str(path)) == (0, DATA)


@pytest.mark.parametrize("seed", range(25))
def test_flipped_bytes_never_crash(seed: int, data: bytes, tmp_path: Path) -> None:
    """A damaged model answers a code or, where the damage does not matter, loads; a number is never made up."""
    random = np.random.default_rng(seed)
    broken = bytearray(data)
    for place in random.integers(0, len(data), 6):
        broken[place] ^= int(random.integers(1, 256))
    path = tmp_path / "broken.om"
    path.write_bytes(broken)
    number, ret = acl.mdl.load_from_file(str(path))
    assert ret == 0 or 145000 <= ret < 146000
    assert (number > 0) == (ret == 0)


@pytest.mark.parametrize(("address", "size"), [(0, 100), (0, 0)])
def test_a_null_address_is_refused(address: int, size: int) -> None:
    assert acl.mdl.load_from_mem(address, size) == (0, INVALID)
    assert acl.mdl.query_size_from_mem(address, size) == (0, 0, INVALID)
    assert acl.mdl.load_from_mem_with_mem(address, size, 0, 0, 0, 0) == (0, INVALID)


def test_memory_without_a_size(data: bytes) -> None:
    assert acl.mdl.load_from_mem(host(data), 0) == (0, INVALID)


def test_nothing_is_loaded_before_init(data: bytes) -> None:
    path = str(om("two"))
    ok(acl.finalize())
    assert acl.mdl.load_from_file(path)[1] == NOT_STARTED
    assert acl.mdl.load_from_mem(host(data), len(data))[1] == NOT_STARTED
    assert acl.mdl.query_size(path)[2] == NOT_STARTED


def test_nothing_is_loaded_without_a_context() -> None:
    path = str(om("two"))
    assert in_thread(lambda: acl.mdl.load_from_file(path)) == (0, NO_CONTEXT)


# ---- sizes, and memory of the caller ---------------------------------------------------------------------------------


def test_the_sizes_of_a_model_are_known_before_it_is_loaded(data: bytes) -> None:
    work, weight, ret = acl.mdl.query_size(str(om("two")))
    assert ret == 0
    assert weight >= WEIGHT.nbytes
    assert work >= 24 + 12 + 24 + 32  # the inputs and outputs live at the same time
    assert acl.mdl.query_size_from_mem(host(data), len(data)) == (work, weight, 0)


def test_query_size_of_a_range_model() -> None:
    assert acl.mdl.query_size(str(om("range"))) == (0, 0, NOT_SUPPORTED)


@pytest.mark.parametrize("own", ["both", "work", "weight", "none"])
def test_memory_of_the_caller(own: str, data: bytes) -> None:
    path = str(om("two"))
    work_size, weight_size = ok(acl.mdl.query_size(path))
    work = (ok(acl.rt.malloc(work_size, 0)), work_size) if own in ("both", "work") else (0, 0)
    weight = (ok(acl.rt.malloc(weight_size, 0)), weight_size) if own in ("both", "weight") else (0, 0)
    first = ok(acl.mdl.load_from_file_with_mem(path, *work, *weight))
    second = ok(acl.mdl.load_from_mem_with_mem(host(data), len(data), *work, *weight))
    assert second == first + 1
    works(first)
    works(second)


@pytest.mark.parametrize("short", ["work", "weight"])
def test_memory_of_the_caller_that_is_too_small(short: str, data: bytes) -> None:
    path = str(om("two"))
    sizes = dict(zip(("work", "weight"), ok(acl.mdl.query_size(path)), strict=True))
    rooms = {word: (ok(acl.rt.malloc(size, 0)), size - (word == short)) for word, size in sizes.items()}
    assert acl.mdl.load_from_file_with_mem(path, *rooms["work"], *rooms["weight"]) == (0, SMALL)
    assert acl.mdl.load_from_mem_with_mem(host(data), len(data), *rooms["work"], *rooms["weight"]) == (0, SMALL)
    assert f"{short} memory has {sizes[short] - 1} bytes" in message()
    assert load("two") == 1  # the refused ones took no number


def test_memory_of_the_caller_that_was_freed() -> None:
    path = str(om("two"))
    work, _ = ok(acl.mdl.query_size(path))
    room = ok(acl.rt.malloc(work, 0))
    ok(acl.rt.free(room))
    number, ret = acl.mdl.load_from_file_with_mem(path, room, work, 0, 0)
    assert number == 0 and ret != 0


# ---- unload ----------------------------------------------------------------------------------------------------------


def test_an_unloaded_model_is_gone_and_its_description_stays() -> None:
    net = Net("two")
    assert acl.mdl.unload(net.id) == 0
    assert acl.mdl.unload(net.id) == ID
    assert net.execute(floats(2, 3), floats(3)) == ID
    assert acl.mdl.get_desc(net.desc, net.id) == ID
    assert acl.mdl.get_num_inputs(net.desc) == 2  # a description keeps what it knows


@pytest.mark.parametrize("number", [0, 1, 99, (1 << 32) - 1])
def test_unload_of_an_unknown_id(number: int) -> None:
    assert acl.mdl.unload(number) == ID
    assert str(number) in message()


def test_many_models_come_and_go() -> None:
    before = ok(acl.rt.get_mem_info(1))[0]
    for _ in range(30):
        ok(acl.mdl.unload(load("two")))
    assert ok(acl.rt.get_mem_info(1))[0] == before


def test_finalize_forgets_models() -> None:
    load("two")
    ok(acl.finalize())
    ok(acl.init())
    ok(acl.rt.set_device(0))
    assert acl.mdl.unload(1) == ID
    assert load("two") == 1


# ---- configuration objects -------------------------------------------------------------------------------------------


def config(*rows: tuple[int, Any]) -> int:
    handle: int = acl.mdl.create_config_handle()
    assert type(handle) is int and handle > 0
    for attr, value in rows:
        assert acl.mdl.set_config_opt(handle, attr, value) == 0, message()
    return handle


@pytest.mark.parametrize("kind", [FILE, FILE_MEM, MEM, MEM_MEM])
def test_a_configuration_says_where_the_model_is(kind: int, data: bytes) -> None:
    path = str(om("two"))
    work, weight = ok(acl.mdl.query_size(path))
    rows: list[tuple[int, Any]] = [(0, 3), (1, kind)]
    rows += [(2, path)] if kind in (FILE, FILE_MEM) else [(3, host(data)), (4, len(data))]
    if kind in (FILE_MEM, MEM_MEM):
        rows += [(5, ok(acl.rt.malloc(weight, 0))), (6, weight), (7, ok(acl.rt.malloc(work, 0))), (8, work), (13, 1)]
    handle = config(*rows)
    works(ok(acl.mdl.load_with_config(handle)))
    assert acl.mdl.destroy_config_handle(handle) == 0


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([], INVALID),
        ([(1, FILE)], INVALID),
        ([(1, FILE_MEM), (5, 4096), (6, 10)], INVALID),
        ([(1, MEM)], INVALID),
        ([(1, MEM), (3, 4096)], INVALID),
        ([(1, MEM), (4, 4096)], INVALID),
        ([(1, MEM_MEM)], INVALID),
        ([(1, FILE), (2, "/does/not/exist.om")], PATH),
        ([(1, FILE_Q), (2, "x.om")], NOT_SUPPORTED),
        ([(1, MEM_Q)], NOT_SUPPORTED),
    ],
)
def test_load_with_an_incomplete_config(rows: list[tuple[int, Any]], code: int) -> None:
    assert acl.mdl.load_with_config(config(*rows)) == (0, code)


def test_config_with_too_little_memory() -> None:
    rows = [(1, FILE_MEM), (2, str(om("two"))), (7, ok(acl.rt.malloc(64, 0))), (8, 64)]
    assert acl.mdl.load_with_config(config(*rows)) == (0, SMALL)


@pytest.mark.parametrize(
    ("attr", "value"), [(0, 8), (0, -1), (1, 0), (1, 7), (29, 0), (-1, 0), (1000, 1)], ids=lambda one: str(one)
)
def test_config_values_out_of_range(attr: int, value: int) -> None:
    assert acl.mdl.set_config_opt(config(), attr, value) == INVALID


@pytest.mark.parametrize("priority", [0, 7])
def test_priorities_of_the_configuration_are_accepted(priority: int) -> None:
    assert acl.mdl.set_config_opt(config(), 0, priority) == 0


@pytest.mark.parametrize(("attr", "value"), [(0, "3"), (2, 5), (2, None), (4, 1.5), (3, "x"), (8, b"9")])
def test_config_values_of_the_wrong_type(attr: int, value: Any) -> None:
    with pytest.raises(TypeError, match="set_config_opt"):
        acl.mdl.set_config_opt(config(), attr, value)


def test_configuration_handles_end_once() -> None:
    handle = config((1, FILE))
    assert acl.mdl.destroy_config_handle(handle) == 0
    assert acl.mdl.destroy_config_handle(handle) == STALE
    assert acl.mdl.destroy_config_handle(0) == INVALID
    assert acl.mdl.set_config_opt(handle, 1, FILE) == STALE
    assert acl.mdl.load_with_config(handle) == (0, STALE)
    assert acl.mdl.load_with_config(0) == (0, INVALID)


def test_a_config_serves_several_times() -> None:
    handle = config((1, FILE), (2, str(om("two"))))
    assert [acl.mdl.load_with_config(handle) for _ in range(2)] == [(1, 0), (2, 0)]
    ok(acl.mdl.set_config_opt(handle, 2, str(om("relu"))))
    assert acl.mdl.load_with_config(handle) == (3, 0)


# ---- bundles and queues ----------------------------------------------------------------------------------------------


def test_bundles_are_refused_by_name(data: bytes) -> None:
    assert acl.mdl.bundle_load_from_file(str(om("two")))[0] == 0
    assert acl.mdl.bundle_load_from_file(str(om("two")))[1] != 0
    assert acl.mdl.bundle_load_from_mem(host(data), len(data))[1] != 0
    assert "load_from_file" in message()


@pytest.mark.parametrize("number", [0, 1, 77])
def test_unknown_bundles_are_refused(number: int) -> None:
    load("two")
    assert acl.mdl.bundle_get_model_num(number) == (0, 148053)
    assert acl.mdl.bundle_get_model_id(number, 0) == (0, 148053)
    assert acl.mdl.bundle_unload(number) == 148053


def test_queues_are_not_supported(data: bytes) -> None:
    assert acl.mdl.load_from_file_with_q(str(om("two")), 0, 0, 0, 0) == (0, NOT_SUPPORTED)
    assert acl.mdl.load_from_mem_with_q(host(data), len(data), 0, 0, 0, 0) == (0, NOT_SUPPORTED)


def test_a_weight_file_beside_the_model_must_be_there(tmp_path: Path) -> None:
    source = tmp_path / "m.onnx"
    source.write_bytes(proto("two").SerializeToString())
    words = [f"--model={source}", "--framework=5", f"--output={tmp_path / 'm'}", "--soc_version=Ascend310P3"]
    assert atc.main([*words, "--external_weight=1"]) == 0
    path = tmp_path / "m.om"
    works(ok(acl.mdl.load_from_file(str(path))))
    blob = path.read_bytes()
    number, ret = acl.mdl.load_from_mem(host(blob), len(blob))
    assert number == 0 and ret != 0 and "beside" in message()
    (weights,) = (tmp_path / "weight").iterdir()
    assert struct.unpack("<f", weights.read_bytes()[:4])[0] == pytest.approx(float(WEIGHT[0, 0]))
    weights.unlink()
    number, ret = acl.mdl.load_from_file(str(path))
    assert number == 0 and ret != 0 and "weight" in message()
