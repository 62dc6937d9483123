"""Pairing and alignment: which messages meet."""

from __future__ import annotations

import random
from collections import defaultdict, deque

import pytest

from softnpu.flow.message import Message
from softnpu.flow.plan import AlignRule
from softnpu.flow.rules.align import REMEMBERED, Aligner, Incomplete
from softnpu.flow.rules.pairing import Pairing


def _message(trans_id: int, label: int = 0, flags: int = 0) -> Message:
    message = Message(trans_id=trans_id)
    message.data_label = label
    message.flags = flags
    return message


def _drain(aligner: Aligner, now: float) -> list[list[Message]]:
    groups = []
    while (group := aligner.pop(now)) is not None:
        groups.append(group)
    return groups


# ---- pairing ----


def test_the_kth_message_of_each_input_meets_the_kth_of_the_others() -> None:
    pairing = Pairing((4, 2))
    first, second, other = _message(1), _message(2), _message(77)
    pairing.push(4, first)
    pairing.push(4, second)
    assert pairing.pop() is None
    assert (len(pairing), pairing.waiting(4), pairing.waiting(2)) == (2, 2, 0)
    pairing.push(2, other)
    assert pairing.pop() == [first, other]
    assert pairing.pop() is None
    assert len(pairing) == 1


def test_one_input_is_a_queue() -> None:
    pairing = Pairing((3,))
    messages = [_message(number) for number in range(5)]
    for message in messages:
        pairing.push(3, message)
    assert (len(pairing), pairing.waiting(3)) == (5, 5)
    assert [pairing.pop() for _ in range(6)] == [*([message] for message in messages), None]


def test_a_function_without_inputs_is_always_ready() -> None:
    assert [Pairing(()).pop() for _ in range(2)] == [[], []]


@pytest.mark.parametrize("inputs", [(0,), (0, 1)])
def test_pairing_drops_a_transaction_and_keeps_the_order_of_the_others(inputs: tuple[int, ...]) -> None:
    pairing = Pairing(inputs)
    sent = [_message(trans_id) for trans_id in (1, 2, 1, 3)]
    for message in sent:
        for index in inputs:
            pairing.push(index, message)
    assert pairing.drop(1) == [sent[0], sent[2]] * len(inputs)
    assert pairing.drop(9) == []
    assert pairing.pop() == [sent[1]] * len(inputs)
    assert pairing.discard_all() == [sent[3]] * len(inputs)
    assert pairing.pop() is None
    assert len(pairing) == 0


@pytest.mark.parametrize("inputs", [(3,), (3, 4)])
def test_the_oldest_of_one_input_can_be_given_up(inputs: tuple[int, ...]) -> None:
    pairing = Pairing(inputs)
    messages = [_message(number) for number in range(3)]
    for message in messages:
        pairing.push(3, message)
    assert pairing.drop_oldest(3) is messages[0]
    assert (pairing.waiting(3), len(pairing)) == (2, 2)


# ---- alignment ----


def test_reordered_paths_meet_by_transaction() -> None:
    aligner = Aligner((0, 1), AlignRule(8))
    left, right = [_message(number) for number in (1, 2, 3)], [_message(number) for number in (3, 1, 2)]
    for one, other in zip(left, right, strict=True):
        aligner.push(0, one, 0.0)
        aligner.push(1, other, 0.0)
    assert _drain(aligner, 0.0) == [[left[0], right[1]], [left[2], right[0]], [left[1], right[2]]]
    assert len(aligner) == 0


def test_parts_of_a_transaction_meet_by_their_label() -> None:
    aligner = Aligner((0, 1), AlignRule(8))
    aligner.push(0, first := _message(1, label=1), 0.0)
    aligner.push(1, other := _message(1, label=2), 0.0)
    assert aligner.pop(0.0) is None
    aligner.push(1, second := _message(1, label=1), 0.0)
    assert aligner.pop(0.0) == [first, second]
    assert aligner.waiting(1) == 1
    aligner.push(0, last := _message(1, label=2), 0.0)
    assert aligner.pop(0.0) == [last, other]


