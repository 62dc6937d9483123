"""The one door to environment variables. `VARIABLES` is the page `docs/environment.md`."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from softnpu.base.errors import NpuError, codes

MAX_DEVICES = 16
MAX_THREADS = 1024
ENGINES = ("auto", "onnxruntime", "openvino", "nodewise")
_MAX_DIGITS = 18
DEFAULT_SOC = "Ascend910B3"


@dataclass(frozen=True)
class Variable:
    """One environment variable: a row of the documentation page."""

    name: str
    default: str
    meaning: str
    group: str


VARIABLES = (
    Variable(
        "SOFTNPU_DEVICES",
        "2",
        "Simulated devices: a count from 1 to 16, or a list of kinds such as `host:4` or `host,host`.",
        "softnpu",
    ),
    Variable(
        "SOFTNPU_SOC",
        DEFAULT_SOC,
        "Chip that the devices report and whose limits apply; a file name of `spec/soc/`.",
        "softnpu",
    ),
    Variable(
        "SOFTNPU_MEMORY", "the chip's", "Memory of each device, as bytes or with a unit: `8G`, `512M`.", "softnpu"
    ),
    Variable(
        "SOFTNPU_OVERCOMMIT",
        "0",
        "`1` lets live allocations exceed three quarters of the machine's memory (they are limited to it otherwise).",
        "softnpu",
    ),
    Variable(
        "SOFTNPU_THREADS",
        "all cores that the process may use",
        "Threads that computing uses, shared by all models and streams of the process.",
        "softnpu",
    ),
    Variable(
        "SOFTNPU_ENGINE",
        "auto",
        "What runs models: `auto` (the fastest that is installed, found by measuring when a model is first loaded), `onnxruntime`, `openvino`, `nodewise`.",
        "softnpu",
    ),
    Variable(
        "SOFTNPU_CACHE_DIR",
        "`$XDG_CACHE_HOME/softnpu`, else `~/.cache/softnpu`",
        "Where measurements are remembered.",
        "softnpu",
    ),
    Variable(
        "DUMP_GE_GRAPH",
        "",
        "`1`, `2` or `3`: atc writes the graph after each stage (with weights, without, structure only).",
        "CANN",
    ),
    Variable(
        "DUMP_GRAPH_LEVEL",
        "2",
        "Which stages are written: `1` all, `2` the main ones, `3` the last, `4` the first.",
        "CANN",
    ),
    Variable("DUMP_GRAPH_PATH", "the working directory", "Where the graphs go.", "CANN"),
    Variable("SOFTNPU_RUN_MODE", "host", "Answer of `acl.rt.get_run_mode`: `host` or `device`.", "softnpu"),
    Variable(
        "SOFTNPU_CHECK",
        "",
        "Comma list: `leaks` (report at finalize), `trace` (remember where memory was allocated), `strict` (both, and the manual's alignment, direction and size rules become errors; so do the media limits of the chip).",
        "softnpu",
    ),
    Variable(
        "SOFTNPU_RUNTIME_DIR",
        "`$XDG_RUNTIME_DIR/softnpu`, else a per-user folder in the temporary directory",
        "Where processes publish what `npu-smi` shows, and where shared memory keys live.",
        "softnpu",
    ),
    Variable(
        "SOFTNPU_FACE", "", "`softnpu` makes `import acl` use softnpu although a real CANN is installed.", "softnpu"
    ),
    Variable(
        "ASCEND_TOOLKIT_HOME",
        "",
        "Where a real CANN is installed; if its `acl` is there, softnpu's steps aside (see `SOFTNPU_FACE`). Also `ASCEND_HOME_PATH`.",
        "CANN",
    ),
    Variable(
        "ASCEND_RT_VISIBLE_DEVICES",
        "all",
        "Comma list of physical device ids; the program sees them as 0, 1, … in this order. Ids from the first invalid entry on are ignored.",
        "CANN",
    ),
    Variable("ASCEND_GLOBAL_LOG_LEVEL", "3", "0 debug, 1 info, 2 warning, 3 error, 4 none.", "log"),
    Variable("ASCEND_MODULE_LOG_LEVEL", "", "Level per module, `MODULE=level:MODULE=level`, e.g. `ASCENDCL=1`.", "log"),
    Variable("ASCEND_GLOBAL_EVENT_ENABLE", "1", "`0` leaves EVENT lines out.", "log"),
    Variable(
        "ASCEND_SLOG_PRINT_TO_STDOUT",
        "0",
        "`1` prints log lines instead of writing files. Also `ASCEND_LOG_PRINT_TO_STDOUT` (newer) and `SLOG_PRINT_TO_STDOUT` (oldest).",
        "log",
    ),
    Variable(
        "ASCEND_PROCESS_LOG_PATH", "", "Log directory; before `ASCEND_WORK_PATH/log`, before `~/ascend/log`.", "log"
    ),
    Variable("ASCEND_WORK_PATH", "", "Root of files that a program leaves behind (logs under `log/`).", "log"),
    Variable("ASCEND_HOST_LOG_FILE_NUM", "10", "Log files kept per process, 1 to 1000; each is at most 20 MB.", "log"),
    Variable("ASCEND_LOG_SYNC_SAVE", "0", "`1` flushes every line to the disk before the call returns.", "log"),
    Variable(
        "SOFTNPU_FLOW_ENGINE",
        "embedded",
        "What runs a DataFlow graph: `embedded` (a process per node), `inline` (all in this process, for debugging), "
        "`ray` (actors), `stub` (accepts any graph, runs nothing). Option `softnpu.flow.engine`.",
        "dataflow",
    ),
    Variable(
        "SOFTNPU_FLOW_ON_DEATH",
        "restart",
        "When the process of a node dies: `restart` it (the transaction it was in fails, the others go on) or `end` the "
        "graph. Option `softnpu.flow.on_death`.",
        "dataflow",
    ),
    Variable(
        "SOFTNPU_FLOW_RESTARTS",
        "3",
        "How often within ten seconds a node is started again before the graph ends. Option `softnpu.flow.restarts`.",
        "dataflow",
    ),
    Variable(
        "SOFTNPU_FLOW_STRICT",
        "0",
        "`1` stops a node whose function failed, as the real engine does; otherwise only the transaction fails. "
        "Option `softnpu.flow.strict`.",
        "dataflow",
    ),
    Variable(
        "SOFTNPU_FLOW_MEMORY",
        "what is available at the start",
        "Memory that one worker may allocate, such as `4G`; `0` is no limit. Option `softnpu.flow.memory`.",
        "dataflow",
    ),
    Variable(
        "SOFTNPU_FLOW_WORKSPACE",
        "0",
        "`1` writes the project folder `<node>_ws` of every function, as the real tool does. Option "
        "`softnpu.flow.workspace`.",
        "dataflow",
    ),
    Variable(
        "SOFTNPU_FLOW_TIMELINE",
        "",
        "File for a timeline of all calls that opens in Perfetto. Option `softnpu.flow.timeline`.",
        "dataflow",
    ),
    Variable(
        "SOFTNPU_FLOW_METRICS_PORT",
        "",
        "Port on 127.0.0.1 that answers with metrics as Prometheus text; nothing listens without it. Option "
        "`softnpu.flow.metrics_port`.",
        "dataflow",
    ),
    Variable(
        "SOFTNPU_FLOW_METRICS_TOKEN",
        "",
        "What a reader of the metrics has to show; without it one is made up and printed. Option "
        "`softnpu.flow.metrics_token`.",
        "dataflow",
    ),
    Variable(
        "RESOURCE_CONFIG_PATH",
        "",
        "`numa_config.json` with servers and devices: a deployment file may name only these.",
        "dataflow",
    ),
    Variable(
        "RAY_ADDRESS",
        "",
        "Cluster that the engine `ray` joins; without it a local Ray is started.",
        "dataflow",
    ),
)
FLOW_ENGINES = ("embedded", "inline", "ray", "stub")


def _env(name: str) -> str:
    return os.environ.get(name, "").strip()


_complained: set[tuple[str, str]] = set()


def _is_number(text: str) -> bool:
    """Whether a text is a whole number of sensible length, in plain digits."""
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _bad(name: str, value: str, expected: str) -> NpuError:
    """The error for a bad variable; also said once on stderr, since programs tend to ignore the ret of acl.init."""
    text = f"environment variable {name}={value!r} is not usable: {expected} is expected"
    if (name, value) not in _complained:
        _complained.add((name, value))
        sys.stderr.write(f"softnpu: {text}\n")
    return NpuError(codes.INVALID_PARAM, text, f"export {name} with such a value, or unset it", "EE2002")


def device_kinds() -> tuple[str, ...]:
    """The kinds of the devices of this machine, in order of physical id."""
    value = _env("SOFTNPU_DEVICES") or "2"
    expected = f"a count from 1 to {MAX_DEVICES} or a list such as host:4"
    if _is_number(value):
        kinds = ["host"] * min(int(value), MAX_DEVICES + 1)
    else:
        kinds = []
        for part in value.split(","):
            kind, _, count = part.strip().partition(":")
            if kind not in ("host", "cuda") or not _is_number(count or "1"):
                raise _bad("SOFTNPU_DEVICES", value, expected)
            kinds += [kind] * min(int(count or "1"), MAX_DEVICES + 1)
    if not 1 <= len(kinds) <= MAX_DEVICES:
        raise _bad("SOFTNPU_DEVICES", value, expected)
    return tuple(kinds)


def visible_devices(count: int) -> tuple[int, ...]:
    """Physical ids in the order in which the program sees them (`ASCEND_RT_VISIBLE_DEVICES`)."""
    value = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if value is None:
        return tuple(range(count))
    seen: list[int] = []
    for part in value.split(","):
        text = part.strip()
        if not _is_number(text) or int(text) >= count or int(text) in seen:
            break
        seen.append(int(text))
    return tuple(seen)


def byte_size(name: str) -> int | None:
    """A size variable such as `8G`, or None when it is not set."""
    value = _env(name)
    return _bytes(name, value) if value else None


def _bytes(name: str, value: str) -> int:
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    text = value.upper().removesuffix("IB").removesuffix("B")
    digits = text.rstrip("KMGT")
    if not _is_number(digits) or text[len(digits) :] not in units or int(digits) == 0:
        raise _bad(name, value, "a positive size such as 8G or 512M")
    return int(digits) * units[text[len(digits) :]]


@dataclass(frozen=True)
class Settings:
    """What the runtime takes from the environment; read once when a process object is made."""

    kinds: tuple[str, ...] = field(default_factory=device_kinds)
    soc: str = field(default_factory=lambda: _env("SOFTNPU_SOC") or DEFAULT_SOC)
    memory: int | None = field(default_factory=lambda: byte_size("SOFTNPU_MEMORY"))
    overcommit: bool = field(default_factory=lambda: _env("SOFTNPU_OVERCOMMIT") == "1")
    run_mode: int = field(default_factory=lambda: _run_mode())
    checks: frozenset[str] = field(default_factory=lambda: _checks())

    @property
    def visible(self) -> tuple[int, ...]:
        """Physical ids that the program may use, in its order."""
        return visible_devices(len(self.kinds))


def _run_mode() -> int:
    value = _env("SOFTNPU_RUN_MODE") or "host"
    if value not in ("host", "device"):
        raise _bad("SOFTNPU_RUN_MODE", value, "host or device")
    return 1 if value == "host" else 0


def _checks() -> frozenset[str]:
    value = _env("SOFTNPU_CHECK")
    parts = {part.strip() for part in value.split(",") if part.strip()}
    if not parts <= {"leaks", "trace", "strict"}:
        raise _bad("SOFTNPU_CHECK", value, "a comma list of leaks, trace, strict")
    return frozenset(parts | {"leaks", "trace"} if "strict" in parts else parts)


@functools.cache
def compute_threads() -> int:
    """How many threads computing may use."""
    value = _env("SOFTNPU_THREADS")
    if not value:
        return len(os.sched_getaffinity(0))
    if not _is_number(value) or not 1 <= int(value) <= MAX_THREADS:
        raise _bad("SOFTNPU_THREADS", value, f"a number from 1 to {MAX_THREADS}")
    return int(value)


def engine() -> str:
    """The engine that the user asks for, `auto` to let it be measured."""
    value = _env("SOFTNPU_ENGINE") or "auto"
    if value not in ENGINES:
        raise _bad("SOFTNPU_ENGINE", value, f"one of {', '.join(ENGINES)}")
    return value


def allow_new_opsets() -> None:
    """Let onnxruntime take opsets that are newer than its last release; it reads this variable when it opens a model."""
    os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")


def child_environment() -> dict[str, str]:
    """The environment of a process of ours that finds this very softnpu."""
    package = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([package, _env("PYTHONPATH")]).rstrip(os.pathsep)}


def whole_environment() -> dict[str, str]:
    """All variables, for a process that is to be like this one."""
    return dict(os.environ)


def take_environment(variables: dict[str, str]) -> None:
    """Have these variables and no others."""
    os.environ.clear()
    os.environ.update(variables)


def cache_dir() -> Path:
    """Where measurements are remembered between runs."""
    home = _env("XDG_CACHE_HOME")
    return Path(_env("SOFTNPU_CACHE_DIR") or Path(home or Path(os.path.expanduser("~")) / ".cache") / "softnpu")


def graph_dumps() -> tuple[int, int, Path]:
    """DUMP_GE_GRAPH (0 none, 1 all, 2 without weights, 3 only the structure), DUMP_GRAPH_LEVEL and the folder."""
    content, level = _number("DUMP_GE_GRAPH", 0, 1, 3), _number("DUMP_GRAPH_LEVEL", 2, 1, 4)
    return content, level, Path(_env("DUMP_GRAPH_PATH") or _env("ASCEND_WORK_PATH") or ".")


def work_path() -> Path | None:
    """ASCEND_WORK_PATH, where tools put their files."""
    value = _env("ASCEND_WORK_PATH")
    return Path(value) if value else None


def runtime_dir() -> Path:
    """The per-user directory in which processes publish what others may see."""
    explicit = _env("SOFTNPU_RUNTIME_DIR")
    if explicit:
        return Path(explicit)
    session = _env("XDG_RUNTIME_DIR")
    if session and os.access(session, os.W_OK):
        return Path(session) / "softnpu"
    return Path(_env("TMPDIR") or "/tmp") / f"softnpu-{os.getuid()}"


@dataclass(frozen=True)
class LogSettings:
    """Log variables; bad numbers fall back to the default, since the log cannot complain about itself."""

    level: int = field(default_factory=lambda: _number("ASCEND_GLOBAL_LOG_LEVEL", 3, 0, 4))
    modules: dict[str, int] = field(default_factory=lambda: _module_levels())
    events: bool = field(default_factory=lambda: _env("ASCEND_GLOBAL_EVENT_ENABLE") != "0")
    to_stdout: bool = field(default_factory=lambda: _to_stdout())
    directory: Path = field(default_factory=lambda: _log_directory())
    files: int = field(default_factory=lambda: _number("ASCEND_HOST_LOG_FILE_NUM", 10, 1, 1000))
    sync: bool = field(default_factory=lambda: _env("ASCEND_LOG_SYNC_SAVE") == "1")


def _number(name: str, default: int, low: int, high: int) -> int:
    value = _env(name)
    return int(value) if _is_number(value) and low <= int(value) <= high else default


def _module_levels() -> dict[str, int]:
    levels = {}
    for part in _env("ASCEND_MODULE_LOG_LEVEL").split(":"):
        module, _, level = part.partition("=")
        if module.strip() and level.strip() in ("0", "1", "2", "3", "4"):
            levels[module.strip().upper()] = int(level)
    return levels


def _to_stdout() -> bool:
    names = ("ASCEND_LOG_PRINT_TO_STDOUT", "ASCEND_SLOG_PRINT_TO_STDOUT", "SLOG_PRINT_TO_STDOUT")
    return next((_env(name) == "1" for name in names if _env(name)), False)


def _log_directory() -> Path:
    if path := _env("ASCEND_PROCESS_LOG_PATH"):
        return Path(path)
    if path := _env("ASCEND_WORK_PATH"):
        return Path(path) / "log"
    return Path(os.path.expanduser("~")) / "ascend" / "log"


@dataclass(frozen=True)
class FlowSettings:
    """How DataFlow graphs are run: options of the graph or of `init` before environment variables."""

    engine: str = "embedded"
    on_death: str = "restart"
    restarts: int = 3
    strict: bool = False
    memory_limit: int = 0
    workspace: bool = False
    timeline: str = ""
    metrics_port: int = 0
    metrics_token: str = ""

    @classmethod
    def load(cls, options: dict[str, str] | None = None) -> FlowSettings:
        """The settings in force; NpuError for a value that means nothing."""
        known = options or {}

        def text(key: str, default: str, choices: tuple[str, ...] = ()) -> str:
            name = f"SOFTNPU_FLOW_{key.upper()}"
            value = known.get(f"softnpu.flow.{key}") or _env(name) or default
            if choices and value not in choices:
                raise _bad(name, value, "one of " + ", ".join(choices))
            return value

        def number(key: str, default: int, high: int) -> int:
            value = text(key, str(default))
            if not _is_number(value) or int(value) > high:
                raise _bad(f"SOFTNPU_FLOW_{key.upper()}", value, f"a number from 0 to {high}")
            return int(value)

        return cls(
            engine=text("engine", "embedded", FLOW_ENGINES),
            on_death=text("on_death", "restart", ("restart", "end")),
            restarts=number("restarts", 3, 200),
            strict=text("strict", "0", ("0", "1")) == "1",
            memory_limit=_flow_memory(text("memory", "")),
            workspace=text("workspace", "0", ("0", "1")) == "1",
            timeline=text("timeline", ""),
            metrics_port=number("metrics_port", 0, 65535),
            metrics_token=text("metrics_token", ""),
        )


def resource_config() -> str:
    """The description of machines and devices that a deployment is checked against; empty: none."""
    return _env("RESOURCE_CONFIG_PATH")


def ray_address(options: dict[str, str] | None = None) -> str:
    """The Ray cluster to join; empty: start one here."""
    return (options or {}).get("softnpu.flow.ray_address") or _env("RAY_ADDRESS")


def _flow_memory(value: str) -> int:
    """Bytes that a worker may allocate; by default what the machine has free, so that a mistake ends in MemoryError."""
    if value:
        return 0 if value == "0" else _bytes("SOFTNPU_FLOW_MEMORY", value)
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return 0  # another system: no limit
    return 0
