"""Transaction ids of the graph inputs, and the transactions that a function ended."""

from __future__ import annotations

from collections.abc import Sequence

from softnpu.flow import codes, log
from softnpu.flow.message import Message


class Ids:
    """One counter per graph input. Not locked: the caller feeds under a lock.

    An id is proposed before there is room in the queues and committed when the messages are in, so that a feed that
    ran into its timeout uses up no id.
    """

    def __init__(self, count: int, keeps: bool) -> None:
        self.keeps = keeps  # the plan honours ids of the program
        self.numbers = [0] * count
        self._warned = False

    def propose(self, input_index: int, user_id: int = 0) -> tuple[int, int]:
        """(0, the id of the next message), or (code, 0). `user_id` 0: the next number."""
        last = self.numbers[input_index]
        if user_id and self._honoured(user_id):
            good = last <= user_id < codes.MAX_U64
            return (codes.SUCCESS, user_id) if good else (codes.PARAM_INVALID, 0)
        return (codes.SUCCESS, last + 1) if last + 1 < codes.MAX_U64 else (codes.FAILED, 0)

    def commit(self, input_index: int, trans_id: int) -> None:
        """A message with a proposed id is on its way."""
        self.numbers[input_index] = trans_id

    def assign(self, inputs: Sequence[int], user_id: int = 0) -> tuple[int, list[int]]:
        """Ids of one feed to several inputs, all or none."""
        messages = [Message(trans_id=user_id) for _ in inputs]
        code = self.stamp(list(zip(inputs, messages, strict=True)))
        return code, [] if code else [message.trans_id for message in messages]

    def stamp(self, items: Sequence[tuple[int, Message]]) -> int:
        """The same for the messages themselves; the id that one brings along is the user's. 0, or a code and nothing is changed."""
        code, self.numbers = self.planned(items)
        return code

    def planned(self, items: Sequence[tuple[int, Message]]) -> tuple[int, list[int]]:
        """Messages get their ids; `numbers` is to become the list that comes back, when they are surely fed."""
        numbers = self.numbers.copy()
        for index, message in items:
            code, numbers[index] = self.propose(index, message.trans_id)
            if code:
                return code, self.numbers
        for index, message in items:
            message.user_trans = self.keeps and message.trans_id > 0
            message.trans_id = numbers[index]
        return codes.SUCCESS, numbers

    def last(self, input_index: int) -> int:
        """The last id of an input; 0 before the first."""
        return self.numbers[input_index]

    def _honoured(self, user_id: int) -> bool:
        if not self.keeps and not self._warned:
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
