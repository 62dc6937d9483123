"""One conversion from beginning to end: read, shape, optimise, lower, check, write."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softnpu import __version__
from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.onnx.table import rename
from softnpu.compiler.inspection import describe, stages
from softnpu.compiler.interface import outputs, shapes
from softnpu.compiler.interface.model_info import describe_model
from softnpu.compiler.lowering import engine_check
from softnpu.compiler.lowering.fold import fold
from softnpu.compiler.lowering.infer import infer_graph, infer_node
from softnpu.compiler.lowering.segments import programs_of
from softnpu.compiler.optimise import optimise
from softnpu.compiler.options.rows import Options
from softnpu.compiler.passes import fusion
from softnpu.graph import om_writer
from softnpu.graph.inout import ModelInfo
from softnpu.graph.ir import GIVEN, Graph

CAFFE, MINDSPORE, TENSORFLOW, ONNX = 0, 1, 3, 5
NCHW, NHWC, ND, NCDHW, NDHWC = 0, 1, 2, 30, 27
_FORMATS = {"NCHW": NCHW, "NHWC": NHWC, "ND": ND, "NCDHW": NCDHW, "NDHWC": NDHWC}
_RANKS = {NCHW: 4, NHWC: 4, NCDHW: 5, NDHWC: 5}
Progress = Callable[[str, float], None]


@dataclass
class BuildResult:
    """What a conversion made, and what the user should be told."""

    files: list[Path] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    info: str = ""


def quiet(_stage: str, _share: float) -> None:
    """Progress that nobody watches."""


def build(options: Options, progress: Progress = quiet) -> BuildResult:
    """Convert a model as the options say; the `.om` appears only when everything went well."""
    result = BuildResult()
    progress("reading the model", 0.0)
    graph, wanted = load(options, result)
    trail = stages.Trail(options)
    trail.write(graph, "RunParser")
    progress("finding shapes", 0.25)
    shapes.apply(graph, wanted, options.input_format)
    _set_formats(graph, options.input_format)
    outputs.select(graph, options)
    graph.sweep()
    _refuse_unknown(graph, options)
    _infer(graph, options)
    trail.write(graph, "PrepareAfterInferShape")
    progress("optimising", 0.45)
    report = optimise(graph, options, wanted)
    trail.write(graph, "AfterGraphOptimize")
    graph.verify()
    progress("planning", 0.65)
    info = describe_model(graph, wanted, options)
    progress("writing", 0.75)
    path = output_path(options)
    write(graph, info, path, options, check=True)
    trail.write(graph, "Build")
    if options.export_compile_stat:
        fusion.write_result(report, fusion.result_folder())
    result.files.append(path)
    if options.display_model_info:
        result.info = describe.information(path)
    progress("done", 1.0)
    return result


def load(options: Options, result: BuildResult) -> tuple[Graph, shapes.Shapes]:
    """The graph of the model file."""
    wanted = shapes.parse(options)
    path = Path(options.model)
    name = Path(options.output).name if options.output else path.stem
    if options.framework == ONNX:
        from softnpu.compiler.frontends.onnx.reader import read as read_onnx

        graph, notes = read_onnx(path)
    elif options.framework == CAFFE:
        from softnpu.compiler.frontends.caffe import reader as caffe

        types = caffe.read_type_names(Path(options.op_name_map)) if options.op_name_map else {}
        sizes = {key: tuple(dims) for key, dims in wanted.known().items()}
        graph, notes = caffe.read(path, Path(options.weight), name, sizes, types)
    elif options.framework == TENSORFLOW:
        from softnpu.compiler.frontends.tensorflow.reader import read as read_tensorflow

        graph, notes = read_tensorflow(path, name, options.input_format, wanted.known())
    else:
        raise AtcError(
            "E10055",
            "MindSpore models (--framework=1, .air) are not supported",
            "this atc has no reader for MindSpore's format",
            "export the model to ONNX (mindspore.export with file_format='ONNX') and use --framework=5",
        )
    graph.name = name
    result.warnings += notes
    return graph, wanted


def _set_formats(graph: Graph, word: str) -> None:
    """The layout of the inputs: what --input_format says, where the rank fits."""
    form = _FORMATS.get(word or "", ND)
    for node in graph.inputs:
        shape = node.output.shape
        node.output.format = form if shape is not None and len(shape) == _RANKS.get(form) else ND


def _refuse_unknown(graph: Graph, options: Options) -> None:
    if options.framework == ONNX:
        engine_check.adopt(graph)
        engine_check.refuse_unknown(graph)
        engine_check.fit_opset(graph)


def _infer(graph: Graph, options: Options) -> None:
    """Shapes of everything, constants folded on the way."""
    if options.framework != ONNX:
        for node in graph.nodes:
            if node.type not in GIVEN:
                infer_node(graph, node)
        return
    if options.oo_constant_folding:
        fold(graph)
    else:
        infer_graph(graph)
    rename(graph)


# ---- writing ---------------------------------------------------------------------------------------------------------


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


# ---- single operators and checks -------------------------------------------------------------------------------------


def build_single_ops(options: Options, progress: Progress = quiet) -> BuildResult:
    """Convert every operator of a --singleop file to a model of its own in the folder --output."""
    from softnpu.compiler.single_op.files import read

    result = BuildResult()
    described = read(Path(options.singleop))
    folder = Path(options.output)
    fresh = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".singleop.{os.getpid()}"
    try:
        for index, one in enumerate(described):
            progress(f"compiling {one.op}", index / len(described))
            try:
                _write_single(one, part / one.file_name(index), options)
            except AtcError as error:
                error.args = (f"element {index} ({one.op}): {error.message}",)
                error.message = error.args[0]
                raise
        for index, one in enumerate(described):  # all of them or none
            path = folder / one.file_name(index)
            (part / path.name).replace(path)
            result.files.append(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if fresh and not any(folder.iterdir()):
            folder.rmdir()
    progress("done", 1.0)
    return result


def _write_single(one: Any, path: Path, options: Options) -> None:
    from softnpu.compiler.single_op.graph import to_graph

    graph = to_graph(one)
    graph.name = one.op
    info = describe_model(graph, shapes.Shapes())
    info.run.single_op = one.key()
    write(graph, info, path, options, check=True)


def check(options: Options) -> dict[str, Any]:
    """--mode=3: every operator of a model, and whether it is supported."""
    graph, _ = load(options, BuildResult())
    bad = {}
    if options.framework == ONNX:
        engine_check.adopt(graph)
        for node, word in engine_check.unknown_operators(graph):
            bad[node.name] = f"type {word} is not supported"
    for name in graph.repeated:
        bad.setdefault(name, "name repeated")
    listed = []
    for node in graph.nodes:
        if node.type in ("Const", "Data"):
            continue
        row: dict[str, Any] = {
            "name": node.name,
            "type": node.type,
            "result": "failed" if node.name in bad else "success",
        }
        if node.name in bad:
            code = "E19009" if bad[node.name] == "name repeated" else "E16002"
            row["cause"] = [{"code": code, "message": bad[node.name]}]
        listed.append(row)
    failed = len(bad)
    return {
        "name": graph.name,
        "result": "failed" if failed else "success",
        "total": len(listed),
        "pass": len(listed) - failed,
        "fail": failed,
        "op": listed,
    }
