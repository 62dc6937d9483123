"""Model files of GraphProcessPoints, compiled by our own compiler in the application, before anything is deployed.

A worker gets a finished `.om`: small ones travel with the plan, large ones stay in a file that workers map together.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from softnpu import __version__
from softnpu.base.config import Settings
from softnpu.base.errors import NpuError
from softnpu.compiler import build as compiler
from softnpu.compiler.errors import AtcError
from softnpu.compiler.options.checks import check
from softnpu.compiler.options.rows import Options
from softnpu.flow import codes, log
from softnpu.flow.errors import DfException
from softnpu.flow.models.config import ModelConfig, input_shape_text, read_config
from softnpu.flow.models.inputs import ONNX, TENSORFLOW, Input, inputs_of, retyped
from softnpu.flow.models.source import ModelSource as ModelSource
from softnpu.flow.plan import MODEL_LOADER, BodySpec
from softnpu.graph.inout import SHAPE_INPUT
from softnpu.graph.om import Om

MINDSPORE = 3
CACHE_DIR, GRAPH_KEY = "ge.graph_compiler_cache_dir", "ge.graph_key"
_EMBEDDED_BYTES = 4 << 20
_ATC_FRAMEWORKS = {TENSORFLOW: 3, ONNX: 5}
# What a build option of GE is called by atc; the compiler checks the values.
_BUILD_OPTIONS = {
    "ge.dynamicBatchSize": "dynamic_batch_size", "ge.dynamicImageSize": "dynamic_image_size", "ge.dynamicDims": "dynamic_dims",
    "ge.exec.precision_mode": "precision_mode", "ge.exec.precision_mode_v2": "precision_mode_v2",
    "ge.outputDatatype": "output_type", "ge.outputNodeName": "out_nodes", "ge.insertOpFile": "insert_op_conf",
    "ge.externalWeight": "external_weight", "ge.socVersion": "soc_version",
}  # fmt: skip
_INHERITED = ("ge.exec.precision_mode", "ge.exec.precision_mode_v2", "ge.externalWeight", "ge.socVersion")
_HANDLED = frozenset({"ge.inputShape", "ge.outputMaxSize"})  # the first by us; results have the size that they have


def build_all(sources: Sequence[ModelSource], parallel: bool = False) -> list[BodySpec]:
    """The bodies of many models; `parallel` is the graph's `graphpp_builder_async`."""
    if not parallel or len(sources) < 2:
        return [build(source) for source in sources]
    with ThreadPoolExecutor(min(len(sources), 8), "softnpu-model-build") as pool:
        return list(pool.map(build, sources))


def build(source: ModelSource) -> BodySpec:
    """Compile a model; whatever is wrong with it is a DfException that names the file."""
    path = Path(source.path)
    if not path.is_file():
        raise _refused(source, "the file does not exist or is no file; check graph_file")
    config = read_config(source.config_path)
    if _is_om(path):
        return _spec(source, path, keep=True)
    if source.framework == MINDSPORE:
        raise _refused(
            source,
            "MindSpore AIR files cannot be read here; export the model as ONNX and use Framework.ONNX, "
            "or give the .om that atc made of it",
        )
    if source.framework not in _ATC_FRAMEWORKS:
        raise _refused(source, f"the framework {source.framework} is not known; use a value of df.Framework")
    try:
        return _cached(source, config, path)
    except DfException:
        raise
    except Exception as problem:
        raise _translated(source, problem) from problem


def embedded(spec: BodySpec) -> BodySpec:
    """The same body with the model inside, for a worker that does not see our files."""
    if "path" not in spec.data:
        return spec
    data = {key: value for key, value in spec.data.items() if key != "path"}
    return BodySpec(spec.loader, {**data, "om": Path(spec.data["path"]).read_bytes()})


def _refused(source: ModelSource, reason: str) -> DfException:
    return DfException(f"The model {source.path!r} of {source.name or 'a node'} cannot be used: {reason}.")


def _translated(source: ModelSource, problem: Exception) -> DfException:
    if isinstance(problem, AtcError):
        hint = f"; {problem.solution}" if problem.solution else ""
        return _refused(source, f"{problem.code} {problem.message}{hint}".rstrip("."))
    if isinstance(problem, NpuError):
        return _refused(source, f"{problem.text}; {problem.remedy}".rstrip("; ."))
    text = f"compiling the model {source.path!r} failed: {type(problem).__name__}: {problem}"
    return DfException(text, codes.INNER_ERROR)


