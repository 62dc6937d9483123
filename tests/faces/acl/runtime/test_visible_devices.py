"""ASCEND_RT_VISIBLE_DEVICES (pyACL guide, chapter 3.4)."""

from __future__ import annotations

import pytest

import acl
from tests.support import in_thread, message, ok

pytestmark = pytest.mark.usefixtures("fresh")


# The first five rows are the guide's; "ids from the first invalid entry on are ignored" decides the rest.
@pytest.mark.parametrize(
    ("value", "physical"),
    [
        (None, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("1", [1]),
        ("2,3,4", [2, 3, 4]),
        ("4,3,2", [4, 3, 2]),
        ("2,3,-1,5", [2, 3]),
        ("7,8,0", [7]),
        ("0,a,1", [0]),
        ("3,,4", [3]),
        ("-1", []),
        ("", []),
        (",0", []),
        ("8", []),
        ("1.0,2", []),
        ("0x1", []),
        (" 5 , 6 ", [5, 6]),
        ("1,2,1,3", [1, 2]),
        ("²,1", []),
        ("9" * 5000, []),
    ],
)
def test_the_list_chooses_and_orders_devices(
    value: str | None, physical: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOFTNPU_DEVICES", "8")
    if value is not None:
        monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", value)
    assert acl.rt.get_device_count() == (len(physical), 0)
    ok(acl.init())
    assert acl.rt.get_device_count() == (len(physical), 0)
    for index, number in enumerate(physical):
        ok(acl.rt.set_device(index))
        assert acl.rt.get_device() == (index, 0)
        assert acl.rt.get_logic_dev_id_by_user_dev_id(index) == (number, 0)
        assert acl.rt.get_user_dev_id_by_logic_dev_id(number) == (index, 0)
        assert acl.rt.get_phy_dev_id_by_logic_dev_id(number) == (number, 0)
        assert acl.rt.get_device_info(index, 402) == (number, 0)  # physical chip id
        ok(acl.rt.reset_device(index))
    assert acl.rt.set_device(len(physical)) == 107001
    for hidden in set(range(8)) - set(physical):
        assert acl.rt.get_user_dev_id_by_logic_dev_id(hidden) == (0, 107001)


def test_no_device_is_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "-1")
    ok(acl.init())
    assert acl.rt.set_device(0) == 107001
    assert "no device is visible" in message()
    assert acl.rt.create_context(0) == (0, 107001)
    assert acl.rt.get_device() == (0, 107002)
    assert acl.get_soc_name() == "Ascend910B3"
    ok(acl.finalize())


def test_the_variable_is_read_by_init(monkeypatch: pytest.MonkeyPatch) -> None:
    assert acl.rt.get_device_count() == (2, 0)
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "1")
    ok(acl.init())
    assert acl.rt.get_device_count() == (1, 0)
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES")
    assert acl.rt.get_device_count() == (1, 0), "a later change has no effect"
    ok(acl.finalize())
    ok(acl.init())
    assert acl.rt.get_device_count() == (2, 0)


def test_other_threads_see_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_DEVICES", "4")
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "3,1")
    ok(acl.init())
    assert in_thread(lambda: acl.rt.get_logic_dev_id_by_user_dev_id(0)) == (3, 0)


def test_peers_are_named_by_what_the_program_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_DEVICES", "4")
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "3,1")
    ok(acl.init())
    ok(acl.rt.set_device(0))
    ok(acl.rt.device_enable_peer_access(1, 0))
    assert acl.rt.device_peer_access_status(0, 1) == (1, 0)
    assert acl.rt.device_enable_peer_access(3, 0) == 107001
