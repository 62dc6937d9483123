"""What the time of a step went to."""

from __future__ import annotations

from dataclasses import dataclass

from torch_npu.profiler import _spans, _tasks
from torch_npu.profiler._record import Operator, Recording
from torch_npu.profiler._spans import Span


@dataclass
class Step:
    """One step on one device; all spans are joined."""

    number: int | None  # None: there were no steps
    device: int
    window: Span
    computing: list[Span]
    communication: list[Span]
    prepared: int  # nanoseconds from the first call on the host to the first task

    @property
    def alone(self) -> list[Span]:
        """Communication while nothing was computed."""
        return _spans.without(self.communication, self.computing)

    @property
    def free(self) -> list[Span]:
        """Neither."""
        return _spans.without([self.window], _spans.joined([*self.computing, *self.communication]))


def steps_of(found: Recording) -> list[Step]:
    """The steps of all devices that had work; one per device when the program made no steps."""
    tasks = found.tasks()
    windows: list[tuple[int | None, Span]] = [(number, (one.start, one.end)) for number, one in found.steps()]
    windows = windows or [(None, (found.start, found.end))]
    made = []
    for device in sorted({one.device for one in tasks}):
        mine = [one for one in tasks if one.device == device]
        for number, window in windows:
            inside = [one for one in mine if one.start < window[1] and one.end > window[0]]
            made.append(_step(number, device, window, inside, found))
    return made


def _step(number: int | None, device: int, window: Span, tasks: list[Operator], found: Recording) -> Step:
    calls = [one.start for one in found.operators if one.kind == "cpu_op" and window[0] <= one.start < window[1]]
    prepared = max(tasks[0].start - min(calls), 0) if tasks and calls else 0
    computing = [(one.start, one.end) for one in tasks if _tasks.is_kernel(one.core)]
    communication = [(one.start, one.end) for one in tasks if one.core == _tasks.COMMUNICATION]
    return Step(
        number,
        device,
        window,
        _spans.joined(_spans.cut(computing, window)),
        _spans.joined(_spans.cut(communication, window)),
        prepared,
    )
