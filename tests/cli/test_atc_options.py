"""Options of atc: the parser, every check that needs no model, and the texts around them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from generators import atc

from softnpu.compiler import messages
from softnpu.compiler.errors import AtcError
from softnpu.compiler.options.checks import check
from softnpu.compiler.options.rows import ROWS, Options, UsageError, parse
from softnpu.spec._generated.atc_errors import ERRORS
from softnpu.spec._generated.chips import CHIPS


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files that command lines name."""
    monkeypatch.chdir(tmp_path)
    for name in ("m.onnx", "m.pb", "m.prototxt", "m.caffemodel", "x.om", "dump.txt", "x.cfg", "ops.json"):
        (tmp_path / name).write_text("")
    return tmp_path


# The values that the ATC guide prints for the two options.
PRECISION_MODES = {
    "precision_mode": [
        "force_fp16", "force_fp32", "cube_fp16in_fp32out", "allow_mix_precision", "allow_mix_precision_fp16",
        "allow_mix_precision_bf16", "allow_fp32_to_fp16", "allow_fp32_to_bf16", "must_keep_origin_dtype",
    ],
    "precision_mode_v2": [
        "fp16", "origin", "cube_fp16in_fp32out", "mixed_float16", "mixed_bfloat16", "cube_hif8", "mixed_hif8",
    ],
}  # fmt: skip
BASE = {"model": "m.onnx", "framework": "5", "output": "out", "soc_version": "Ascend310P3"}
CAFFE = {"model": "m.prototxt", "weight": "m.caffemodel", "framework": "0", "output": "out", "soc_version": "Ascend310"}
SINGLE = {"singleop": "ops.json", "output": "ops", "soc_version": "Ascend310P3"}


def line(base: dict[str, str], **changes: str | None) -> list[str]:
    """A command line: the base with changes, None leaves an option out."""
    merged = {**base, **changes}
    return [f"--{name}={value}" for name, value in merged.items() if value is not None]


def failure(words: list[str]) -> AtcError:
    with pytest.raises(AtcError) as caught:
        check(parse(words))
    return caught.value


def code(base: dict[str, str], **changes: str | None) -> str:
    return failure(line(base, **changes)).code


def passes(base: dict[str, str], **changes: str | None) -> list[str]:
    return check(parse(line(base, **changes)))


# ---- the parser ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--soc_version=Ascend310", "--framework=5"],
        ["--soc_version", "Ascend310", "--framework", "5"],
        ["-soc_version=Ascend310", "-framework", "5"],
        ["--soc-version=Ascend310", "-framework=5"],
        ["--framework=3", "--framework=5", "--soc_version=Ascend310"],
    ],
)
def test_options_may_be_written_in_several_forms(words: list[str]) -> None:
    options = parse(words)
    assert (options.soc_version, options.framework) == ("Ascend310", 5)
    assert options.given("framework") and not options.given("model")


def test_values_may_hold_anything() -> None:
    options = parse(["--input_shape=a:1,2;b=c:3", "--model", "-strange name.onnx"])
    assert options.input_shape == "a:1,2;b=c:3" and options.model == "-strange name.onnx"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--x=1"], "ERROR: unknown command line flag 'x'"),
        (["--modl=1"], "ERROR: unknown command line flag 'modl'\nDid you mean --model or --mode?"),
        (["--input-shpe=a:1"], "ERROR: unknown command line flag 'input_shpe'\nDid you mean --input_shape"),
        (["--model"], "ERROR: flag 'model' is missing its argument; flag description: Model to convert"),
        (["--model", "--framework=5"], "ERROR: flag 'model' is missing its argument; flag description: "),
        (["m.onnx"], "ERROR: Non-option parameter: m.onnx"),
        (["--"], "ERROR: Non-option parameter: --"),
        ([""], "ERROR: Non-option parameter: "),
    ],
)
def test_words_that_are_no_options_are_told(words: list[str], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(words)
    assert caught.value.text.startswith(text)


@pytest.mark.parametrize(("word", "expected"), [(w, True) for w in ("1", "t", "true", "y", "yes", "TRUE")] + [(w, False) for w in ("0", "f", "false", "n", "no")])  # fmt: skip
def test_booleans_have_several_spellings(word: str, expected: bool) -> None:
    assert parse([f"--enable_single_stream={word}"]).enable_single_stream is expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("--mode=-1", "E10003"),
        ("--mode=one", "E10003"),
        ("--framework=5.0", "E10003"),
        ("--framework=٥", "E10003"),
        ("--framework=99999999999999999999999", "E10003"),
        ("--sparsity=true", "E10003"),
        ("--enable_single_stream=maybe", "E10005"),
        ("--save_original_model=2", "E10005"),
        ("--allow_hf32=x", "E10005"),
        ("--oo_constant_folding=on", "E10005"),
    ],
)
def test_values_of_the_wrong_type_are_refused(word: str, expected: str) -> None:
    assert failure([word]).code == expected


