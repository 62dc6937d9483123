"""`torch_npu.profiler.profile`: steps of a training as files, and `analyse`, which makes tables of what was recorded."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch.profiler import ProfilerAction, ProfilerActivity

from softnpu.base.config import work_path
from torch_npu._runtime.face import torch_with_npu
from torch_npu.profiler import _folder, _marks, _timeline
from torch_npu.profiler._record import Operator, Recording
from torch_npu.profiler._recorder import Recorder
from torch_npu.profiler._say import never_raises, say, warn
from torch_npu.profiler.experimental_config import _ExperimentalConfig
from torch_npu.profiler.scheduler import Schedule

__all__ = ["analyse", "profile", "supported_activities", "tensorboard_trace_handler"]

_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
_NPU: ProfilerActivity = torch_with_npu.profiler.ProfilerActivity.NPU
_METRICS = ("self_cpu_time_total", "self_npu_time_total")


def supported_activities() -> set[ProfilerActivity]:
    """The host and the devices."""
    return {ProfilerActivity.CPU, _NPU}


def _always(step: int) -> ProfilerAction:
    del step
    return ProfilerAction.RECORD


class profile:
    """Records what runs between `start` and `stop`, or in the steps that a schedule names; no method raises."""

    @never_raises
    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        execution_trace_observer: Any = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        use_cuda: bool | None = None,
    ) -> None:
        self._activities = _checked(activities)
        if use_cuda is not None:
            warn("use_cuda is deprecated: use activities=[ProfilerActivity.CPU, ProfilerActivity.NPU]")
            self._activities = supported_activities() if use_cuda else {ProfilerActivity.CPU}
        self._schedule, self._on_trace_ready = schedule or _always, on_trace_ready
        self._has_schedule = schedule is not None
        self._flags = {
            "record_shapes": record_shapes, "profile_memory": profile_memory, "with_stack": with_stack,
            "with_flops": with_flops, "with_modules": with_modules,
        }  # fmt: skip
        self._config = experimental_config or _ExperimentalConfig()
        self._observer, self._trace_id_callback = (execution_trace_observer, custom_trace_id_callback)
        self._metadata: dict[str, Any] = {}
        self._step, self._action = 0, ProfilerAction.NONE
        self._recorder: Recorder | None = None
        self._range: Any = None
        self._recording: Recording | None = None
        self._torch: Any = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @never_raises
    def start(self) -> None:
        """Begin with step 0."""
        self._enter(self._schedule(self._step))

    @never_raises
    def step(self) -> None:
        """The next step begins."""
        self._close_range()
        done, self._step = self._action, self._step + 1
        action = self._schedule(self._step)
        if done == ProfilerAction.RECORD_AND_SAVE:
            self._finish()
        elif self._recorder is not None and action not in _RECORDS:
            warn(
                f"Incorrect schedule: {action.name} follows RECORD without RECORD_AND_SAVE: the profile is written now"
            )
            self._finish()
        self._enter(action)

    @never_raises
    def stop(self) -> None:
        """End; what was recorded since the last file is written too."""
        self._close_range()
        if self._recorder is not None:
            if self._has_schedule and self._action == ProfilerAction.RECORD:
                warn("Incorrect schedule: Stop profiler while current state is RECORD, the steps so far are written")
            self._finish()
        self._action = ProfilerAction.NONE

    def _enter(self, action: ProfilerAction) -> None:
        self._action = action
        if action not in _RECORDS:
            return
        if self._recorder is None:
            flags = {name: on for name, on in self._flags.items() if name != "record_shapes"}
            self._recorder = Recorder(**flags, custom_trace_id_callback=self._trace_id_callback)
            if self._observer is not None:
                self._observer.start()
            self._recorder.start()
            _marks.begin(self._config.wants_domain)
        self._range = torch.profiler.record_function(f"ProfilerStep#{self._step}")
        self._range.__enter__()

    def _close_range(self) -> None:
        if self._range is not None:
            self._range.__exit__(None, None, None)
            self._range = None

    @never_raises
    def _finish(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        self._recording, self._torch = recorder.stop(), recorder.torch
        self._recording.operators.extend(Operator(*mark, "user_annotation") for mark in _marks.end())
        if self._observer is not None:
            self._observer.stop()
        _keep(self._recording, self._activities, self._flags["record_shapes"])
        if self._on_trace_ready is not None:
            self._on_trace_ready(self)

    def _result(self) -> Recording:
        if self._recording is None:
            raise RuntimeError(
                "nothing was recorded yet: leave the profile or let the schedule reach its last active step"
            )
        return self._recording

    def _info(self) -> dict[str, Any]:
        """`profiler_info.json`."""
        recording = self._result()
        plan = self._schedule.as_json() if isinstance(self._schedule, Schedule) else {}
        names = sorted(activity.name for activity in self._activities)
        common = {"activities": [f"ProfilerActivity.{name}" for name in names], "schedule": plan, **self._flags}
        return {
            "config": {"common_config": common, "experimental_config": self._config.as_json()},
            "start_info": {"syscnt_enable": False, "start_ns": recording.start},
            "end_info": {"collectionTimeEnd": recording.end},
            "torch_npu_version": torch.__version__.partition("+")[0],
            "cann_version": torch_with_npu.npu.utils.get_cann_version(),
            "rank_id": _folder.rank(),
            "trace_id": self.get_trace_id(),
        }

    @never_raises
    def export_chrome_trace(self, output_path: str) -> None:
        """What was recorded last as one timeline."""
        _timeline.trace_view(self._result()).write(Path(output_path))

    @never_raises
    def export_stacks(self, output_path: str, metric: str = "self_cpu_time_total") -> None:
        """Calls with their times in microseconds, as tools for flame graphs read them; needs with_stack."""
        if metric not in _METRICS:
            raise ValueError(f"metric should be one of {', '.join(_METRICS)} but got {metric!r}")
        if not self._flags["with_stack"]:
            raise ValueError("export_stacks needs with_stack=True")
        recording = self._result()
        lines = []
        for operator in recording.innermost():
            stack = recording.stack(operator)
            if stack and (metric == _METRICS[0] or operator.core):
                words = [word.translate(str.maketrans(" ;\t\n", "____")) for word in (*reversed(stack), operator.name)]
                lines.append(f"{';'.join(words)} {operator.duration // 1000}\n")
        Path(output_path).write_text("".join(lines), encoding="utf-8")

    @never_raises
    def export_memory_timeline(self, output_path: str, device: str | None = None) -> None:
        """Memory over time by category (parameters, gradients …); needs record_shapes, profile_memory and with_stack."""
        from torch.profiler._memory_profiler import MemoryProfile, MemoryProfileTimeline

        for name in ("record_shapes", "profile_memory", "with_stack"):
            if not self._flags[name]:
                raise ValueError(f"export_memory_timeline needs {name}=True")
        self._result()
        timeline = MemoryProfileTimeline(MemoryProfile(self._torch.kineto_results))
        where = device or f"npu:{torch_with_npu.npu.current_device()}"
        if output_path.endswith(".html"):
            timeline.export_memory_timeline_html(output_path, where)
        elif output_path.endswith(".json"):
            timeline.export_memory_timeline(output_path, where)
        else:
            raise ValueError(f"output_path should end in .json or .html but got {output_path!r}")

    @never_raises
    def add_metadata(self, key: str, value: str) -> None:
        """A text for `profiler_metadata.json`."""
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"key and value should be str but got {type(key).__name__} and {type(value).__name__}")
        self._metadata[key] = value

    @never_raises
    def add_metadata_json(self, key: str, value: str) -> None:
        """The same with a value that is JSON."""
        self._metadata[key] = json.loads(value)

    @never_raises
    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """What names the next recording."""
        self._trace_id_callback = callback

    @never_raises
    def get_trace_id(self) -> str | None:
        """The name of the recording that runs or ran last."""
        running = self._recorder.torch if self._recorder is not None else self._torch
        return running.trace_id if running is not None else None

    @classmethod
    def enable_profiler_in_child_thread(cls, **kwargs: Any) -> None:
        """Not supported: torch's profiler sees the thread that started it and its backward passes."""
        del kwargs
        warn("enable_profiler_in_child_thread is not supported by softnpu: start a profile of its own in the thread")

    @classmethod
    def disable_profiler_in_child_thread(cls) -> None:
        """The other half of what is not supported."""
        warn("disable_profiler_in_child_thread is not supported by softnpu: there is nothing to end")


