"""Which instance of the next node a message goes to, and the labels that balance configurations give."""

from __future__ import annotations

from collections.abc import Sequence

from softnpu.flow import codes
from softnpu.flow.message import Message

NO_AFFINITY, ROW_AFFINITY, COL_AFFINITY = range(3)
MAX_POSITIONS = 65536

_FITTING = {"scatter": (NO_AFFINITY,), "gather": (ROW_AFFINITY, COL_AFFINITY)}
_NAMES = ("NO_AFFINITY", "ROW_AFFINITY", "COL_AFFINITY")


def choose(message: Message, count: int) -> int:
    """The number of the instance: transactions in turn, the parts of one in turn by their route label.

    A pure function of (transaction, label), so every producer and every try finds the same instance.
    """
    if count == 1:
        return 0
    return (message.trans_id - 1 + max(message.route_label - 1, 0)) % count


def labels(row: int, col: int, cols: int, affinity: int) -> tuple[int, int]:
    """(data label, route label) of a position in the matrix."""
    index = row * cols + col
    return index + 1, 1 + (index, row, col)[affinity]


def balance(
    messages: Sequence[Message], role: str, rows: int, cols: int, affinity: int, positions: Sequence[tuple[int, int]]
) -> tuple[int, str]:
    """Put the labels of a BalanceConfig on messages; (0, ""), or (164000, why) with the messages as they were."""
    reason = _refusal(len(messages), role, rows, cols, affinity, positions)
    if reason:
        return codes.FUNC_PARAM_INVALID, reason
    for message, (row, col) in zip(messages, positions, strict=True):
        message.data_label, message.route_label = labels(row, col, cols, affinity)
    return codes.SUCCESS, ""


def _refusal(count: int, role: str, rows: int, cols: int, affinity: int, positions: Sequence[tuple[int, int]]) -> str:
    if role not in _FITTING:
        return "a balance config on a node without a role: call set_balance_scatter or set_balance_gather on it"
    if affinity not in _FITTING[role]:
        name = _NAMES[affinity] if affinity in range(len(_NAMES)) else repr(affinity)
        return f"a {role} node uses {' or '.join(_NAMES[each] for each in _FITTING[role])}, not {name}"
    if rows < 1 or cols < 1 or rows * cols > MAX_POSITIONS:
        return f"a matrix of {rows} x {cols}: rows and columns are at least 1, their product at most {MAX_POSITIONS}"
    if len(positions) != count:
        return f"{len(positions)} positions for {count} messages: call set_data_pos with one for each"
    for row, col in positions:
        if not (isinstance(row, int) and isinstance(col, int) and 0 <= row < rows and 0 <= col < cols):
            return f"position ({row}, {col}) is outside the matrix of {rows} x {cols}"
    return ""
