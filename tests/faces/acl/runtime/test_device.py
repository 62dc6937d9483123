"""Devices."""

from __future__ import annotations

import os
import threading

import pytest

import acl
from tests.support import Hold, in_thread, message, ok

INVALID_PARAM, NO_CONTEXT, BAD_DEVICE, BAD_VALUE = 100000, 107002, 107001, 107000
NOT_SUPPORTED, SYNC_TIMEOUT, STREAM_ABORT = 207000, 507046, 107023


@pytest.fixture
def started(fresh: None) -> None:
    """acl.init is done, no device is set."""
    ok(acl.init())


# ---- set and reset -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [-1, 2, 2**31 - 1, -(2**31)])
def test_an_unknown_device_is_refused(index: int, started: None) -> None:
    assert acl.rt.set_device(index) == BAD_DEVICE
    assert str(index) in message()
    assert acl.rt.reset_device(index) == BAD_DEVICE
    assert acl.rt.create_context(index) == (0, BAD_DEVICE)
    assert acl.rt.get_primary_ctx_state(index) == (0, 0, BAD_DEVICE)
    assert acl.rt.query_device_status(index) == (0, BAD_DEVICE)


def test_set_device_makes_the_default_context_current(started: None) -> None:
    assert acl.rt.get_device() == (0, NO_CONTEXT)
    assert acl.rt.get_context() == (0, NO_CONTEXT)
    assert acl.rt.get_primary_ctx_state(1) == (0, 0, 0)
    ok(acl.rt.set_device(1))
    assert acl.rt.get_device() == (1, 0)
    assert acl.rt.get_primary_ctx_state(1) == (1, 0, 0)
    assert acl.rt.get_primary_ctx_state(0) == (0, 0, 0)
    context = ok(acl.rt.get_context())
    ok(acl.rt.set_device(1))
    assert acl.rt.get_context() == (context, 0), "the default context is made once per device"
    ok(acl.rt.set_device(0))
    assert acl.rt.get_device() == (0, 0)
    assert ok(acl.rt.get_context()) != context


def test_uses_are_counted(started: None) -> None:
    ok(acl.rt.set_device(0))
    ok(acl.rt.set_device(0))
    in_thread(lambda: ok(acl.rt.set_device(0)))
    for _ in range(2):
        ok(acl.rt.reset_device(0))
        assert acl.rt.get_device() == (0, 0), "one use is left"
    ok(acl.rt.reset_device(0))
    assert acl.rt.get_device() == (0, NO_CONTEXT)
    assert acl.rt.get_primary_ctx_state(0) == (0, 0, 0)
    assert acl.rt.reset_device(0) in (BAD_DEVICE, NO_CONTEXT)
    assert "reset_device" in message()


def test_reset_of_a_device_that_was_never_set(started: None) -> None:
    assert acl.rt.reset_device(0) in (BAD_DEVICE, NO_CONTEXT)
    assert acl.rt.reset_device_force(1) in (BAD_DEVICE, NO_CONTEXT)


def test_force_ignores_the_count(started: None) -> None:
    for _ in range(5):
        ok(acl.rt.set_device(0))
    ok(acl.rt.reset_device_force(0))
    assert acl.rt.get_device() == (0, NO_CONTEXT)


def test_reset_ends_the_default_context_in_all_threads(started: None) -> None:
    ready, go = threading.Event(), threading.Event()
    answers = []

    def work() -> None:
        ok(acl.rt.set_device(0))
        ready.set()
        assert go.wait(20)
        answers.append(acl.rt.get_device())

    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(20)
    ok(acl.rt.reset_device(0))
    go.set()
    thread.join(20)
    assert answers == [(0, NO_CONTEXT)]


def test_device_works_again_after_reset(started: None) -> None:
    for _ in range(3):
        ok(acl.rt.set_device(0))
        ok(acl.rt.synchronize_stream(ok(acl.rt.create_stream())))
        ok(acl.rt.reset_device(0))