def _checked(activities: Iterable[ProfilerActivity] | None) -> set[ProfilerActivity]:
    wanted = set(activities) if activities else supported_activities()
    strange = wanted - supported_activities()
    if strange:
        named = ", ".join(str(getattr(activity, "name", activity)) for activity in strange)
        warn(f"activities should be of CPU and NPU but got {named}: left away")
    return wanted & supported_activities() or supported_activities()


def _keep(recording: Recording, activities: set[ProfilerActivity], shapes: bool) -> None:
    """Leave away what was not asked for. Shapes of kernels stay: a device knows them."""
    for operator in recording.operators:
        if _NPU not in activities:
            operator.core = ""
        if not operator.core and (not shapes or ProfilerActivity.CPU not in activities):
            operator.shapes, operator.dtypes = [], []
    if ProfilerActivity.CPU not in activities:
        recording.operators = [
            operator for operator in recording.operators if operator.core or operator.kind == "user_annotation"
        ]
        for operator in recording.operators:
            operator.parent = -1


def tensorboard_trace_handler(
    dir_name: str | None = None, worker_name: str | None = None, analyse_flag: bool = True, async_mode: bool = False
) -> Callable[[profile], None]:
    """What writes each recording into a folder of its own below `dir_name` (ASCEND_WORK_PATH/profiling_data, or the working
    directory), with its tables; `async_mode` makes them in a thread while the training goes on."""

    @wraps(tensorboard_trace_handler)
    def handle(prof: profile) -> None:
        folder = _folder.save(_parent(dir_name), worker_name, prof._result(), prof._info(), prof._metadata)
        if not analyse_flag:
            return
        if async_mode:
            threading.Thread(target=_write, args=(folder, prof._config.export_type, "async")).start()
        else:
            _write(folder, prof._config.export_type, "sync")

    return handle


