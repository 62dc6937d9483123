"""Which engine runs a model: what the user says, else the fastest that is installed, found by measuring once."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from softnpu.base import config
from softnpu.base.dtypes import numpy_name
from softnpu.base.errors import NpuError, codes
from softnpu.base.log import INFO, WARNING, log
from softnpu.executor.engines import openvino
from softnpu.executor.engines.base import Engine
from softnpu.executor.engines.mixed import MixedEngine
from softnpu.executor.engines.nodewise import NodewiseEngine
from softnpu.executor.engines.onnxruntime import OrtEngine
from softnpu.executor.engines.openvino import OpenVinoEngine
from softnpu.executor.measure import Case
from softnpu.graph import digest
from softnpu.graph.om import ModelInfo, Om, StoredProgram, check_weights, damaged
from softnpu.graph.onnx_def import GRAPH, RAW_MODEL
from softnpu.graph.wire import WireError, decode

_DOUBLE = 11
Where = tuple[Path, str, int]
_WORTH_SECONDS = 3e-3  # faster models are not worth a measurement
_MARGIN = 0.95  # the other engine must be this much better
_TIMEOUT_SECONDS = 180


def open_model(source: Om, info: ModelInfo, nodewise: bool = False) -> Engine:
    """Make the programs of a model ready to run; node by node where something watches them."""
    weights = source.all_weights()
    programs = source.programs()
    digest.check_weights(weights, source.weights_digest)
    Om.let_go(weights)  # the engine maps or copies them for itself
    for program in programs:
        check_weights(program.weights, len(weights))
        _check_self_contained(program)
    if nodewise or config.engine() == "nodewise":
        return _guarded(lambda: NodewiseEngine(source, info, programs))
    weights_file = source.weights_place() if source.path is not None else None
    kept = weights if len(weights) else None  # a view of the mapped file, or of our own copy of a model in memory
    steps = info.run.steps
    if not steps:
        return _single(source, info, programs[0], weights_file, kept)
    engines: list[Engine] = [_ort(program, weights_file, kept) for program in programs]
    try:
        return MixedEngine(engines, steps)
    except (TypeError, KeyError, AttributeError) as error:
        raise damaged(f"its steps cannot be read ({error})") from error


def _ort(program: StoredProgram, weights_file: Where | None, weights: memoryview | None) -> Engine:
    return _guarded(lambda: OrtEngine(program, weights_file, weights))


def _single(
    source: Om, info: ModelInfo, program: StoredProgram, weights_file: Where | None, weights: memoryview | None
) -> Engine:
    """The engine of a model in one piece."""
    wanted = config.engine()
    if info.run.exact_casts:  # OpenVINO leaves roundings out
        if wanted == "openvino":
            log().write(
                WARNING, "the model has a precision mode, onnxruntime runs it instead of openvino", "GE", "load"
            )
        wanted = "onnxruntime"
    if wanted == "openvino":
        return _guarded(lambda: OpenVinoEngine(program, weights_file, source.all_weights()))
    if wanted != "auto" or not openvino.installed() or not _fixed(info):
        return _ort(program, weights_file, weights)
    known = _remembered(program)
    if known is None:
        engine = _ort(program, weights_file, weights)
        if weights_file is None or source.path is None or _seconds(engine, info) < _WORTH_SECONDS:
            return engine
        known = _measure(source.path)
        _remember(program, known)
        if known != "openvino":
            return engine
        engine.close()
    if known == "openvino":
        try:
            return OpenVinoEngine(program, weights_file, source.all_weights())
        except Exception as error:
            log().write(
                WARNING, f"openvino refuses a model that it ran before, onnxruntime takes it: {error}", "GE", "load"
            )
    return _guarded(lambda: OrtEngine(program, weights_file, weights))


def _guarded(make: Callable[[], Engine]) -> Engine:
    """An engine, its refusals in the words of the manual."""
    try:
        return make()
    except NpuError:
        raise
    except MemoryError as error:
        raise NpuError(
            codes.GE_MEMORY_ALLOCATION, "there is not enough memory to load the model", "free memory"
        ) from error
    except Exception as error:
        raise damaged(f"the engine refuses its program ({' '.join(str(error).split())[:400]})") from error


def _fixed(info: ModelInfo) -> bool:
    """Whether all shapes are fixed and all types are plain, so that both engines can be compared."""
    tensors = [*info.inputs, *info.outputs]
    return not info.gears and all(
        numpy_name(tensor.dtype) and tensor.dtype != _DOUBLE and all(dim > 0 for dim in tensor.dims)
        for tensor in tensors
    )


def _seconds(engine: Engine, info: ModelInfo) -> float:
    """What a run takes, roughly."""
    try:
        case = Case(engine, info)
        return min(case.once() for _ in range(2))
    except Exception as error:  # made-up inputs may be wrong for a model; then there is nothing to measure
        log().write(INFO, f"the engines are not measured: {' '.join(str(error).split())[:200]}", "GE", "load")
        return 0.0


def _measure(path: Path) -> str:
    """The faster engine, found in a process of its own."""
    command = [sys.executable, "-P", "-m", "softnpu.executor.measure", str(path.resolve())]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=True,
            env=config.child_environment(),
        )
        times = json.loads(done.stdout.strip().splitlines()[-1])
        faster = times.get("openvino", math.inf) < _MARGIN * times.get("onnxruntime", 0.0)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, IndexError) as error:
        log().write(WARNING, f"the engines could not be measured: {error}", "GE", "load")
        return "onnxruntime"
    log().write(INFO, f"engines measured on {path.name}: {times}", "GE", "load")
    return "openvino" if faster else "onnxruntime"


def _key(program: StoredProgram) -> str:
    """What a measurement holds for: the program, the machine, the engines."""
    digest = hashlib.sha256(program.graph)
    digest.update(repr([tuple(weight) for weight in program.weights]).encode())
    versions = [importlib.metadata.version(name) for name in ("onnxruntime", "openvino")]
    digest.update(
        repr((versions, config.compute_threads(), os.cpu_count(), platform.processor(), os.uname().nodename)).encode()
    )
    return digest.hexdigest()[:32]


def _remembered(program: StoredProgram) -> str | None:
    try:
        engine = (config.cache_dir() / "engines" / _key(program)).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    return engine if engine in ("onnxruntime", "openvino") else None


def _remember(program: StoredProgram, engine: str) -> None:
    path = config.cache_dir() / "engines" / _key(program)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(engine, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        log().write(WARNING, f"the measurement cannot be remembered: {error}", "GE", "load")


def _check_self_contained(program: StoredProgram) -> None:
    """A program names weights by its table only; a message that points to another file is not ours."""
    for part, table in ((program.graph, GRAPH), (program.model, RAW_MODEL)):
        if b"location" in bytes(part) or part is program.model:
            try:
                message = decode(table, part)
            except WireError as error:
                raise damaged(f"its program cannot be read ({error})") from error
            if "graph" in message and part is program.model:
                raise damaged("its program holds a second graph")
            if _points_outside(message):
                raise damaged("its program names a file outside of the model")


def _points_outside(message: object) -> bool:
    if isinstance(message, dict):
        if message.get("data_location") == 1 or message.get("external_data"):
            return True
        return any(_points_outside(item) for item in message.values())
    return isinstance(message, list) and any(_points_outside(item) for item in message)