def test_options_that_are_not_given_have_their_defaults() -> None:
    options = Options()
    assert (options.mode, options.framework, options.precision_mode, options.is_weight_clip) == (0, -1, "", 1)
    assert options.oo_constant_folding is True and options.enable_single_stream is False
    assert options.input_format == "NCHW" and Options({"framework": 3}).input_format == "NHWC"
    assert Options({"dynamic_dims": "1;2"}).input_format == "ND"
    with pytest.raises(AttributeError, match="nonsense"):
        options.nonsense
    with pytest.raises(TypeError, match="nonsense"):
        Options({"nonsense": 1})


def test_an_empty_value_is_no_value() -> None:
    options = parse(["--model=", "--framework=5"])
    assert not options.given("model") and options.model == ""


def test_the_command_line_is_kept() -> None:
    assert parse(["--input_shape=a:1;b:2", "--framework=5"]).command_line == "atc '--input_shape=a:1;b:2' --framework=5"


# ---- the order of checks ---------------------------------------------------------------------------------------------


def test_good_lines_pass(here: Path) -> None:
    assert passes(BASE) == []
    assert passes(CAFFE, insert_op_conf="x.cfg") == []
    assert passes(BASE, framework="3", model="m.pb", input_format="NHWC", input_shape="a:1,2") == []
    assert passes(BASE, out_nodes="Conv_1:0;Conv_2:0", output_type="FP16", input_format="NCHW", log="error") == []
    assert passes(SINGLE) == []


def test_the_first_failure_wins(here: Path) -> None:
    wrong: list[tuple[str, dict[str, str | None]]] = [
        ("E10007", {"framework": None}),
        ("E20101", {"soc_version": "Ascend999"}),
        ("E10001", {"input_format": "NHWC"}),
        ("E10054", {"output": None}),
        ("E10410", {"model": "missing.onnx"}),
        ("E10006", {"disable_reuse_memory": "2"}),
        ("E10001", {"optypelist_for_implmode": "Add"}),
        ("E10056", {"precision_mode": "force_fp16", "precision_mode_v2": "fp16"}),
        ("E10002", {"input_shape": "nonsense"}),
        ("E10004", {"dynamic_batch_size": "1,2"}),
        ("E10005", {"is_output_adjust_hw_layout": "1"}),
    ]
    for index, (expected, _) in enumerate(wrong):
        together: dict[str, str | None] = {}
        for _, changes in wrong[index:]:
            together.update(changes)
        assert code(BASE, **together) == expected, f"step {index}"


@pytest.mark.parametrize("value", [None, "2", "4", "7"])
def test_a_framework_must_be_named(here: Path, value: str | None) -> None:
    error = failure(line(BASE, framework=value))
    assert error.code == "E10007" and "5" in error.message


def test_framework_and_weight(here: Path) -> None:
    assert code(CAFFE, weight=None) == "E10008"
    assert code(CAFFE, weight="none.caffemodel") == "E10410"
    assert code(BASE, framework="1") == "E10055"
    assert "--weight" in passes(BASE, weight="m.caffemodel")[0]


