"""Task groups: parts of a captured graph whose calls can be replaced later."""

from __future__ import annotations

import torch

from torch_npu._graphs.capture import NPUGraph, failure, graph_of
from torch_npu._graphs.recording import Record, Recorder


class _TaskGroup:
    """A part of a graph whose calls can be replaced."""

    def __init__(self, owner: NPUGraph, first: int) -> None:
        self.owner, self.first, self.last = owner, first, first


_groups: dict[int, _TaskGroup] = {}
_updates: dict[int, tuple[_TaskGroup, Recorder]] = {}


def graph_task_group_begin(stream: torch.Stream) -> None:
    """The calls from here on can be replaced later; the stream must be capturing."""
    owner = graph_of(stream)
    if owner is None or owner._recorder is None:
        raise failure(f"{stream} is not capturing; a task group is a part of a captured graph")
    _groups[stream.stream_id] = _TaskGroup(owner, len(owner._recorder.records))


def graph_task_group_end(stream: torch.Stream) -> _TaskGroup:
    """The handle of the group, for `graph_task_update_begin`."""
    if stream.stream_id not in _groups:
        raise failure(f"graph_task_group_end on {stream} without graph_task_group_begin")
    group = _groups.pop(stream.stream_id)
    recorder = group.owner._recorder
    if recorder is None:
        raise failure("the capture that this task group belongs to is over")
    group.last = len(recorder.records)
    return group


def graph_task_update_begin(stream: torch.Stream, handle: _TaskGroup) -> None:
    """Calls from here to the end take the places of those in the group; they must be as many."""
    recorder = Recorder()
    _updates[stream.stream_id] = (handle, recorder)
    recorder.__enter__()


def graph_task_update_end(stream: torch.Stream) -> None:
    """Put the new calls into the graph."""
    if stream.stream_id not in _updates:
        raise failure(f"graph_task_update_end on {stream} without graph_task_update_begin")
    group, recorder = _updates.pop(stream.stream_id)
    recorder.__exit__(None, None, None)
    recorder.close()
    records = group.owner._records
    calls = [record for record in (records or ())[group.first : group.last] if isinstance(record, Record)]
    changed = [record for record in recorder.records if isinstance(record, Record)]
    if records is None or len(changed) != len(calls):
        raise failure(f"a task group of {len(calls)} calls cannot be updated with {len(changed)} calls")
    for old, new in zip(calls, changed, strict=True):
        old.operator, old.args, old.kwargs = new.operator, new.args, new.kwargs
        old.fresh = {position: target for position, target in old.fresh.items() if position in new.fresh}
