"""Instances, balance labels, transaction ids and raised transactions."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from softnpu.flow import codes, log
from softnpu.flow.message import Message
from softnpu.flow.rules.route import COL_AFFINITY, NO_AFFINITY, ROW_AFFINITY, balance, choose
from softnpu.flow.rules.transactions import Exceptions, Ids


def _message(trans_id: int, route_label: int = 0) -> Message:
    message = Message(trans_id=trans_id)
    message.route_label = route_label
    return message


def test_requests_alternate_by_transaction() -> None:
    assert [choose(_message(trans_id), 2) for trans_id in (1, 2, 3, 4, 3)] == [0, 1, 0, 1, 0]
    assert [choose(_message(trans_id), 3) for trans_id in range(1, 7)] == [0, 1, 2, 0, 1, 2]
    assert choose(_message(99, 5), 1) == 0


def test_same_transaction_and_label_always_the_same_instance() -> None:
    for trans_id, label, count in itertools.product((1, 7, 2**64 - 2), (0, 1, 5, 65536), (2, 3, 16)):
        chosen = {choose(_message(trans_id, label), count) for _ in range(3)}
        assert len(chosen) == 1
        assert chosen <= set(range(count))


def test_parts_of_one_request_spread_evenly() -> None:
    messages = [Message(trans_id=5) for _ in range(12)]
    positions = list(itertools.product(range(3), range(4)))
    assert balance(messages, "scatter", 3, 4, NO_AFFINITY, positions) == (0, "")
    assert [message.data_label for message in messages] == list(range(1, 13))
    assert [message.route_label for message in messages] == list(range(1, 13))
    assert set(Counter(choose(message, 4) for message in messages).values()) == {3}


@pytest.mark.parametrize(("affinity", "axis"), [(ROW_AFFINITY, 0), (COL_AFFINITY, 1)])
def test_affinity_collects_a_row_or_column_on_one_instance(affinity: int, axis: int) -> None:
    positions = list(itertools.product(range(4), range(4)))
    random.Random(1).shuffle(positions)
    messages = [Message(trans_id=3) for _ in positions]
    assert balance(messages, "gather", 4, 4, affinity, positions)[0] == 0
    places: dict[int, set[int]] = {}
    for message, position in zip(messages, positions, strict=True):
        assert message.data_label == position[0] * 4 + position[1] + 1
        assert message.route_label == position[axis] + 1
        places.setdefault(position[axis], set()).add(choose(message, 4))
    assert sorted(next(iter(place)) for place in places.values()) == [0, 1, 2, 3]
    assert all(len(place) == 1 for place in places.values())


@pytest.mark.parametrize(
    ("role", "rows", "cols", "affinity", "positions", "word"),
    [
        ("", 2, 2, NO_AFFINITY, [(0, 0)], "without a role"),
        ("scatter", 2, 2, ROW_AFFINITY, [(0, 0)], "NO_AFFINITY, not ROW_AFFINITY"),
        ("scatter", 2, 2, COL_AFFINITY, [(0, 0)], "not COL_AFFINITY"),
        ("gather", 2, 2, NO_AFFINITY, [(0, 0)], "not NO_AFFINITY"),
        ("gather", 2, 2, 9, [(0, 0)], "not 9"),
        ("scatter", 0, 2, NO_AFFINITY, [(0, 0)], "0 x 2"),
        ("scatter", -1, -1, NO_AFFINITY, [(0, 0)], "-1 x -1"),
        ("scatter", 256, 257, NO_AFFINITY, [(0, 0)], "65536"),
        ("scatter", 2, 2, NO_AFFINITY, [], "0 positions for 1"),
        ("scatter", 2, 2, NO_AFFINITY, [(0, 0), (0, 1)], "2 positions for 1"),
        ("scatter", 2, 2, NO_AFFINITY, [(2, 0)], "(2, 0)"),
        ("scatter", 2, 2, NO_AFFINITY, [(0, 2)], "(0, 2)"),
        ("scatter", 2, 2, NO_AFFINITY, [(-1, 0)], "(-1, 0)"),
        ("scatter", 2, 2, NO_AFFINITY, [(0.5, 0)], "(0.5, 0)"),
    ],
)
def test_what_does_not_fit_is_164000(
    role: str, rows: int, cols: int, affinity: int, positions: list[tuple[int, int]], word: str
) -> None:
    message = Message(trans_id=1)
    code, reason = balance([message], role, rows, cols, affinity, positions)
    assert code == 164000
    assert word in reason
    assert (message.data_label, message.route_label) == (0, 0)


def test_the_largest_matrix_has_labels_up_to_65536() -> None:
    message = Message(trans_id=1)
    assert balance([message], "scatter", 256, 256, NO_AFFINITY, [(255, 255)])[0] == 0
    assert (message.data_label, message.route_label) == (65536, 65536)


# ---- transaction ids ----


def test_ids_count_from_one_per_input() -> None:
    ids = Ids(2, keeps=False)
    assert ids.assign([0, 1]) == (0, [1, 1])
    assert ids.assign([1]) == (0, [2])
    assert ids.assign([0, 1]) == (0, [2, 3])


def test_user_id_only_where_the_plan_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(log, "warning", lambda text, *values: lines.append(text % values))
    ids = Ids(1, keeps=False)
    assert [ids.assign([0], 50), ids.assign([0], 60)] == [(0, [1]), (0, [2])]
    assert len(lines) == 1
    assert "50" in lines[0]
    assert "set_contains_n_mapping_node" in lines[0]


def test_user_ids_may_repeat_and_not_go_back() -> None:
    ids = Ids(1, keeps=True)
    assert ids.assign([0], 50) == (0, [50])
    assert ids.assign([0], 50) == (0, [50])
    assert ids.assign([0], 49) == (145000, [])
    assert ids.assign([0]) == (0, [51])
    assert ids.assign([0], -1) == (145000, [])
    assert ids.assign([0], codes.MAX_U64) == (145000, [])
    assert ids.last(0) == 51


def test_all_inputs_or_none() -> None:
    ids = Ids(2, keeps=True)
    ids.assign([1], 10)
    assert ids.assign([0, 1], 5) == (145000, [])
    assert (ids.last(0), ids.last(1)) == (0, 10)


def test_a_proposal_uses_up_nothing() -> None:
    ids = Ids(1, keeps=True)
    assert [ids.propose(0), ids.propose(0)] == [(0, 1), (0, 1)]
    ids.commit(0, 1)
    assert ids.propose(0) == (0, 2)


def test_the_counter_ends() -> None:
    ids = Ids(1, keeps=True)
    assert ids.assign([0], codes.MAX_U64 - 1) == (0, [codes.MAX_U64 - 1])
    assert ids.assign([0]) == (0xFFFFFFFF, [])


# ---- raised transactions ----


def test_a_second_raise_is_ignored() -> None:
    raised = Exceptions()
    assert raised.add(1, -101, 7)
    assert not raised.add(1, -100, 8)
    assert raised.get(1) == (-101, 7)
    assert 1 in raised
    assert (2 in raised, raised.get(2)) == (False, None)


def test_the_newest_1024_are_remembered() -> None:
    raised = Exceptions()
    for trans_id in range(1, 1026):
        assert raised.add(trans_id, 1, 0)
    assert (len(raised), 1 in raised, 2 in raised, 1025 in raised) == (1024, False, True, True)