@pytest.mark.parametrize(
    ("framework", "good", "bad"),
    [
        ("0", "NCHW ND", "NHWC NCDHW NDHWC"),
        ("5", "NCHW ND NCDHW", "NHWC NDHWC nchw"),
        ("3", "NCHW NHWC ND NCDHW NDHWC", "HWCN"),
    ],
)
def test_a_framework_takes_its_own_input_formats(here: Path, framework: str, good: str, bad: str) -> None:
    base = CAFFE if framework == "0" else BASE
    for layout in good.split():
        passes(base, framework=framework, input_format=layout)
    for layout in bad.split():
        assert code(base, framework=framework, input_format=layout) == "E10001"


def test_a_wrong_chip_is_told_with_near_names(here: Path) -> None:
    assert len(CHIPS) >= 26
    for name in (*CHIPS, "Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B3", "Ascend910_9391"):
        passes(BASE, soc_version=name)
    assert parse(line(BASE, soc_version="Ascend910")).soc == "Ascend910A"
    assert passes(BASE, soc_version="Ascend910") == []
    unknown = failure(line(BASE, soc_version="Ascend310p3"))
    assert unknown.code == "E20101" and "Did you mean Ascend310P3" in unknown.message
    assert "Ascend910A" in failure(line(BASE, soc_version="TPU")).message
    assert code(BASE, soc_version="Ascend035A") == "E10055"
    assert "Ascend910B1" in passes(BASE, soc_version="Ascend910B")[0]
    for name in ("Ascend910B3", "Ascend910_9391"):
        assert code(CAFFE, soc_version=name) == "E10055"


@pytest.mark.parametrize("name", ["soc_version", "output", "model"])
def test_options_that_are_required_are_asked_for(here: Path, name: str) -> None:
    for value in (None, ""):
        error = failure(line(BASE, **{name: value}))
        assert error.code == "E10054" and name in error.message and f"--{name}=" in error.solution


def test_paths_are_checked_before_anything_is_read(here: Path) -> None:
    assert "did you mean m.onnx?" in failure(line(BASE, model="n.onnx")).message
    assert "does not exist either" in failure(line(BASE, model="models/m.onnx")).message
    assert code(BASE, model=".") == "E10410"
    for path in ("folder/", "folder/..", "."):
        assert code(BASE, output=path) == "E10022"
    assert code(BASE, output="x" * 253) == "E10021"
    passes(BASE, output="x" * 252)
    assert code(BASE, output="folder/" * 700 + "x") == "E10021"
    assert code(BASE, output="m.onnx/out") == "E10001"
    passes(BASE, output="new/folders/out")
    assert code(BASE, insert_op_conf="none.cfg") == "E10410"


def test_implementation_modes_need_each_other(here: Path) -> None:
    assert code(BASE, op_select_implmode="fast") == "E10001"
    assert code(BASE, optypelist_for_implmode="Add") == "E10001"
    passes(BASE, op_select_implmode="high_precision", optypelist_for_implmode="Add")


def test_precision_modes_fit_the_chip_and_each_other(here: Path) -> None:
    assert code(BASE, precision_mode="fp16", precision_mode_v2="fp16") == "E10056"
    assert code(BASE, precision_mode="fp16") == "E10001"
    assert code(BASE, precision_mode_v2="force_fp16") == "E10001"
    assert code(BASE, precision_mode_v2="mixed_hif8") == "E10055"
    assert code(BASE, modify_mixlist="x.cfg") == "E10001"
    assert code(BASE, modify_mixlist="x.cfg", precision_mode="force_fp32") == "E10001"
    passes(BASE, modify_mixlist="x.cfg", precision_mode="allow_mix_precision")
    passes(BASE, modify_mixlist="x.cfg", precision_mode_v2="mixed_float16")
    assert code(BASE, compression_optimize_conf="x.cfg", precision_mode="force_fp32") == "E10001"
    for row, modes in PRECISION_MODES.items():
        assert list(ROWS[row].values) == modes
        for mode in modes:
            if "bf" in mode:  # only chips that compute in it
                assert code(BASE, soc_version="Ascend310P3", **{row: mode}) == "E10001"
                passes(BASE, soc_version="Ascend910B3", **{row: mode})
            elif "hif8" not in mode:
                passes(BASE, **{row: mode})