def _is_om(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"IMOD"


# ---- the compile cache ----------------------------------------------------------------------------------------------------


def _cached(source: ModelSource, config: ModelConfig, path: Path) -> BodySpec:
    """A model compiled before under `ge.graph_key`, if it still is the same one; else compile, and keep it there."""
    folder, key = source.options.get(CACHE_DIR, ""), source.options.get(GRAPH_KEY, "")
    if not folder or not key:
        return _compiled(source, config, path)
    if not Path(folder).is_dir():
        raise DfException(f"{CACHE_DIR} is {folder!r}, which is no folder; make it first.")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", key):
        raise DfException(f"{GRAPH_KEY} is {key!r}; it must be 1 to 128 letters, digits, '_' or '-'.")
    digest = _digest(source, path)
    stem = f"{key}_{re.sub('[^A-Za-z0-9_-]', '_', source.name or path.stem)}"
    om, index = Path(folder) / f"{stem}.om", Path(folder) / f"{stem}.idx"
    if om.is_file() and _noted(index) == digest:
        log.info("the model %s comes from the compile cache: %s", source.path, om)
        return _spec(source, om, keep=True, names=_names(source, config, path))
    spec = _compiled(source, config, path, om)
    index.write_text(json.dumps({"digest": digest, "model": om.name}), encoding="utf-8")
    return spec


def _noted(index: Path) -> str:
    try:
        noted = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(noted.get("digest", "")) if isinstance(noted, dict) else ""


def _digest(source: ModelSource, path: Path) -> str:
    """Everything that decides what the compiler makes of a model."""
    model = path.read_bytes()
    parts: list[Any] = [__version__, source.framework, sorted(source.load_params.items())]
    parts.append(sorted((key, value) for key, value in source.options.items() if key in _INHERITED))
    if source.config_path:
        parts.append(Path(source.config_path).read_bytes())
    if b"location" in model:  # weights may lie beside an ONNX file
        beside = [file for file in path.parent.iterdir() if file.is_file()]
        parts.append(sorted((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in beside))
    digest = hashlib.sha256(model)
    digest.update(repr(parts).encode())
    return digest.hexdigest()


# ---- compiling ------------------------------------------------------------------------------------------------------------


def _names(source: ModelSource, config: ModelConfig, path: Path) -> list[str]:
    """The model's inputs in the order in which the program gives them, empty where that is the model's own."""
    told = source.load_params.get("input_data_names", "")
    names = [name.strip() for name in told.split(",") if name.strip()]
    if names:
        known = {each.name for each in inputs_of(source.framework, path)}
        unknown = [name for name in names if name not in known]
        if unknown or len(set(names)) != len(names) or len(names) != len(known):
            raise _refused(
                source, f"input_data_names is {told!r}, the inputs of the model are {', '.join(sorted(known))}"
            )
    return names


def _ordered(inputs: list[Input], names: list[str]) -> list[Input]:
    by_name = {each.name: each for each in inputs}
    return [by_name[name] for name in names] if names else inputs


def _compiled(source: ModelSource, config: ModelConfig, path: Path, target: Path | None = None) -> BodySpec:
    """Run the compiler; the result goes to `target`, into the spec, or to a folder that lasts as long as the program."""
    names = _names(source, config, path)
    inputs = _ordered(inputs_of(source.framework, path), names)
    if config.inputs and len(config.inputs) != len(inputs):
        raise _refused(
            source,
            f"inputs_tensor_desc of {source.config_path!r} describes {len(config.inputs)} inputs, "
            f"the model has {len(inputs)}: {', '.join(each.name for each in inputs)}",
        )
    folder = Path(tempfile.mkdtemp(prefix="softnpu-flow-"))
    keep = False
    try:
        types = {each.name: told.dtype for each, told in zip(inputs, config.inputs, strict=False)}
        model = retyped(source.framework, path, types, folder)
        om = target or folder / f"{re.sub('[^A-Za-z0-9_-]', '_', source.name or path.stem)}.om"
        options = _options(source, config, model, om, inputs)
        for warning in compiler.build(options).warnings:
            log.warning("model %s: %s", source.path, warning)
        keep = target is None and (om.stat().st_size > _EMBEDDED_BYTES or bool(options.external_weight))
        return _spec(source, om, keep=keep or target is not None, names=names)
    finally:
        if keep:
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _options(source: ModelSource, config: ModelConfig, model: Path, target: Path, inputs: list[Input]) -> Any:
    """The compiler's options, checked as those of a command line."""
    values: dict[str, str | int | bool] = {
        "model": str(model),
        "framework": _ATC_FRAMEWORKS[source.framework],
        "output": str(target),
        "soc_version": Settings().soc,
        "export_compile_stat": 0,
    }
    inherited = {key: source.options[key] for key in _INHERITED if source.options.get(key)}
    for key, value in {**inherited, **config.build_options}.items():
        if key in _BUILD_OPTIONS:
            name = _BUILD_OPTIONS[key]
            values[name] = int(value) if name == "external_weight" and value.isdigit() else value
        elif key not in _HANDLED:
            log.warning("the build option %s=%s of %s has no effect here", key, value, source.config_path)
    if (text := input_shape_text(config, inputs)) != "":
        values["input_shape"] = text
    if config.layout and not (config.layout == "NHWC" and source.framework == ONNX):  # ONNX itself has no such layout
        values["input_format"] = config.layout
    options = Options(values)
    for warning in check(options):
        log.warning("model %s: %s", source.path, warning)
    return options


def _spec(source: ModelSource, om: Path, keep: bool, names: Sequence[str] = ()) -> BodySpec:
    """The body of a finished model; counts are compared here, where the program still hears of it."""
    try:
        info = Om.open(om).info()
    except NpuError as problem:
        raise _translated(source, problem) from problem
    fed = [tensor.name for tensor in info.inputs if tensor.name != SHAPE_INPUT]
    if source.input_num is not None and source.input_num != len(fed):
        raise _refused(source, f"the node has {source.input_num} inputs, the model {len(fed)}: {', '.join(fed)}")
    if source.output_num is not None and source.output_num > len(info.outputs):
        raise _refused(source, f"the node has {source.output_num} outputs, the model only {len(info.outputs)}")
    order = [fed.index(name) for name in names] if names else list(range(len(fed)))
    data: dict[str, Any] = {
        "name": source.name or om.stem,
        "inputs": [order[index] for index in source.inputs] if source.inputs else order,
        "outputs": list(source.outputs) if source.outputs else list(range(source.output_num or len(info.outputs))),
    }
    if keep:
        data["path"] = str(om.resolve())
    else:
        data["om"] = om.read_bytes()
    return BodySpec(MODEL_LOADER, data)
