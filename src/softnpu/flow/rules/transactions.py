"""Transaction ids of the graph inputs, and the transactions that a function ended."""

from __future__ import annotations

from collections.abc import Sequence

from softnpu.flow import codes
from softnpu.flow.message import Message


class Ids:
    """One counter per graph input. Not locked: the caller feeds under a lock.

    An id is proposed before there is room in the queues and committed when the messages are in, so that a feed that
    ran into its timeout uses up no id.
    """

    def __init__(self, count: int, keeps: bool) -> None:
        self.keeps = keeps  # the plan honours ids of the program
        self._last = [0] * count
        self._warned = False

    def propose(self, input_index: int, user_id: int = 0) -> tuple[int, int]:
        """(0, the id of the next message), or (code, 0). `user_id` 0: the next number."""
        last = self._last[input_index]
        if user_id and self._honoured(user_id):
            good = last <= user_id < codes.MAX_U64
            return (codes.SUCCESS, user_id) if good else (codes.PARAM_INVALID, 0)
        return (codes.SUCCESS, last + 1) if last + 1 < codes.MAX_U64 else (codes.FAILED, 0)

    def commit(self, input_index: int, trans_id: int) -> None:
        """A message with a proposed id is on its way."""
        self._last[input_index] = trans_id

    def assign(self, inputs: Sequence[int], user_id: int = 0) -> tuple[int, list[int]]:
        """Ids of one feed to several inputs, all or none."""
        return self._assign([(index, user_id) for index in inputs])

    def stamp(self, items: Sequence[tuple[int, Message]]) -> int:
        """The same for the messages themselves; the id that one brings along is the user's. 0, or a code and nothing is changed."""
        code, found = self._assign([(index, message.trans_id) for index, message in items])
        if code:
            return code
        for (_, message), trans_id in zip(items, found, strict=True):
            message.user_trans = bool(message.trans_id) and self.keeps
            message.trans_id = trans_id
        return codes.SUCCESS

    def _assign(self, wanted: Sequence[tuple[int, int]]) -> tuple[int, list[int]]:
        found = []
        for index, user_id in wanted:
            code, trans_id = self.propose(index, user_id)
            if code:
                return code, []
            found.append(trans_id)
        for (index, _), trans_id in zip(wanted, found, strict=True):
            self.commit(index, trans_id)
        return codes.SUCCESS, found

    def last(self, input_index: int) -> int:
        """The last id of an input; 0 before the first."""
        return self._last[input_index]

    def _honoured(self, user_id: int) -> bool:
        if not self.keeps and not self._warned:
            from softnpu.flow import log

            self._warned = True
            log.warning(
                "transaction_id %s is ignored: every node of the graph gives one output per input; "
                "call set_contains_n_mapping_node(True) before the first feed to keep own ids",
                user_id,
            )
        return self.keeps


class Exceptions:
    """Transactions that `raise_exception` ended in one scope (a nested graph has its own): the newest 1024."""

    def __init__(self, limit: int = 1024) -> None:
        self._raised: dict[int, tuple[int, int]] = {}
        self._limit = limit

    def add(self, trans_id: int, code: int, context_id: int) -> bool:
        """Whether this is the first raise of the transaction; a repeat changes nothing."""
        if trans_id in self._raised:
            return False
        self._raised[trans_id] = code, context_id
        if len(self._raised) > self._limit:
            del self._raised[next(iter(self._raised))]
        return True

    def get(self, trans_id: int) -> tuple[int, int] | None:
        """(code, context id) of a raised transaction."""
        return self._raised.get(trans_id)

    def __contains__(self, trans_id: int) -> bool:
        return trans_id in self._raised

    def __len__(self) -> int:
        return len(self._raised)