def test_shapes_are_checked_before_the_model(here: Path) -> None:
    assert code(BASE, input_shape="a:0") == "E10011"
    assert code(BASE, input_shape_range="a:1") == "E10048"
    assert passes(BASE, input_shape="a:1", input_shape_range="a:[1~2]")[0].startswith("--input_shape_range overrides")
    for name in ("Ascend310", "Ascend310B4"):
        assert code(BASE, soc_version=name, input_shape="a:1~2") == "E10055"
        passes(BASE, soc_version=name, input_shape="a:-1", dynamic_batch_size="1,2")


def test_gears_are_checked_before_the_model(here: Path) -> None:
    assert code(BASE, dynamic_batch_size="1,2", dynamic_dims="1;2", input_shape="a:-1") == "E10009"
    assert code(BASE, dynamic_dims="1;2", input_shape="a:-1", input_format="NCHW") == "E10001"
    passes(BASE, dynamic_dims="1;2", input_shape="a:-1")
    passes(BASE, dynamic_dims="1;2", input_shape="a:-1", input_format="ND")
    assert code(BASE, dynamic_dims="1;2", input_shape="a:-1", insert_op_conf="x.cfg") == "E10001"
    passes(BASE, dynamic_batch_size="1,2", input_shape="a:-1", insert_op_conf="x.cfg")


# ---- the rest --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["sparsity", "dump_mode", "virtual_type", "status_check", "deterministic", "display_model_info", "atomic_clean_policy", "disable_reuse_memory"],
)  # fmt: skip
def test_switches_take_0_and_1_only(here: Path, name: str) -> None:
    error = failure(line(BASE, **{name: "2"}))
    assert error.code == "E10006" and name in error.message


OUTSIDE = [
    ("log", "trace", "E10010"),
    ("mode", "2", "E10001"),
    ("external_weight", "3", "E10001"),
    ("topo_sorting_mode", "4", "E10001"),
    ("buffer_optimize", "none", "E10001"),
    ("oo_level", "O2", "E10001"),
    ("jit_compile", "3", "E10001"),
    ("op_debug_level", "5", "E10001"),
    ("export_compile_stat", "3", "E10001"),
    ("op_compiler_cache_mode", "on", "E10001"),
    ("shape_generalized_build_mode", "x", "E10001"),
    ("deterministic_level", "4", "E10001"),
    ("is_weight_clip", "2", "E10001"),
    ("enable_small_channel", "2", "E10001"),
    ("core_type", "Cube", "E10001"),
    ("static_model_ops_lower_limit", "-2", "E10001"),
    ("multi_stream_parallel_mode", "LoadBalance:65", "E10001"),
    ("optimization_switch", "PassA", "E10001"),
    ("optimization_switch", "PassA:yes", "E10001"),
    ("input_hint_shape", "a:[1]", "E10001"),
    ("auto_tune_mode", "RL", "E10001"),
    ("output_type", "FP99", "E10001"),
    ("aicore_num", "9", "E10001"),
    ("aicore_num", "8|99", "E10001"),
    ("aicore_num", "x", "E10001"),
    ("host_env_os", "windows", "E10001"),
]


