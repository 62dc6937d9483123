"""Which engine runs a model: what the user says, else the fastest that is installed, found by measuring once."""

from __future__ import annotations

from pathlib import Path

from softnpu.base import config
from softnpu.base.errors import NpuError, codes
from softnpu.executor.engines.base import Engine
from softnpu.executor.engines.mixed import MixedEngine
from softnpu.executor.engines.onnxruntime import OrtEngine
from softnpu.graph.om import ModelInfo, Om, StoredProgram, check_weights, damaged


def open_model(source: Om, info: ModelInfo) -> Engine:
    """Make the programs of a model ready to run."""
    weights = source.all_weights()
    programs = source.programs()
    for program in programs:
        check_weights(program.weights, len(weights))
        _check_self_contained(program)
    place = source.weights_place() if source.path is not None else None
    kept = memoryview(bytes(weights)) if place is None and len(weights) else None
    engines = [_open(program, place, kept) for program in programs]
    steps = info.extra.get("steps")
    if not steps:
        return engines[0]
    try:
        return MixedEngine(engines, steps)
    except (TypeError, KeyError, AttributeError) as error:
        raise damaged(f"its steps cannot be read ({error})") from error


def _open(program: StoredProgram, place: tuple[Path, str, int] | None, weights: memoryview | None) -> Engine:
    config.engine()
    try:
        return OrtEngine(program, place, weights)
    except MemoryError as error:
        raise NpuError(codes.GE_MEMORY_ALLOCATION, "there is not enough memory to load the model", "free memory") from error
    except Exception as error:
        raise damaged(f"the engine refuses its program ({' '.join(str(error).split())[:400]})") from error


def _check_self_contained(program: StoredProgram) -> None:
    """A program names weights by its table only; a message that points to another file is not ours."""
    from softnpu.graph.onnx_def import FUNCTION, GRAPH, RAW_MODEL
    from softnpu.graph.wire import WireError, decode

    del FUNCTION
    for part, table in ((program.graph, GRAPH), (program.model, RAW_MODEL)):
        if b"location" in bytes(part):
            try:
                message = decode(table, part)
            except WireError as error:
                raise damaged(f"its program cannot be read ({error})") from error
            if _points_outside(message):
                raise damaged("its program names a file outside of the model")


def _points_outside(message: object) -> bool:
    if isinstance(message, dict):
        if message.get("data_location") == 1 or message.get("external_data"):
            return True
        return any(_points_outside(one) for one in message.values())
    return isinstance(message, list) and any(_points_outside(one) for one in message)
