"""CountBatch and TimeBatch, message by message."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from softnpu.flow.message import ARRAY, EOS, PICKLE, PICKLED, SEG, TENSOR, Message, Payload
from softnpu.flow.plan import CountRule, TimeRule
from softnpu.flow.rules.batch import CountBatch, TimeBatch
from softnpu.flow.values.codec import decode_tensor, encode_tensor


def _tensor(value: Any, trans_id: int = 0, span: tuple[int, int] = (0, 0), flags: int = 0) -> Message:
    message = Message(encode_tensor(np.asarray(value)), trans_id=trans_id)
    message.start_time, message.end_time = span
    message.flags = flags
    return message


def _empty(flags: int = 0) -> Message:
    message = Message()
    message.flags = flags
    return message


def _values(messages: Iterable[Message]) -> list[Any]:
    return [decode_tensor(message).tolist() if not message.null else message.ret_code for message in messages]


def _feed(batch: CountBatch | TimeBatch, messages: Iterable[Message]) -> list[Message]:
    return [result for message in messages for result in batch.push(message, 0.0)]


# ---- by count ----


def test_count_batch_stacks_on_a_new_leading_dimension() -> None:
    batch = CountBatch(CountRule(2))
    assert batch.push(_tensor(np.array([1, 2, 3], np.int32), 1), 0.0) == []
    (result,) = batch.push(_tensor(np.array([4, 5, 6], np.int32), 2), 0.0)
    array = decode_tensor(result)
    assert (array.shape, array.dtype, array.tolist()) == ((2, 3), np.int32, [[1, 2, 3], [4, 5, 6]])
    assert (result.trans_id, result.msg_type, result.ret_code, result.payload.form) == (1, 0, 0, TENSOR)
    assert len(batch) == 0
    assert batch.deadline() is None


def test_a_batch_begins_as_its_first_message_and_ends_as_its_last() -> None:
    batch = CountBatch(CountRule(2))
    first, last = _tensor([1], 7, (3, 5)), _tensor([2], 8, (6, 9), flags=SEG)
    first.user_data, first.user_trans = b"who", True
    (result,) = _feed(batch, [first, last])
    assert (result.trans_id, result.start_time, result.end_time, result.flags) == (7, 3, 9, SEG)
    assert (result.user_data, result.user_trans) == (b"who", True)
    assert (first.flags, first.end_time) == (0, 5)


def test_arrays_stay_arrays() -> None:
    batch = CountBatch(CountRule(2))
    messages = [_tensor([1.5, 2.5]), _tensor([3.5, 4.5])]
    for message in messages:
        message.payload.form, message.msg_type = ARRAY, PICKLED
    (result,) = _feed(batch, messages)
    assert (result.payload.form, result.msg_type, _values([result])) == (ARRAY, PICKLED, [[[1.5, 2.5], [3.5, 4.5]]])


def test_a_stride_of_one_slides_by_one_message() -> None:
    batch = CountBatch(CountRule(3, slide_stride=1))
    assert _values(_feed(batch, map(_tensor, range(1, 6)))) == [[1, 2, 3], [2, 3, 4], [3, 4, 5]]


@pytest.mark.parametrize("stride", [0, 2])
def test_a_stride_of_nothing_or_a_whole_batch_does_not_slide(stride: int) -> None:
    batch = CountBatch(CountRule(2, slide_stride=stride))
    assert _values(_feed(batch, map(_tensor, range(5)))) == [[0, 1], [2, 3]]


@pytest.mark.parametrize(("padding", "wanted"), [(False, [[1, 1], [2, 2]]), (True, [[1, 1], [2, 2], [0, 0]])])
def test_timeout_gives_what_is_there(padding: bool, wanted: list[list[int]]) -> None:
    batch = CountBatch(CountRule(3, timeout=100, padding=padding))
    batch.push(_tensor([1, 1]), 5.0)
    batch.push(_tensor([2, 2]), 5.05)
    assert batch.deadline() == pytest.approx(5.1)
    assert batch.tick(5.09) == []
    assert _values(batch.tick(5.1)) == [wanted]
    assert (batch.tick(99.0), batch.deadline(), len(batch)) == ([], None, 0)


def test_the_timer_restarts_after_an_output() -> None:
    batch = CountBatch(CountRule(3, slide_stride=1, timeout=100, padding=True))
    for number in (1, 2, 3):
        results = batch.push(_tensor([number]), 1.0 + number / 100)
    assert _values(results) == [[[1], [2], [3]]]
    assert batch.deadline() == pytest.approx(1.13)
    assert _values(batch.tick(1.2)) == [[[2], [3], [0]]]  # the zero stays out of the next window
    assert batch.deadline() == pytest.approx(1.3)
    assert _values(batch.push(_tensor([4]), 1.25)) == []
    assert _values(batch.push(_tensor([5]), 1.26)) == [[[3], [4], [5]]]


def test_without_sliding_the_timer_starts_with_the_next_message() -> None:
    batch = CountBatch(CountRule(2, timeout=100))
    batch.push(_tensor(1), 1.0)
    batch.push(_tensor(2), 1.05)
    assert batch.deadline() is None
    batch.push(_tensor(3), 7.0)
    assert batch.deadline() == pytest.approx(7.1)


def test_a_message_behind_the_timeout_starts_a_new_batch() -> None:
    batch = CountBatch(CountRule(2, timeout=100))
    batch.push(_tensor(1), 1.0)
    assert _values(batch.push(_tensor(2), 1.2)) == [[1]]
    assert len(batch) == 1


@pytest.mark.parametrize(
    "bad",
    [_tensor(np.zeros(3, np.int64)), _tensor(np.zeros(2, np.int32)), _empty(), Message(Payload(PICKLE, b"", (b"x",)))],
)
def test_mismatch_is_an_error_message_and_the_next_batch_is_clean(bad: Message) -> None:
    gone: list[Message] = []
    batch = CountBatch(CountRule(2, timeout=50), gone.append)
    bad.trans_id = 9
    batch.push(held := _tensor(np.zeros(2, np.int64)), 0.0)
    (error,) = batch.push(bad, 0.0)
    assert (error.ret_code, error.null, error.trans_id) == (164000, True, 9)
    assert gone == [held, bad]
    assert batch.refused
    assert batch.deadline() is None
    assert _values(_feed(batch, [_tensor([1]), _tensor([2])])) == [[[1], [2]]]


def test_a_tensor_and_an_array_do_not_mix() -> None:
    batch = CountBatch(CountRule(2))
    other = _tensor([1])
    other.payload.form = ARRAY
    assert _values(_feed(batch, [_tensor([1]), other])) == [164000]


def test_an_input_that_failed_keeps_its_code() -> None:
    batch = CountBatch(CountRule(2))
    bad = _tensor([1], 4)
    bad.ret_code = 9900001
    (error,) = _feed(batch, [_tensor([1]), bad])
    assert (error.ret_code, error.null, len(batch)) == (9900001, True, 0)


def test_rank_beyond_32_is_refused() -> None:
    shape = (1,) * 32
    assert _values(_feed(CountBatch(CountRule(1)), [_tensor(np.zeros(shape))])) == [164000]
    assert len(_feed(CountBatch(CountRule(1)), [_tensor(np.zeros(shape[1:]))])) == 1


def test_texts_of_different_length_batch_and_pad() -> None:
    batch = CountBatch(CountRule(3, timeout=10, padding=True))
    _feed(batch, [_tensor(["a"]), _tensor(["long"])])
    assert _values(batch.tick(1.0)) == [[["a"], ["long"], [""]]]


def test_end_of_stream_flushes_a_count_batch() -> None:
    batch = CountBatch(CountRule(3))
    end = _empty(EOS)
    results = _feed(batch, [_tensor(1), _tensor(2), end, end])
    assert _values(results) == [[1, 2], 0, 0]
    assert results[1] is end


def test_a_batch_owns_its_memory() -> None:
    source = np.array([1, 2])
    (result,) = _feed(CountBatch(CountRule(1)), [_tensor(source)])
    source[:] = 9
    assert _values([result]) == [[[1, 2]]]


def test_messages_that_left_are_told_once() -> None:
    gone: list[Message] = []
    batch = CountBatch(CountRule(3, slide_stride=2), gone.append)
    messages = [_tensor(number) for number in range(8)]
    _feed(batch, messages)
    assert gone == messages[:6]  # windows at 0, 2 and 4; the last two still wait


@pytest.mark.parametrize("seed", range(60))
def test_a_count_batch_does_what_a_plain_model_does(seed: int) -> None:
    """The model keeps the whole history and where the window begins."""
    dice = random.Random(seed)
    size = dice.randint(1, 6)
    rule = CountRule(size, dice.randint(0, size), dice.choice([0, 40]), dice.random() < 0.5)
    batch = CountBatch(rule)
    stride = rule.slide_stride or size
    history: list[int] = []
    begin, since, now = 0, 0.0, 10.0
    for step in range(300):
        now += dice.choice([0.001, 0.01, 0.05])
        wanted = []
        if rule.timeout and len(history) > begin and now >= since + rule.timeout / 1000:
            window = history[begin:]
            wanted.append(window + [0] * (size - len(window)) if rule.padding else window)
            begin, since = min(begin + stride, len(history)), now
        if dice.random() < 0.2:
            assert _values(batch.tick(now)) == wanted
            continue
        if len(history) == begin:
            since = now
        history.append(step)
        if len(history) - begin == size:
            wanted.append(history[begin:])
            begin, since = begin + stride, now
        assert _values(batch.push(_tensor(step), now)) == wanted
        assert len(batch) == len(history) - begin


# ---- by time ----


def test_time_batch_concatenates_what_fills_the_window() -> None:
    batch = TimeBatch(TimeRule(5, batch_dim=0))
    assert batch.push(_tensor([[1, 2]], 1, (0, 2)), 0.0) == []
    (result,) = batch.push(_tensor([[3, 4], [5, 6]], 2, (2, 5)), 0.0)
    assert _values([result]) == [[[1, 2], [3, 4], [5, 6]]]
    assert (result.start_time, result.end_time, result.trans_id) == (0, 5, 1)
    assert (batch.deadline(), batch.tick(9.0)) == (None, [])


def test_dimension_minus_one_is_new_and_wants_equal_shapes() -> None:
    batch = TimeBatch(TimeRule(4))
    (result,) = _feed(batch, [_tensor([1, 2], span=(0, 2)), _tensor([3, 4], span=(2, 4))])
    assert _values([result]) == [[[1, 2], [3, 4]]]
    assert _values(_feed(batch, [_tensor([1, 2], span=(4, 5)), _tensor([3], span=(5, 6))])) == [164000]


def test_a_time_batch_joins_along_another_dimension() -> None:
    batch = TimeBatch(TimeRule(4, batch_dim=1))
    parts = [np.arange(6).reshape(2, 3), np.arange(4).reshape(2, 2)]
    (result,) = _feed(batch, [_tensor(parts[0], span=(0, 1)), _tensor(parts[1], span=(3, 4))])
    assert _values([result]) == [[[0, 1, 2, 0, 1], [3, 4, 5, 2, 3]]]


@pytest.mark.parametrize(
    "bad",
    [
        _tensor([1], span=(3, 2)),  # backwards
        _tensor([1], span=(1, 3)),  # overlaps
        _tensor([1], span=(2, 6)),  # longer than the window
        _tensor([1.5], span=(2, 3)),  # dtype
        _tensor([[1]], span=(2, 3)),  # rank
        _tensor(1, span=(2, 3)),  # no dimension 0
        _empty(),
        _empty(SEG),
    ],
)
def test_what_does_not_fit_is_an_error_and_resets(bad: Message) -> None:
    gone: list[Message] = []
    batch = TimeBatch(TimeRule(5, batch_dim=0), gone.append)
    batch.push(held := _tensor([1], span=(0, 2)), 0.0)
    (error,) = batch.push(bad, 0.0)
    assert (error.ret_code, error.null) == (164000, True)
    assert (len(batch), gone) == (0, [held, bad])
    assert _values(_feed(batch, [_tensor([7], span=(0, 2)), _tensor([8], span=(2, 5))])) == [[7, 8]]


def test_time_goes_on_behind_a_full_window() -> None:
    batch = TimeBatch(TimeRule(5, batch_dim=0))
    messages = [_tensor([1], span=(0, 5)), _tensor([2], span=(4, 6)), _tensor([3], span=(0, 5))]
    assert _values(_feed(batch, messages)) == [[1], 164000, [3]]


@pytest.mark.parametrize("flag", [EOS, SEG])
def test_flag_flushes_and_time_starts_anew(flag: int) -> None:
    batch = TimeBatch(TimeRule(50, batch_dim=0))
    (result,) = _feed(batch, [_tensor([1], span=(10, 12)), _tensor([2], span=(12, 15), flags=flag)])
    assert (_values([result]), result.flags) == ([[1, 2]], flag)
    assert (result.start_time, result.end_time) == (10, 15)
    assert _feed(batch, [_tensor([3], span=(0, 1))]) == []


def test_empty_end_flushes_data_or_passes() -> None:
    batch = TimeBatch(TimeRule(50, batch_dim=0))
    (data,) = _feed(batch, [_tensor([1], 5, (10, 12)), _empty(EOS)])
    assert (_values([data]), data.flags, data.trans_id, data.end_time) == ([[1]], EOS, 5, 12)
    (end,) = _feed(batch, [_empty(EOS)])
    assert (end.null, end.flags, end.ret_code) == (True, EOS, 0)


@pytest.mark.parametrize("last", [_tensor([2], span=(2, 3), flags=EOS), _empty(EOS)])
def test_drop_remainder_at_the_end(last: Message) -> None:
    batch = TimeBatch(TimeRule(5, 0, drop_remainder=True))
    (end,) = _feed(batch, [_tensor([1], span=(0, 2)), last])
    assert (end.null, end.flags, end.ret_code, len(batch)) == (True, EOS, 0, 0)


def test_drop_remainder_at_a_segment() -> None:
    batch = TimeBatch(TimeRule(5, 0, drop_remainder=True))
    assert _feed(batch, [_tensor([1], span=(0, 2)), _tensor([2], span=(2, 3), flags=SEG)]) == []
    assert len(batch) == 0
    (full,) = _feed(batch, [_tensor([1], span=(0, 2)), _tensor([2], span=(2, 5), flags=SEG)])
    assert (_values([full]), full.flags) == ([[1, 2]], SEG)


@pytest.mark.parametrize("drop", [True, False])
def test_window_minus_one_waits_for_a_flag(drop: bool) -> None:
    batch = TimeBatch(TimeRule(-1, 0, drop_remainder=drop))
    messages = [_tensor([number], span=(number * 1000, number * 1000 + 999)) for number in range(4)]
    assert _feed(batch, messages) == []
    (result,) = _feed(batch, [_tensor([9], span=(4000, 4001), flags=SEG)])
    assert (_values([result]), result.end_time) == ([[0, 1, 2, 3, 9]], 4001)


def test_failure_keeps_its_code() -> None:
    batch = TimeBatch(TimeRule(5, 0))
    bad = _empty()
    bad.ret_code = 9900002
    assert [message.ret_code for message in _feed(batch, [_tensor([1], span=(0, 1)), bad])] == [9900002]
    assert len(batch) == 0


@pytest.mark.parametrize("seed", range(60))
def test_a_time_batch_does_what_a_plain_model_does(seed: int) -> None:
    """The model decides over the whole list of spans since the last reset."""
    dice = random.Random(seed)
    rule = TimeRule(dice.choice([-1, 4, 7]), 0, dice.random() < 0.5)
    batch = TimeBatch(rule)
    held: list[tuple[int, int, int]] = []
    previous, clock = -1, 0
    for step in range(300):
        start = clock + dice.choice([0, 0, 0, 0, 1, -1])
        end = start + dice.choice([1, 1, 2, 2, 3, 0, -1 if dice.random() < 0.2 else 1])
        flags = dice.choice([0] * 8 + [EOS, SEG])
        empty = dice.random() < 0.05
        start, end = max(start, 0), max(end, 0)
        if empty:
            message, bad = _empty(flags), not flags & EOS
        else:
            message = _tensor([step], span=(start, end), flags=flags)
            first = held[0][1] if held else start
            bad = start > end or start < previous or (rule.time_window > 0 and end - first > rule.time_window)
            held = held if bad else [*held, (step, start, end)]
        got = [
            (one.ret_code, one.flags, None if one.null else decode_tensor(one).tolist())
            for one in batch.push(message, 0.0)
        ]
        steps = [each[0] for each in held]
        full = bool(held) and held[-1][2] - held[0][1] == rule.time_window
        ends = bool(flags) and not bad
        if bad:
            assert [(code, data) for code, _, data in got] == [(164000, None)]
        elif full and not empty:
            assert got == [(0, flags, steps)]
        elif not ends:
            assert got == []
        elif rule.drop_remainder and rule.time_window > 0:
            assert got == ([(0, flags, None)] if flags & EOS else [])
        else:
            assert got == [(0, flags, steps or None)]
        if bad or ends:
            held, previous, clock = [], -1, 0
        else:
            held = [] if full else held
            previous = clock = end
