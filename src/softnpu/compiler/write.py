"""Writing an `.om`: under a temporary name, checked by the engine, then renamed."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from softnpu import __version__
from softnpu.compiler.errors import AtcError
from softnpu.compiler.lowering import engine_check
from softnpu.compiler.lowering.segments import programs_of
from softnpu.compiler.options.rows import Options
from softnpu.graph import om_writer
from softnpu.graph.inout import ModelInfo
from softnpu.graph.ir import Graph


def output_path(options: Options) -> Path:
    """Where the `.om` goes: `--output` with its suffix."""
    path = Path(options.output)
    return path if path.name.endswith(".om") else path.with_name(path.name + ".om")


def write(graph: Graph, info: ModelInfo, path: Path, options: Options, check: bool) -> None:
    """Write the model under a temporary name, let the engine look at it, rename."""
    part = path.with_name(f".{path.stem}.{os.getpid()}.tmp.om")
    folder = path.parent / "weight"
    weights = folder / f".{path.stem}.{os.getpid()}.tmp" if options.external_weight else None
    name = f"{path.stem}_weight_combined"
    fresh = weights is not None and not os.path.exists(folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if weights is not None:
            folder.mkdir(exist_ok=True)
        programs, info.run.steps = programs_of(graph)
        om_writer.write(part, graph, programs, info, _attributes(graph, options), __version__, weights, name)
        if check:
            engine_check.check(part, weights)
        if weights is not None:
            weights.replace(folder / name)
        part.replace(path)
    except OSError as error:
        raise AtcError(
            "E10042",
            f"The offline model [{path}] cannot be written: {error.strerror}",
            "the folder is missing, full or not writable",
            "check --output",
        ) from error
    finally:
        with contextlib.suppress(OSError):  # names that cannot exist
            part.unlink(missing_ok=True)
            if weights is not None:
                weights.unlink(missing_ok=True)
                if fresh and not any(folder.iterdir()):
                    folder.rmdir()


def _attributes(graph: Graph, options: Options) -> dict[str, Any]:
    """What a real atc notes in a model (the information block and tools read it)."""
    return {
        "atc_version": f"softnpu {__version__}",
        "soc_version": options.soc_version,
        "arch_type": "0",
        "framework_type": str(graph.framework),
        "atc_cmdline": options.command_line,
        "opp_version": f"softnpu {__version__}",
        "attr_model_out_nodes_name": [output.name for output in graph.outputs],
        "stream_num": 1,
        "event_num": 0,
        "host_env_os": options.host_env_os or "linux",
        "host_env_cpu": options.host_env_cpu or os.uname().machine,
    }