@pytest.mark.parametrize(("name", "value", "expected"), OUTSIDE)
def test_values_outside_their_set(here: Path, name: str, value: str, expected: str) -> None:
    error = failure(line(BASE, **{name: value}))
    assert error.code == expected and value in error.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("static_model_ops_lower_limit", "-1"), ("multi_stream_parallel_mode", "MainStream:64"), ("multi_stream_parallel_mode", "cv"),
        ("optimization_switch", "PassA:on;PassB:off"), ("input_hint_shape", "0:[1,3];1:[]"), ("aicore_num", "8"), ("aicore_num", "8|7"),
        ("core_type", "VectorCore"), ("deterministic_level", "2"), ("external_weight", "2"),
    ],
)  # fmt: skip
def test_values_inside_their_set(here: Path, name: str, value: str) -> None:
    passes(BASE, **{name: value})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"host_env_os": "linux"}, "E10057"),
        ({"host_env_cpu": "aarch64"}, "E10057"),
        ({"enable_compress_weight": "true", "compress_weight_conf": "x.cfg"}, "E10047"),
        ({"multi_stream_parallel_mode": "cv", "enable_single_stream": "true"}, "E10056"),
        ({"deterministic": "0", "deterministic_level": "2"}, "E10001"),
        ({"output_type": "a:0:FP16"}, "E10001"),
        ({"is_input_adjust_hw_layout": "true"}, "E10001"),
        ({"sparsity": "1"}, "E10055"),
        ({"status_check": "1", "soc_version": "Ascend910B3"}, "E10055"),
        ({"core_type": "VectorCore", "soc_version": "Ascend910A"}, "E10001"),
    ],
)
def test_options_that_do_not_go_together(here: Path, changes: dict[str, str | None], expected: str) -> None:
    assert code(BASE, **changes) == expected


FILES = [
    ("fusion_switch_file", "E21001"), ("keep_dtype", "E10001"), ("customize_dtypes", "E10410"), ("op_precision_mode", "E10410"),
    ("compress_weight_conf", "E10410"), ("raw_ge_options", "E10032"), ("op_name_map", "E10410"), ("cluster_config", "E10410"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), FILES)
def test_files_must_be_there(here: Path, name: str, expected: str) -> None:
    error = failure(line(BASE, **{name: "missing.file"}))
    assert error.code == expected and "missing.file" in error.message
    if name != "raw_ge_options":
        passes(BASE, **{name: "x.cfg"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "E10032"),
        ("[]", "E10032"),
        ("{}", "E10032"),
        ("[" * 10000, "E10032"),
        ('{"compile options": {"global": {"ge.x": "1"}}}', "E10055"),
    ],
)
def test_faulty_raw_options_are_refused(here: Path, text: str, expected: str) -> None:
    Path("raw.json").write_text(text)
    assert code(BASE, raw_ge_options="raw.json") == expected


def test_raw_options_left_aside(here: Path) -> None:
    Path("raw.json").write_text('{"compile options": {"global": {"ge.x": "1"}}}')
    passes(BASE, raw_ge_options="raw.json", raw_ge_options_ignore_unsupported="true")
    Path("raw.json").write_text('{"compile options": {}}')
    passes(BASE, raw_ge_options="raw.json")


def test_options_with_a_catch_are_warned_of(here: Path) -> None:
    assert passes(BASE, buffer_optimize="off_optimize", jit_compile="0") == [
        "Without effect here: --buffer_optimize, --jit_compile. docs/support/atc_options.md says why."
    ]
    assert passes(BASE, buffer_optimize="l2_optimize", jit_compile="1") == []
    assert any("deprecated" in warning for warning in passes(BASE, input_shape_range="a:[1]"))
    assert any(
        "stronger" in warning
        for warning in passes(BASE, op_precision_mode="x.cfg", op_select_implmode="high_precision")
    )
    assert any("mode 0" in warning for warning in passes(BASE, om="x.om"))


