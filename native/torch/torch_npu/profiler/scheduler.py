"""Which steps of a training are profiled."""

from __future__ import annotations

from torch.profiler import ProfilerAction

from torch_npu.profiler._say import warn

__all__ = ["ProfilerAction", "Schedule", "schedule"]


class Schedule:
    """Skip some steps, then in turn wait, warm up and record; `repeat` times, or until the end when it is 0."""

    def __init__(
        self, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
    ) -> None:
        counts = {"wait": wait, "active": active, "warmup": warmup, "repeat": repeat, "skip_first": skip_first}
        for name, value in {**counts, "skip_first_wait": skip_first_wait}.items():
            least = 1 if name == "active" else 0
            if not isinstance(value, int) or value < least:
                warn(
                    f"schedule: {name} should be a whole number of at least {least} but got {value!r}: {least} is taken"
                )
                counts[name] = least
        self.wait, self.active, self.warmup = (counts["wait"], counts["active"], counts["warmup"])
        self.repeat, self.skip_first = counts["repeat"], counts["skip_first"]
        self.skip_first_wait = skip_first_wait if isinstance(skip_first_wait, int) else 0

    def __call__(self, step: int) -> ProfilerAction:
        """What is done in a step."""
        if step < self.skip_first:
            return ProfilerAction.NONE
        step -= self.skip_first
        if self.skip_first_wait:
            step += self.wait
        length = self.wait + self.warmup + self.active
        turn, step_of_turn = divmod(step, length)
        if (self.repeat and turn >= self.repeat) or step_of_turn < self.wait:
            return ProfilerAction.NONE
        if step_of_turn < self.wait + self.warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if step_of_turn == length - 1 else ProfilerAction.RECORD

    def as_json(self) -> dict[str, int]:
        """As `profiler_info` has it."""
        return {name: getattr(self, name) for name in ("wait", "active", "warmup", "repeat", "skip_first")}


schedule = Schedule