def test_overdue_group_with_dropout_gives_nothing() -> None:
    gone: list[Message] = []
    aligner = Aligner((0, 1), AlignRule(8, timeout=100, dropout=True), gone.append)
    aligner.push(0, message := _message(1), 10.0)
    assert aligner.deadline() == pytest.approx(10.1)
    assert aligner.pop(10.09) is None
    assert len(aligner) == 1
    assert aligner.pop(10.2) is None
    assert (len(aligner), aligner.deadline(), gone, aligner.given_up) == (0, None, [message], 1)


def test_overdue_group_without_dropout_has_empty_messages_with_364000() -> None:
    aligner = Aligner((5, 6, 7), AlignRule(8, timeout=100))
    aligner.push(6, message := _message(3, label=2, flags=2), 10.0)
    assert aligner.pop(10.05) is None
    group = aligner.pop(10.11)
    assert isinstance(group, Incomplete)
    assert group[1] is message
    for gap in (group[0], group[2]):
        assert (gap.null, gap.ret_code, gap.trans_id, gap.data_label) == (True, 364000, 3, 2)
    assert message.ret_code == 0


def test_a_complete_group_of_failures_is_not_incomplete() -> None:
    aligner = Aligner((0, 1), AlignRule(8, timeout=100))
    for index in (0, 1):
        message = _message(1)
        message.ret_code = 364000
        aligner.push(index, message, 0.0)
    group = aligner.pop(0.0)
    assert group is not None
    assert not isinstance(group, Incomplete)


@pytest.mark.parametrize("dropout", [True, False])
def test_beyond_the_cache_the_oldest_group_goes(dropout: bool) -> None:
    aligner = Aligner((0, 1), AlignRule(2, dropout=dropout))
    messages = [_message(number) for number in (10, 20, 30)]
    for message in messages[:2]:
        aligner.push(0, message, 0.0)
    assert aligner.pop(1e9) is None
    aligner.push(0, messages[2], 0.0)
    group = aligner.pop(0.0)
    if dropout:
        assert group is None
    else:
        assert isinstance(group, Incomplete)
        assert group[0] is messages[0]
    aligner.push(1, partner := _message(20), 0.0)
    assert aligner.pop(0.0) == [messages[1], partner]


def test_a_group_that_is_completed_needs_no_room() -> None:
    aligner = Aligner((0, 1), AlignRule(1))
    for number in range(5):
        aligner.push(0, _message(number), 0.0)
        aligner.push(1, _message(number), 0.0)
    assert len(_drain(aligner, 0.0)) == 5
    assert aligner.given_up == 0


def test_late_messages_of_a_given_up_group_are_discarded_once_per_gap() -> None:
    gone: list[Message] = []
    aligner = Aligner((0, 1), AlignRule(8, timeout=100), gone.append)
    aligner.push(0, _message(1), 0.0)
    assert isinstance(aligner.pop(1.0), Incomplete)
    aligner.push(1, late := _message(1), 1.0)
    assert (gone, aligner.late, len(aligner)) == ([late], 1, 0)
    aligner.push(0, again := _message(1), 2.0)  # the same id again: a new group
    aligner.push(1, partner := _message(1), 2.0)
    assert aligner.pop(2.0) == [again, partner]


def test_memory_for_late_messages_is_bounded() -> None:
    aligner = Aligner((0, 1), AlignRule(1, dropout=True))
    for number in range(REMEMBERED + 100):
        aligner.push(0, _message(number), 0.0)
        aligner.drop(10**6 + number)
    assert len(aligner._debts) == REMEMBERED
    assert len(aligner._dropped) == REMEMBERED
    assert len(aligner.groups) == len(aligner.open) == 1


def test_a_raised_transaction_leaves_and_stays_away() -> None:
    aligner = Aligner((0, 1), AlignRule(8))
    held = [_message(1, label=1), _message(1, label=2), _message(2), _message(1), _message(1)]
    for message in held[:3]:
        aligner.push(0, message, 0.0)
    aligner.push(0, held[3], 0.0)
    aligner.push(1, held[4], 0.0)  # complete, not popped yet
    assert aligner.drop(1) == [held[0], held[1], held[3], held[4]]
    aligner.push(1, _message(1, label=1), 0.0)
    assert (aligner.pop(0.0), aligner.late, len(aligner)) == (None, 1, 1)
    assert aligner.discard_all() == [held[2]]
    aligner.push(0, _message(1), 0.0)  # everything is forgotten, the raised ones too
    assert (len(aligner), aligner.waiting(0), aligner.waiting(1)) == (1, 1, 0)