# ---- other modes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mode": "1", "om": "x.om"}, "E10004"),
        ({"mode": "1", "json": "x.json"}, "E10004"),
        ({"mode": "1", "om": "x.om", "json": "x.json", "framework": "1"}, "E10001"),
        ({"mode": "1", "om": "none.om", "json": "x.json"}, "E10410"),
        ({"mode": "1", "om": "x.om", "json": "x.json", "sparsity": "3"}, "E10006"),
        ({"mode": "1", "om": "x.om", "json": "folder/"}, "E10022"),
        ({"mode": "5", "om": "x.om", "json": "x.json"}, "E10001"),
        ({"mode": "5", "json": "x.json"}, "E10004"),
        ({"mode": "6"}, "E10004"),
        ({"mode": "6", "om": "x.om", "framework": "5"}, "E10057"),
        ({"mode": "7"}, "E10055"),
        ({"mode": "30"}, "E10055"),
        ({"mode": "3", "framework": "5"}, "E10054"),
        ({"mode": "3"}, "E10007"),
        ({"mode": "3", "model": "m.prototxt", "framework": "0"}, "E10008"),
    ],
)
def test_modes_refuse_what_they_cannot_do(here: Path, changes: dict[str, str | None], expected: str) -> None:
    assert code({}, **changes) == expected


def test_modes_that_pass(here: Path) -> None:
    passes({}, mode="1", om="x.om", json="x.json")
    passes({}, mode="1", om="m.onnx", json="x.json", framework="5")
    passes({}, mode="5", om="dump.txt", json="x.json")
    passes({}, mode="6", om="x.om")
    passes({}, mode="3", model="m.onnx", framework="5")
    assert "ONNX" in passes({}, mode="1", om="x.om", json="x.json", dump_mode="1")[0]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model": "m.onnx"}, "E10001"),
        ({"framework": "5"}, "E10001"),
        ({"insert_op_conf": "x.cfg"}, "E10001"),
        ({"mode": "1"}, "E10001"),
        ({"display_model_info": "1"}, "E10001"),
        ({"singleop": "none.json"}, "E10024"),
        ({"output": None}, "E10054"),
        ({"soc_version": None}, "E10054"),
        ({"soc_version": "Ascend1"}, "E20101"),
        ({"precision_mode": "x"}, "E10001"),
        ({"output": "x.cfg/deeper"}, "E10001"),
    ],
)
def test_single_operators_exclude_options_of_models(here: Path, changes: dict[str, str | None], expected: str) -> None:
    assert code(SINGLE, **changes) == expected


def test_options_without_a_meaning_for_single_operators(here: Path) -> None:
    assert "--input_format" in passes(SINGLE, input_format="ND")[0]
    assert passes(SINGLE, mode="0", precision_mode="force_fp32", display_model_info="0") == []


# ---- rows ------------------------------------------------------------------------------------------------------------


def test_every_message_can_be_made() -> None:
    for name, (message, cause, solution) in ERRORS.items():
        fields: dict[str, Any] = dict.fromkeys(re.findall(r"{(\w+)}", message + cause + solution), "<value>")
        error = messages.error(name, **fields)
        assert error.code == name and "{" not in error.message + error.cause + error.solution
        assert str(error).startswith(f"{name}: ")


def test_messages_take_their_own_words() -> None:
    error = messages.error("E10001", parameter="p", value="{x}", reason="r" * 2000, cause="c", solution="s")
    assert error.message.startswith("Value [{x}] for parameter [p] is invalid. Reason: rrr")
    assert len(error.message) < 700 and (error.cause, error.solution) == ("c", "s")


def test_rows_are_complete() -> None:
    assert len(ROWS) == 89
    for row in ROWS.values():
        assert row.kind in ("s", "i", "b", "01", "choice") and row.help.endswith(".") and row.code in ERRORS
        assert row.status in ("used", "accepted") and (row.note or row.status == "used")
        assert not row.file or row.file in ERRORS
        assert (row.kind == "choice") <= bool(row.values)


def test_generated_files_are_up_to_date() -> None:
    outputs: dict[Path, str] = atc.tables() | atc.pages()
    assert len(outputs) == 3
    for path, text in outputs.items():
        assert path.read_text(encoding="utf-8") == text, f"{path} is out of date: run `make docs`"