def _parent(dir_name: str | None) -> Path:
    if dir_name:
        return Path(dir_name).resolve()
    root = work_path()
    return root / "profiling_data" if root is not None else Path.cwd()


@never_raises
def _write(folder: Path, export_types: list[str], mode: str) -> None:
    begin = time.monotonic()
    say(f"Start parsing profiling data in {mode} mode at: {folder}")
    _folder.write_output(folder, export_types)
    say(f"All profiling data parsed in a total time of {time.monotonic() - begin:.3f} s")


@never_raises
def analyse(profiler_path: str, max_process_number: int = 0, export_type: str | list[str] | None = None) -> None:
    """Make the tables of all profiles below a path, or of that folder itself, one after the other."""
    most = max_process_number or os.cpu_count() or 1
    if not isinstance(most, int) or most < 1:
        raise ValueError(f"max_process_number should be a positive number but got {max_process_number!r}")
    root = Path(profiler_path)
    if not root.is_dir():
        raise ValueError(f"profiler_path should be a folder but got {profiler_path!r}")
    folders = [folder for folder in (root, *sorted(root.glob("*_ascend_pt"))) if _folder.is_profile(folder)]
    if not folders:
        raise ValueError(f"there is no profile (a folder *_ascend_pt) in {profiler_path!r}")
    for folder in folders:
        asked = _folder.info_of(folder)["config"]["experimental_config"]["_export_type"]
        wanted = _ExperimentalConfig(export_type=export_type).export_type if export_type else asked
        _write(folder, wanted, "sync")
