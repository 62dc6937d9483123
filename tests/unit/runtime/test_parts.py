"""Parts of the process object are made once, whoever asks and whatever comes in between."""

from __future__ import annotations

import threading

import pytest

from softnpu.runtime.parts import Part, Parts
from softnpu.runtime.process import process


class Counter(Part):
    def __init__(self) -> None:
        self.count = 0


class Named(Part):
    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def of(cls, owner: str) -> Named:
        return cls(owner)


def test_a_part_is_made_once_and_found_by_its_type() -> None:
    parts = Parts("the owner")
    assert parts.peek(Counter) is None
    counter = parts.get(Counter)
    assert parts.get(Counter) is counter and parts.peek(Counter) is counter
    assert parts.get(Named).name == "the owner"
    assert parts.all() == (counter, parts.get(Named))


def test_after_a_clear_a_new_one_is_made() -> None:
    parts = Parts(None)
    counter = parts.get(Counter)
    parts.clear()
    assert parts.all() == () and parts.get(Counter) is not counter


def test_whoever_asks_while_a_part_is_made_and_the_maker_get_the_same() -> None:
    nested: list[Part] = []

    class Slow(Part):
        @classmethod
        def of(cls, owner: Parts) -> Slow:
            if not nested:  # as a destructor or a signal handler would, in the middle of making
                nested.append(cls())
                nested[0] = owner.get(cls)
            return cls()

    parts = Parts(None)
    parts._owner = parts
    assert parts.get(Slow) is nested[0]
    assert len(parts.all()) == 1


def test_an_exception_while_a_part_is_made_leaves_none_behind() -> None:
    class Interrupted(Part):
        broken = True

        @classmethod
        def of(cls, owner: object) -> Interrupted:
            if cls.broken:
                raise KeyboardInterrupt
            return cls()

    parts = Parts(None)
    with pytest.raises(KeyboardInterrupt):
        parts.get(Interrupted)
    assert parts.all() == ()
    Interrupted.broken = False
    assert parts.all() == () and parts.get(Interrupted) is parts.get(Interrupted)


def test_threads_that_ask_at_once_get_the_same() -> None:
    parts = Parts(None)
    barrier = threading.Barrier(8)
    got: list[Part] = []

    def ask() -> None:
        barrier.wait()
        got.append(parts.get(Counter))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8 and len({id(part) for part in got}) == 1


def test_parts_are_told_of_finalize_then_of_each_device_and_are_gone_afterwards() -> None:
    told: list[str] = []

    class Listener(Part):
        def finalize(self) -> None:
            told.append("finalize")

        def sweep(self, device: object) -> None:
            told.append(f"sweep {getattr(device, 'index', None)}")

    owner = process()
    owner.start(None)
    listener = owner.part(Listener)
    owner.stop()
    assert told == ["finalize", *(f"sweep {device.index}" for device in owner.devices)]
    assert owner.parts.peek(Listener) is None and owner.part(Listener) is not listener
