"""The words of a channel, life by life: what a new end of it knows of what the former ones did."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import dataflow as df
from softnpu.flow.transport.channels import REMADE, Incoming, LostTrack, Outgoing, once

WORDS = 128


def words() -> memoryview:
    return memoryview(bytearray(8 * WORDS)).cast("Q")


def sender(marks: Any, overwrite: bool = False) -> Outgoing:
    return Outgoing(0, 1, 8, overwrite, marks, WORDS)


def receiver(marks: memoryview, life: int = 0) -> Incoming:
    """One that hears from that life of its sender, which may make everything again."""
    incoming = Incoming(0, 1, 8, lambda message: None, marks, WORDS, not life)
    incoming.begin(life, incoming.next, 0, incoming.next if life else 0)
    return incoming


def send(channel: Outgoing, *transactions: int) -> None:
    for each in transactions:
        channel.append(b"%d" % each, each)
    channel.appended()


def work(channel: Incoming, count: int) -> None:
    """Take and finish the next few."""
    for _ in range(count):
        channel.take()
        channel.finish(channel.next)
        channel.next += 1


def test_a_new_receiver_knows_what_the_former_one_finished() -> None:
    """Both ends died: the sender makes 4 and 5 again, of which only 5 has to be worked on."""
    marks = words()
    send(sender(marks), 1, 2, 3, 4)
    work(receiver(marks), 4)
    after = receiver(marks, 1)
    assert after.known(4) and not after.known(4) and not after.known(5)


def test_what_was_counted_and_not_sent_is_not_known() -> None:
    """3 and 4 never left the sender: its next life makes them again, for a receiver that has a new life, too."""
    marks = words()
    send(sender(marks), 1, 2, 3, 4)
    first = receiver(marks)
    work(first, 2)
    first.begin(1, 4, 0, 4)
    second = receiver(marks, 2)
    assert [second.known(each) for each in (1, 2, 3, 4)] == [True, True, False, False]


def test_what_the_sender_will_not_make_again_is_no_repetition() -> None:
    """Several messages of one transaction: the first is firm, the second may come again, the third is new."""
    marks = words()
    send(sender(marks), 7, 7)
    into = receiver(marks)
    work(into, 2)
    into.begin(1, 2, 1, 2)
    assert [into.known(7), into.known(7)] == [True, False]


def test_a_receiver_is_even_when_nothing_of_its_former_life_is_left() -> None:
    marks = words()
    send(sender(marks), 1, 2)
    after = Incoming(0, 1, 8, lambda message: None, marks, WORDS, False)
    assert not after.even()  # nobody has said yet what comes again
    after.begin(0, 0)
    after.finish(1)
    assert not after.even()
    after.finish(0)
    assert after.even()


def test_notes_that_were_written_over_are_not_read() -> None:
    marks = words()
    out, into = sender(marks), receiver(marks)
    for each in range(1, 1001):
        send(out, each)
        work(into, 1)
    send(out, *range(1001, 1041))  # not finished: they take the place of older notes
    after = receiver(marks, 1)
    assert [each for each in range(1, 1041) if after.known(each)] == list(range(1001 - (WORDS // 2 - 44), 1001))


class Dying:
    """Words whose writer dies before its n-th store."""

    def __init__(self, marks: memoryview, stores: int) -> None:
        self.marks = marks
        self.left = stores

    def __getitem__(self, index: int) -> int:
        return self.marks[index]

    def __setitem__(self, index: int, value: int) -> None:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.marks[index] = value


def test_a_sender_that_dies_while_it_sends_again_loses_nothing_and_doubles_nothing() -> None:
    deaths = 0
    for stores in range(100):
        marks = words()
        send(sender(marks), 1, 2, 3, 4)
        work(receiver(marks), 1)
        try:
            second = sender(Dying(marks, stores))
            lost, _ = second.restarted(1)
            send(second, *lost)
        except KeyboardInterrupt:
            deaths += 1
        lost, _ = sender(marks).restarted(2)
        assert lost == [2, 3, 4], stores
    assert 5 < deaths < 100


def test_a_transaction_that_several_lives_noted_is_lost_once() -> None:
    assert once([5, 6, 5 | REMADE, 7 | REMADE, 7 | REMADE, 0, 8]) == [5, 6, 7, 8]
    assert once([5, 5, 5]) == [5, 5, 5]  # three results of one transaction


def test_more_messages_than_notes_end_the_graph() -> None:
    marks = words()
    send(sender(marks), *range(1, 2 * WORDS))
    with pytest.raises(LostTrack, match="255 messages were on their way"):
        sender(marks).restarted(1)
    lost, _ = sender(marks, overwrite=True).restarted(1)  # such a queue drops the oldest anyway
    assert lost[-1] == 2 * WORDS - 1 and len(lost) < WORDS


@pytest.fixture
def graph() -> Iterator[tuple[df.FlowData, df.FlowGraph]]:
    df.finalize()
    df.init({"softnpu.flow.engine": "embedded"})
    data = df.FlowData()
    built = df.FlowGraph([df.pyflow(lambda value: value).fnode()(data)])
    assert built.feed({data: 0}) == 0 and built.fetch(timeout=5000) == ([0], 0)
    yield data, built
    df.finalize()


def test_a_feed_does_not_sleep_when_room_came_before_it_could_ask(
    graph: tuple[df.FlowData, df.FlowGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, built = graph
    outbox = built._session._outbox
    full = [True]
    real = outbox.room
    monkeypatch.setattr(outbox, "room", lambda groups: not (full and full.pop()) and real(groups))
    began = time.monotonic()
    assert built.feed({data: 1}, timeout=20_000) == 0
    assert time.monotonic() - began < 10
