"""Options of atc, and the checks that need no model.

`check` goes through the steps in the order of the real tool, the first failure wins, and returns what the user should be
warned of. `rows.py` reads the words of the command line.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

from softnpu.compiler.interface import outputs
from softnpu.compiler.messages import error
from softnpu.compiler.options import shapes
from softnpu.compiler.options.rows import ALIASES, ROWS, Options
from softnpu.spec._generated.chips import CHIPS

CAFFE, MINDSPORE, TENSORFLOW, ONNX = 0, 1, 3, 5
_NAMES = {CAFFE: "Caffe", MINDSPORE: "MindSpore", TENSORFLOW: "TensorFlow", ONNX: "ONNX"}
_FORMATS = {CAFFE: ("NCHW", "ND"), ONNX: ("NCHW", "ND", "NCDHW"), TENSORFLOW: ("NCHW", "NHWC", "ND", "NCDHW", "NDHWC")}
_A2_A3 = ("910B", "A3")
_NO_RANGES = ("310", "310B")
_MIXED = frozenset(
    {"allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16", "mixed_float16", "mixed_bfloat16"}
)
_NAME_BYTES, _PATH_BYTES = 255, 4096
_JSON_BYTES = 1 << 20


# ---- checks -----------------------------------------------------------------------------------------------------------


def check(options: Options) -> list[str]:
    """Raise the first thing that is wrong; returns warnings for the screen."""
    _fixed(options, "log")
    _fixed(options, "mode")
    warnings: list[str] = []
    if options.given("singleop"):
        _check_single_op(options, warnings)
    else:
        _MODES[options.mode](options, warnings)
    for name in ROWS:
        _fixed(options, name)
    _check_rest(options, warnings)
    _warn(options, warnings)
    return warnings


def _fixed(options: Options, name: str) -> None:
    """A value outside the fixed set of its option."""
    row = ROWS[name]
    if not options.given(name):
        return
    if row.removed:
        raise error("E10001", parameter=name, value=getattr(options, name), reason=row.removed)
    value = getattr(options, name)
    allowed = ("0", "1") if row.kind == "01" else row.values
    if allowed and str(value) not in allowed:
        words = ", ".join(allowed)
        raise error(row.code, parameter=name, value=value, support=words, reason=f"it must be one of: {words}")
    if row.kind == "i" and value < row.min:
        raise error("E10001", parameter=name, value=value, reason=f"it must be {row.min} or more")


def _check_convert(options: Options, warnings: list[str]) -> None:
    _check_framework(options, warnings)
    _check_soc(options)
    _check_format(options)
    for name in ("soc_version", "output", "model") if options.mode == 0 else ("model",):
        _need(options, name)
    _check_file(options, "model")
    if options.framework == CAFFE:
        _check_file(options, "weight")
    _check_file(options, "insert_op_conf")
    if options.mode == 0:
        _check_output(options.output)
    _fixed(options, "disable_reuse_memory")
    _check_implementation(options)
    _check_precision(options)
    _check_shapes(options, warnings)
    if options.insert_op_conf and options.dynamic_dims:
        reason = "AIPP and dynamic_dims do not go together; use dynamic_batch_size or dynamic_image_size"
        raise error("E10001", parameter="insert_op_conf", value=options.insert_op_conf, reason=reason)


def _need(options: Options, name: str) -> None:
    if not options.given(name):
        raise error("E10054", parameter=name)


def _check_framework(options: Options, warnings: list[str]) -> None:
    if not options.given("framework"):
        raise error(
            "E10007", parameter="framework", value="", support="0 (Caffe), 1 (MindSpore), 3 (TensorFlow), 5 (ONNX)"
        )
    _fixed(options, "framework")
    if options.framework == MINDSPORE:
        raise error(
            "E10055", reason="MindSpore models (.air) cannot be read here; export the model as ONNX and use framework 5"
        )
    if options.framework == CAFFE and not options.weight:
        raise error("E10008")
    if options.framework != CAFFE:
        for name in ("weight", "op_name_map"):
            if options.given(name):
                warnings.append(f"--{name} is for Caffe models; it has no effect with framework {options.framework}.")


def _check_soc(options: Options) -> None:
    name = options.soc_version
    if not name:
        return
    if name.startswith("Ascend035"):
        raise error("E10055", reason=f"the chip {name} needs mode 30, which this version does not have")
    if not options.chip:
        known = [*CHIPS, *ALIASES]
        lower = {chip.lower(): chip for chip in known}
        close = [lower[spelling] for spelling in difflib.get_close_matches(name.lower(), lower, 5, 0.6)]
        reason = f"Did you mean {' or '.join(close)}?" if close else f"Known are: {', '.join(sorted(known))}."
        raise error("E20101", value=name, reason=reason)
    if options.framework == CAFFE and options.chip["family"] in _A2_A3:
        raise error("E10055", reason=f"Caffe models cannot be converted for {name}; convert the model to ONNX first")


def _check_format(options: Options) -> None:
    allowed = _FORMATS[options.framework]
    if options.input_format not in allowed:
        reason = f"{_NAMES[options.framework]} models take one of: {', '.join(allowed)}"
        raise error("E10001", parameter="input_format", value=options.input_format, reason=reason)


def _check_file(options: Options, name: str) -> None:
    """The file that an option names must be there."""
    path = getattr(options, name)
    if not path:
        return
    reason = ""
    if not os.path.exists(path):
        reason = "there is no such file" + _siblings(path)
    elif not os.path.isfile(path):
        reason = "it is no file"
    elif not os.access(path, os.R_OK):
        reason = "it may not be read"
    if reason:
        raise error(ROWS[name].file, parameter=name, value=path, reason=reason)


def _siblings(path: str) -> str:
    folder, name = os.path.split(path)
    try:
        close = difflib.get_close_matches(name, os.listdir(folder or "."), 1, 0.6)
    except OSError:
        return f"; the folder {folder or '.'} does not exist either"
    return f"; did you mean {os.path.join(folder, close[0])}?" if close else ""


def _check_output(path: str, name: str = "output", suffix: str = ".om") -> None:
    """The path of a result: a file name, not too long, in a place that can be written."""
    base = os.path.basename(path)
    if base in ("", ".", ".."):
        raise error("E10022", parameter=name, value=path)
    for size, limit in ((len(os.fsencode(base + suffix)), _NAME_BYTES), (len(os.fsencode(path + suffix)), _PATH_BYTES)):
        if size > limit:
            raise error("E10021", parameter=name, size=size, limit=limit)
    try:
        os.path.abspath(path).encode("utf-8")
    except UnicodeEncodeError:
        shown = path.encode("utf-8", "replace").decode()
        raise error("E10001", parameter=name, value=shown, reason="the path is not UTF-8; choose another") from None
    _check_folder(os.path.dirname(os.path.abspath(path)), path, name)


def _check_folder(folder: str, path: str, name: str) -> None:
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        what = "cannot be written" if os.path.isdir(folder) else "is no folder"
        raise error("E10001", parameter=name, value=path, reason=f"{folder} {what}")


def _check_implementation(options: Options) -> None:
    _fixed(options, "op_select_implmode")
    if options.optypelist_for_implmode and not options.given("op_select_implmode"):
        value = options.optypelist_for_implmode
        raise error("E10001", parameter="optypelist_for_implmode", value=value, reason="it needs op_select_implmode")


def _check_precision(options: Options) -> None:
    if options.given("precision_mode") and options.given("precision_mode_v2"):
        raise error("E10056", first="precision_mode", second="precision_mode_v2")
    _fixed(options, "precision_mode")
    _fixed(options, "precision_mode_v2")
    if options.precision_mode_v2.endswith("hif8"):
        raise error("E10055", reason=f"no chip of this version computes in {options.precision_mode_v2}")
    chosen = options.precision_mode_v2 if options.given("precision_mode_v2") else options.precision_mode
    if ("bf16" in chosen or "bfloat16" in chosen) and options.chip and not options.chip.get("bf16", True):
        name = "precision_mode_v2" if options.given("precision_mode_v2") else "precision_mode"
        reason = f"{options.soc_version} does not compute in bfloat16; use a float16 mode"
        raise error("E10001", parameter=name, value=chosen, reason=reason)
    if options.modify_mixlist and chosen not in _MIXED:
        reason = f"it needs a mixed precision mode, not {chosen}"
        raise error("E10001", parameter="modify_mixlist", value=options.modify_mixlist, reason=reason)
    if options.compression_optimize_conf and chosen in ("force_fp32", "must_keep_origin_dtype", "origin"):
        reason = f"quantisation does not go together with the precision mode {chosen}"
        raise error(
            "E10001", parameter="compression_optimize_conf", value=options.compression_optimize_conf, reason=reason
        )


def _check_shapes(options: Options, warnings: list[str]) -> None:
    wanted = shapes.parse(options)
    if wanted.dynamic and options.chip.get("family") in _NO_RANGES:
        reason = f"{options.soc_version} has no shape ranges; use gears such as dynamic_batch_size, or fixed shapes"
        raise error("E10055", reason=reason)
    if options.dynamic_dims and options.input_format != "ND":
        raise error("E10001", parameter="input_format", value=options.input_format, reason="dynamic_dims needs ND")
    if options.input_shape_range and options.input_shape:
        warnings.append("--input_shape_range overrides --input_shape.")


def _check_single_op(options: Options, warnings: list[str]) -> None:
    excluded = [name for name in ("model", "framework", "insert_op_conf") if options.given(name)]
    excluded += [name for name in ("mode", "display_model_info") if getattr(options, name) != 0]
    if excluded:
        value = getattr(options, excluded[0])
        raise error("E10001", parameter=excluded[0], value=value, reason="it does not go together with singleop")
    _check_soc(options)
    _need(options, "soc_version")
    _need(options, "output")
    _check_file(options, "singleop")
    _check_folder(os.path.abspath(options.output), options.output, "output")
    _check_implementation(options)
    _check_precision(options)
    idle = [
        f"--{name}" for name, row in ROWS.items() if options.given(name) and not row.singleop and name != "singleop"
    ]
    idle = [option for option in idle if option not in ("--mode", "--display_model_info")]
    if idle:
        warnings.append(f"Without effect together with --singleop: {', '.join(idle)}.")


def _check_to_json(options: Options, warnings: list[str]) -> None:
    for name in ("om", "json"):
        if not options.given(name):
            raise error("E10004", parameter=name, reason=f"mode {options.mode} needs it")
    if options.mode == 1 and options.given("framework") and options.framework not in (CAFFE, TENSORFLOW, ONNX):
        reason = "mode 1 takes 0 (Caffe), 3 (TensorFlow), 5 (ONNX), or no framework for an .om"
        raise error("E10001", parameter="framework", value=options.framework, reason=reason)
    if options.mode == 5 and not options.om.endswith(".txt"):
        reason = "mode 5 takes a dumped graph, ge_proto_*.txt"
        raise error("E10001", parameter="om", value=options.om, reason=reason)
    _check_file(options, "om")
    _check_output(options.json, "json", "")
    if options.dump_mode == 1 and options.framework != ONNX:
        warnings.append("--dump_mode=1 adds shapes to ONNX models only.")


def _check_information(options: Options, warnings: list[str]) -> None:
    if not options.given("om"):
        raise error("E10004", parameter="om", reason="mode 6 needs it")
    if options.given("framework"):
        raise error("E10057", first="om", second="mode", reason="mode 6 shows an .om; leave --framework out")
    _check_file(options, "om")


def _refuse(options: Options, warnings: list[str]) -> None:
    words = {7: "OM2 containers", 30: "models for small chips"}
    raise error(
        "E10055", reason=f"{words[options.mode]} (mode {options.mode}) are not part of this version; use mode 0"
    )


_MODES: dict[int, Callable[[Options, list[str]], None]] = {
    0: _check_convert,
    1: _check_to_json,
    3: _check_convert,
    5: _check_to_json,
    6: _check_information,
    7: _refuse,
    30: _refuse,
}


# ---- the rest --------------------------------------------------------------------------------------------------------


def _check_rest(options: Options, warnings: list[str]) -> None:
    for name, row in ROWS.items():
        if row.file and options.given(name) and name not in ("om", "model", "weight", "singleop"):
            _check_file(options, name)
        if row.not_on and getattr(options, name) == 1 and options.chip.get("family") in row.not_on:
            raise error("E10055", reason=f"--{name}=1 is not possible on {options.soc_version}")
    outputs.check(options)
    _check_cores(options)
    _check_pairs(options)
    _check_texts(options)
    _check_raw_options(options)


def _check_cores(options: Options) -> None:
    family = options.chip.get("family", "310P")
    if options.core_type == "VectorCore" and family != "310P":
        reason = f"{options.soc_version} has no vector cores of their own"
        raise error("E10001", parameter="core_type", value="VectorCore", reason=reason)
    if not options.aicore_num:
        return
    limits = (options.chip.get("ai_cores", 1 << 30), options.chip.get("vector_cores", 1 << 30))
    counts = options.aicore_num.split("|")
    good = len(counts) <= 2 and all(re.fullmatch("[0-9]{1,9}", count, re.ASCII) for count in counts)
    if not good or not all(1 <= int(count) <= limit for count, limit in zip(counts, limits, strict=False)):
        reason = f"{options.soc_version} has {limits[0]} cube and {limits[1]} vector cores; write n or n|m"
        raise error("E10001", parameter="aicore_num", value=options.aicore_num, reason=reason)


def _check_pairs(options: Options) -> None:
    """Options that need or exclude each other."""
    if options.given("host_env_os") != options.given("host_env_cpu"):
        raise error("E10057", first="host_env_os", second="host_env_cpu", reason="both must be given, or none")
    if options.enable_compress_weight and options.compress_weight_conf:
        raise error("E10047", first="enable_compress_weight", second="compress_weight_conf")
    if options.multi_stream_parallel_mode and options.enable_single_stream:
        raise error("E10056", first="multi_stream_parallel_mode", second="enable_single_stream")
    if options.given("deterministic") and options.deterministic == 0 and options.deterministic_level > 0:
        reason = "deterministic is 0, which contradicts it"
        raise error("E10001", parameter="deterministic_level", value=options.deterministic_level, reason=reason)


_TEXTS = {
    "optimization_switch": (r"[^:;]+:(on|off)(;[^:;]+:(on|off))*;?", "it must look like PassA:on;PassB:off"),
    "multi_stream_parallel_mode": (
        r"cv|(LoadBalance|MainStream):([1-9]|[1-5][0-9]|6[0-4])",
        "it must be cv, LoadBalance:N or MainStream:N with N from 1 to 64",
    ),
    "input_hint_shape": (
        r"[0-9]+:\[[0-9]*(,[0-9]+)*\](;[0-9]+:\[[0-9]*(,[0-9]+)*\])*;?",
        "it must look like 0:[1,3,224,224];1:[1,10]",
    ),
}


def _check_texts(options: Options) -> None:
    for name, (pattern, reason) in _TEXTS.items():
        value = getattr(options, name)
        if value and not re.fullmatch(pattern, value, re.ASCII):
            raise error("E10001", parameter=name, value=value, reason=reason)


def _check_raw_options(options: Options) -> None:
    path = options.raw_ge_options
    if not path:
        return
    try:
        if os.path.getsize(path) > _JSON_BYTES:
            raise ValueError(f"it has more than {_JSON_BYTES} bytes")
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        groups = content["compile options"]
        keys = [key for level in ("global", "session", "graph") for key in groups.get(level, {})]
    except (OSError, ValueError, RecursionError) as problem:
        raise error("E10032", parameter="raw_ge_options", value=path, reason=problem) from None
    except (TypeError, KeyError, AttributeError):
        reason = 'it must look like {"compile options": {"global": {}, "session": {}, "graph": {}}}'
        raise error("E10032", parameter="raw_ge_options", value=path, reason=reason) from None
    if keys and not options.raw_ge_options_ignore_unsupported:
        hint = "give --raw_ge_options_ignore_unsupported=true to leave them aside"
        raise error(
            "E10055", reason=f"raw_ge_options holds {', '.join(map(str, keys))}, which this version lacks; {hint}"
        )


def _warn(options: Options, warnings: list[str]) -> None:
    if options.given("op_precision_mode") and options.given("op_select_implmode"):
        warnings.append("--op_precision_mode is stronger than --op_select_implmode.")
    if options.soc_version == "Ascend910B":
        warnings.append("Ascend910B is an old chip of the 910 series; the A2 chips are Ascend910B1 to Ascend910B4.")
    if options.mode in (0, 3) and (options.given("om") or options.given("json")):
        warnings.append(f"--om and --json have no effect in mode {options.mode}.")
    for name, row in ROWS.items():
        if row.deprecated and options.given(name):
            warnings.append(f"--{name} is deprecated; use --{row.deprecated}.")
    idle = [
        f"--{n}" for n, row in ROWS.items() if row.status == "accepted" and options.given(n) and _differs(options, n)
    ]
    if idle:
        warnings.append(f"Without effect here: {', '.join(idle)}. docs/support/atc_options.md says why.")


def _differs(options: Options, name: str) -> bool:
    """Whether the value is another than the default."""
    row = ROWS[name]
    return not row.default or getattr(options, name) != row.convert(row.default)