def test_the_emptiest_input_is_wanted() -> None:
    aligner = Aligner((7, 8, 9), AlignRule(8))
    assert aligner.wanted() == 7
    aligner.push(7, _message(1), 0.0)
    aligner.push(9, _message(1), 0.0)
    assert aligner.wanted() == 8
    aligner.push(8, _message(2), 0.0)
    aligner.push(8, _message(1), 0.0)  # completes 1
    assert aligner.wanted() == 7


def test_one_input_needs_no_partner() -> None:
    aligner = Aligner((2,), AlignRule(1, timeout=1))
    for number in (1, 1, 2):
        aligner.push(2, _message(number), 0.0)
    assert [group[0].trans_id for group in _drain(aligner, 99.0)] == [1, 1, 2]


def test_alignment_that_is_off_is_refused() -> None:
    assert Aligner((0, 1), AlignRule(1))  # empty, and still true
    with pytest.raises(ValueError, match="Pairing"):
        Aligner((0, 1), AlignRule(0))


class _SlowModel:
    """Alignment told plainly: one list of groups in the order of their birth."""

    def __init__(self, size: int, rule: AlignRule) -> None:
        self.size, self.rule = size, rule
        self.groups: list[tuple[tuple[int, int], float, dict[int, Message]]] = []
        self.owed: dict[tuple[tuple[int, int], int], int] = defaultdict(int)
        self.out: deque[list[Message | None]] = deque()

    def push(self, slot: int, message: Message, now: float) -> None:
        key = (message.trans_id, message.data_label)
        if self.owed[key, slot]:
            self.owed[key, slot] -= 1
            return
        found = next((group for group in self.groups if group[0] == key and slot not in group[2]), None)
        if found is None:
            found = (key, now, {})
            self.groups.append(found)
        found[2][slot] = message
        if len(found[2]) == self.size:
            self.groups = [group for group in self.groups if group is not found]
            self.out.append([found[2][each] for each in range(self.size)])
        if len(self.groups) > self.rule.cache:
            self.expire()

    def expire(self) -> None:
        key, _, messages = self.groups.pop(0)
        for slot in range(self.size):
            self.owed[key, slot] += slot not in messages
        if not self.rule.dropout:
            self.out.append([messages.get(slot) for slot in range(self.size)])

    def pop(self, now: float) -> list[Message | None] | None:
        while self.groups and self.rule.timeout > 0 and self.groups[0][1] + self.rule.timeout / 1000 <= now:
            self.expire()
        return self.out.popleft() if self.out else None


@pytest.mark.parametrize("seed", range(60))
def test_alignment_does_what_a_plain_model_does(seed: int) -> None:
    dice = random.Random(seed)
    size = dice.choice([2, 3, 4])
    rule = AlignRule(dice.choice([1, 2, 5, 50]), dice.choice([-1, 30, 200]), dice.random() < 0.5)
    inputs = tuple(dice.sample(range(20), size))
    real, model = Aligner(inputs, rule), _SlowModel(size, rule)
    now = 100.0
    for step in range(400):
        now += dice.choice([0.0, 0.001, 0.02])
        slot = dice.randrange(size)
        message = _message(step // (size * 3) + dice.randrange(4), dice.choice([0, 0, 1]))
        real.push(inputs[slot], message, now)
        model.push(slot, message, now)
        if dice.random() < 0.4:
            got, wanted = real.pop(now), model.pop(now)
            shown = None if got is None else [None if one.ret_code == 364000 else one for one in got]
            assert shown == wanted
            assert isinstance(got, Incomplete) == (wanted is not None and None in wanted)
        assert [real.waiting(index) for index in inputs] == [
            sum(slot in group[2] for group in model.groups) for slot in range(size)
        ]