def test_reset_leaves_explicit_contexts_alone(started: None) -> None:
    ok(acl.rt.set_device(0))
    context = ok(acl.rt.create_context(0))
    stream = ok(acl.rt.create_stream())
    ok(acl.rt.reset_device(0))
    assert acl.rt.get_context() == (context, 0)
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.destroy_context(context))


def test_reset_after_the_context_is_gone(started: None) -> None:
    """The order of many destructors: device set, explicit context destroyed, device reset, finalize."""
    ok(acl.rt.set_device(0))
    context = ok(acl.rt.create_context(0))
    ok(acl.rt.create_stream())
    ok(acl.rt.malloc(1000, 0))
    ok(acl.rt.destroy_context(context))
    ok(acl.rt.reset_device(0))
    ok(acl.finalize())


def test_reset_while_a_stream_is_busy_does_not_wait(started: None) -> None:
    ok(acl.rt.set_device(0))
    Hold(ok(acl.rt.create_stream()))  # never released
    assert in_thread(lambda: acl.rt.reset_device(0)) == 0


# ---- facts -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(("setting", "count"), [("1", 1), ("16", 16), ("host:3", 3), ("host,host,host", 3)])
def test_the_environment_chooses_the_number_of_devices(
    setting: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOFTNPU_DEVICES", setting)
    assert acl.rt.get_device_count() == (count, 0)
    ok(acl.init())
    assert acl.rt.get_device_count() == (count, 0)
    ok(acl.rt.set_device(count - 1))
    assert acl.rt.set_device(count) == BAD_DEVICE


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(("setting", "mode"), [("host", 1), ("device", 0)])
def test_the_environment_chooses_the_run_mode(setting: str, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_RUN_MODE", setting)
    assert acl.rt.get_run_mode() == (mode, 0)


@pytest.mark.usefixtures("runtime")
def test_device_info_has_the_numbers_of_the_chip() -> None:
    # AI CPUs, AI cores, cube cores, vector cores, memory, L2 of Ascend910B3.
    expected = {1: 6, 101: 20, 102: 20, 201: 40, 301: 64 << 30, 302: 192 << 20, 402: 1, 501: 0}
    for attribute, value in expected.items():
        assert acl.rt.get_device_info(1, attribute) == (value, 0), attribute
    assert acl.rt.get_device_info(0, 999)[1] != 0
    assert acl.rt.get_device_info(5, 101) == (0, BAD_DEVICE)


@pytest.mark.usefixtures("runtime")
def test_priorities_status_and_capabilities_of_a_device_are_known() -> None:
    assert acl.rt.device_get_stream_priority_range() == (7, 0, 0)
    assert acl.rt.query_device_status(0) == (0, 0)
    assert acl.rt.device_get_bare_tgid() == (os.getpid(), 0)
    assert acl.rt.get_device_capability(0, 1)[0] in (0, 1)
    assert acl.rt.get_device_capability(0, 2) == (0, INVALID_PARAM)
    rates = ok(acl.rt.get_device_utilization_rate(0))
    assert set(rates) == {
        "cube_utilization", "vector_utilization", "aicpu_utilization", "memory_utilization", "utilization_extend",
    }  # fmt: skip
    assert all(0 <= rates[f"{unit}_utilization"] <= 100 for unit in ("cube", "vector", "aicpu"))
    assert rates["utilization_extend"] == 0


@pytest.mark.usefixtures("runtime")
def test_every_device_has_a_uuid_of_its_own() -> None:
    first, second = (ok(acl.rt.device_get_uuid(index))["bytes"] for index in (0, 1))
    assert len(first) == len(second) == 16
    assert all(type(byte) is int and 0 <= byte <= 255 for byte in first)
    assert first != second
    assert first == ok(acl.rt.device_get_uuid(0))["bytes"]


@pytest.mark.usefixtures("runtime")
def test_user_logic_and_physical_numbers_are_translated() -> None:
    for function in (
        acl.rt.get_logic_dev_id_by_user_dev_id,
        acl.rt.get_user_dev_id_by_logic_dev_id,
        acl.rt.get_logic_dev_id_by_phy_dev_id,
        acl.rt.get_phy_dev_id_by_logic_dev_id,
    ):
        assert [function(index) for index in (0, 1)] == [(0, 0), (1, 0)]
        assert [function(index) for index in (-1, 2)] == [(0, BAD_DEVICE)] * 2


@pytest.mark.usefixtures("runtime")
def test_devices_are_joined_by_hccs() -> None:
    assert acl.rt.get_devices_topo(0, 1) == (1, 0)  # HCCS
    assert acl.rt.get_devices_topo(0, 2) == (0, BAD_DEVICE)


@pytest.mark.usefixtures("runtime")
def test_only_task_schedulers_that_exist_can_be_set() -> None:
    assert [acl.rt.set_ts_device(number) for number in (0, 1)] == [0, 0]
    assert acl.rt.set_ts_device(2) == INVALID_PARAM


# ---- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("runtime")
def test_the_saturation_mode_is_kept_and_checked() -> None:
    for mode in (0, 1):
        ok(acl.rt.set_device_sat_mode(mode))
        assert acl.rt.get_device_sat_mode() == (mode, 0)
    assert acl.rt.set_device_sat_mode(3) == INVALID_PARAM
    assert acl.rt.get_device_sat_mode() == (1, 0)


@pytest.mark.usefixtures("runtime")
def test_the_overflow_status_needs_64_bytes() -> None:
    pointer = ok(acl.rt.malloc(64, 0))
    ok(acl.rt.memset(pointer, 64, 0xFF, 64))
    assert acl.rt.get_overflow_status(pointer, 32, 0) != 0, "64 bytes are needed"
    ok(acl.rt.reset_overflow_status(0))
    ok(acl.rt.get_overflow_status(pointer, 64, 0))
    ok(acl.rt.synchronize_stream(0))
    assert acl.util.ptr_to_bytes(pointer, 64) == bytes(64)
    assert acl.rt.get_overflow_status(0, 64, 0) == INVALID_PARAM


@pytest.mark.usefixtures("runtime")
def test_every_device_has_core_limits_of_its_own() -> None:
    assert [acl.rt.get_device_res_limit(0, kind) for kind in (0, 1)] == [(20, 0), (40, 0)]
    ok(acl.rt.set_device_res_limit(0, 1, 8))
    assert [acl.rt.get_device_res_limit(0, kind) for kind in (0, 1)] == [(20, 0), (8, 0)]
    assert acl.rt.get_device_res_limit(1, 1) == (40, 0), "each device has its own"
    assert acl.rt.set_device_res_limit(0, 1, 41) != 0
    assert acl.rt.set_device_res_limit(0, 0, 0) != 0
    assert acl.rt.set_device_res_limit(0, 2, 1) == INVALID_PARAM
    assert acl.rt.get_device_res_limit(0, 2) == (0, INVALID_PARAM)
    ok(acl.rt.reset_device_res_limit(0))
    assert acl.rt.get_device_res_limit(0, 1) == (40, 0)


def test_device_limits_have_defaults_and_can_be_set(started: None) -> None:
    defaults = [1152, 1024, 32768, 32768, 2 << 20]
    assert [ok(acl.rt.device_get_limit(limit)) for limit in range(5)] == defaults
    ok(acl.rt.device_set_limit(2, 65536))
    assert acl.rt.device_get_limit(2) == (65536, 0)
    assert acl.rt.device_set_limit(5, 1) == NOT_SUPPORTED
    assert acl.rt.device_get_limit(-1) == (0, NOT_SUPPORTED)


@pytest.mark.usefixtures("runtime")
def test_peer_access_is_between_two_devices() -> None:
    assert acl.rt.device_can_access_peer(0, 1) == (1, 0)
    assert acl.rt.device_can_access_peer(1, 1) == (0, INVALID_PARAM)
    assert acl.rt.device_can_access_peer(0, 2) == (0, BAD_DEVICE)
    assert acl.rt.device_peer_access_status(0, 1) == (0, 0)
    assert acl.rt.device_enable_peer_access(1, 1) == 200006
    assert acl.rt.device_enable_peer_access(0, 0) == INVALID_PARAM
    ok(acl.rt.device_enable_peer_access(1, 0))
    assert acl.rt.device_peer_access_status(0, 1) == (1, 0)
    assert acl.rt.device_peer_access_status(1, 0) == (0, 0)
    ok(acl.rt.device_disable_peer_access(1))
    assert acl.rt.device_peer_access_status(0, 1) == (0, 0)


# ---- waiting -----------------------------------------------------------------------------------------------------------


def test_synchronize_needs_a_context(started: None) -> None:
    assert acl.rt.synchronize_device() == NO_CONTEXT


@pytest.mark.usefixtures("runtime")
def test_synchronize_waits_for_all_streams_of_the_device() -> None:
    own = ok(acl.rt.create_stream())
    other = ok(acl.rt.create_context(0))
    theirs = ok(acl.rt.create_stream())
    pointer = ok(acl.rt.malloc(16, 0))
    ok(acl.rt.memset(pointer, 16, 0, 16))
    hold = Hold(theirs)
    ok(acl.rt.value_write(pointer, 1, 0, theirs))
    release = threading.Timer(0.1, lambda: in_context(other, hold.release))
    release.start()
    ok(acl.rt.set_device(0))
    ok(acl.rt.value_write(pointer + 8, 1, 0, own))
    ok(acl.rt.synchronize_device())
    assert acl.util.ptr_to_bytes(pointer, 16) == (1).to_bytes(8, "little") * 2
    release.join(20)


def in_context(context: int, work: object) -> None:
    ok(acl.rt.set_context(context))
    assert callable(work)
    work()


@pytest.mark.usefixtures("runtime")
def test_synchronize_with_timeout() -> None:
    stream = ok(acl.rt.create_stream())
    assert [acl.rt.synchronize_device_with_timeout(bad) for bad in (0, -2)] == [BAD_VALUE] * 2
    ok(acl.rt.synchronize_device_with_timeout(-1))
    with Hold(stream):
        assert acl.rt.synchronize_device_with_timeout(30) == SYNC_TIMEOUT
        assert "stream" in message()
    ok(acl.rt.synchronize_device_with_timeout(20_000))


@pytest.mark.usefixtures("runtime")
def test_synchronize_tells_the_first_task_error() -> None:
    stream = ok(acl.rt.create_stream())
    host = ok(acl.rt.malloc_host(64))
    ok(acl.rt.memcpy_async(host, 32, host + 32, 32, 0, stream))
    assert acl.rt.synchronize_device() != 0
    ok(acl.rt.synchronize_device())


@pytest.mark.usefixtures("runtime")
def test_abort_drops_what_waits() -> None:
    stream = ok(acl.rt.create_stream())
    pointer = ok(acl.rt.malloc(8, 0))
    ok(acl.rt.memset(pointer, 8, 0, 8))
    hold = Hold(stream)
    ok(acl.rt.value_write(pointer, 1, 0, stream))
    assert in_thread(lambda: acl.rt.device_task_abort(0, 20_000)) == 0
    assert acl.rt.synchronize_stream(stream) in (0, STREAM_ABORT)
    assert acl.util.ptr_to_bytes(pointer, 8) == bytes(8), "the write behind the wait was dropped"
    hold.release()
    ok(acl.rt.value_write(pointer, 2, 0, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert acl.util.ptr_to_bytes(pointer, 1) == b"\2", "the stream works on"


@pytest.mark.usefixtures("fresh")
def test_abort_is_for_newer_chips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_SOC", "Ascend310P3")
    ok(acl.init())
    ok(acl.rt.set_device(0))
    assert acl.rt.device_task_abort(0, 1000) == NOT_SUPPORTED
    assert acl.rt.stream_abort(0) == NOT_SUPPORTED
