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


def steps_of(recording: Recording) -> list[Step]:
    """The steps of all devices that had work; one per device when the program made no steps."""
    tasks = recording.tasks()
    windows: list[tuple[int | None, Span]] = [(number, (step.start, step.end)) for number, step in recording.steps()]
    windows = windows or [(None, (recording.start, recording.end))]
    steps = []
    for device in sorted({task.device for task in tasks}):
        mine = [task for task in tasks if task.device == device]
        for number, window in windows:
            inside = [task for task in mine if task.start < window[1] and task.end > window[0]]
            steps.append(_step(number, device, window, inside, recording))
    return steps


def _step(number: int | None, device: int, window: Span, tasks: list[Operator], recording: Recording) -> Step:
    calls = [
        operator.start
        for operator in recording.operators
        if operator.kind == "cpu_op" and window[0] <= operator.start < window[1]
    ]
    prepared = max(tasks[0].start - min(calls), 0) if tasks and calls else 0
    computing = [(task.start, task.end) for task in tasks if _tasks.is_kernel(task.core)]
    communication = [(task.start, task.end) for task in tasks if task.core == _tasks.COMMUNICATION]
    return Step(
        number,
        device,
        window,
        _spans.joined(_spans.cut(computing, window)),
        _spans.joined(_spans.cut(communication, window)),
        prepared,
    )
