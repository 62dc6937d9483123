"""Fixtures of the tests of acl.himpi."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import acl


@pytest.fixture
def himpi(runtime: None) -> Iterator[None]:
    """The media system is started; the test may have stopped it."""
    assert acl.himpi.sys_init() == 0
    yield
    acl.himpi.sys_exit()


@pytest.fixture
def chn(himpi: None) -> Iterator[int]:
    """An open picture channel."""
    assert acl.himpi.vpc_create_chn(3, {"attr": 0, "pic_width": 0, "pic_height": 0}) == 0
    yield 3
    acl.himpi.vpc_destroy_chn(3)
