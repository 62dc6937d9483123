"""softnpu run and info: results against onnxruntime and numpy, files, gears, ranges, comparison, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import softnpu
from softnpu.cli import atc
from softnpu.cli.run.compare import difference
from softnpu.cli.run.inputs import Wanted, find_sets, make, read
from softnpu.cli.run.options import Refusal, counts, named_dims, numbers
from softnpu.cli.run.report import summary
from softnpu.cli.softnpu import main

pytestmark = pytest.mark.usefixtures("fresh")
WEIGHT = np.random.default_rng(3).standard_normal((4, 3, 3, 3)).astype(np.float32)
Build = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Build:
    """Make a small ONNX model (a convolution, and a sum over the channels) and convert it; returns the .om."""
    monkeypatch.chdir(tmp_path)

    def run(*options: str, shape: tuple[Any, ...] = (2, 3, 8, 8), name: str = "net") -> Path:
        path = write_onnx(tmp_path / f"{name}.onnx", shape)
        words = [f"--model={path}", "--framework=5", f"--output={tmp_path / name}", "--soc_version=Ascend310P3"]
        assert atc.main([*words, *options]) == 0, capsys.readouterr().out
        capsys.readouterr()
        return tmp_path / f"{name}.om"

    return run


def write_onnx(path: Path, shape: tuple[Any, ...], weight: np.ndarray[Any, Any] = WEIGHT) -> Path:
    nodes = [
        helper.make_node("Conv", ["data", "w"], ["features"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("ReduceSum", ["features", "axes"], ["total"], "sum", keepdims=0),
    ]
    weights = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array([1], np.int64), "axes")]
    batch, _, *rest = shape
    outputs = [("features", [batch, 4, *rest]), ("total", [batch, *rest])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in outputs]
    data = helper.make_tensor_value_info("data", TensorProto.FLOAT, list(shape))
    graph = helper.make_graph(nodes, "net", [data], infos, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def convolve(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The convolution by its formula, in double precision."""
    padded = np.pad(data.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, WEIGHT.astype(np.float64))


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


# ---- running ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["npy", "bin"])
def test_files_in_and_out(build: Build, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    om = build()
    data = random(2, 3, 8, 8)
    np.save(tmp_path / "x.npy", data)
    data.tofile(tmp_path / "x.bin")
    words = ["run", str(om), "--input", str(tmp_path / f"x.{ending}"), "--output", "out", "--outfmt", ending]
    assert main(words) == 0
    paths = [tmp_path / "out" / f"net_output_{index}.{ending}" for index in (0, 1)]
    written = [np.load(path) if ending == "npy" else np.fromfile(path, np.float32) for path in paths]
    wanted = convolve(data)
    np.testing.assert_allclose(written[0].reshape(2, 4, 8, 8), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(written[1].reshape(2, 8, 8), wanted.sum(1), rtol=1e-4, atol=1e-4)
    text = capsys.readouterr().out
    assert "float32" in text and "NCHW" in text and "Inference" in text and "batch 2" in text
    assert "\x1b" not in text and "┃" not in text


def test_results_may_be_written_as_text(build: Build, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", random(2, 3, 8, 8))
    assert main(["run", str(build()), "--input", "x.npy", "--output", "out", "--outfmt", "txt"]) == 0
    written = np.loadtxt(tmp_path / "out" / "net_output_1.txt")
    np.testing.assert_allclose(written.reshape(2, 8, 8), convolve(random(2, 3, 8, 8)).sum(1), rtol=1e-4, atol=1e-4)


def test_folder_of_inputs(build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    om = build()
    (tmp_path / "many").mkdir()
    for number in range(3):
        np.save(tmp_path / "many" / f"picture{number}.npy", random(2, 3, 8, 8) * number)
    assert main(["run", str(om), "--input", "many", "--output", "out", "--loop", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["runs"] == 6 and len(report["written"]) == 6
    for number in range(3):
        written = np.load(tmp_path / "out" / f"picture{number}_output_0.npy")
        np.testing.assert_allclose(written, convolve(random(2, 3, 8, 8) * number), rtol=1e-4, atol=1e-4)


def test_a_report_as_json(build: Build, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(build()), "--loop", "5", "--warmup", "0", "--batchsize", "7", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["inputs"] == [
        {"name": "data", "dtype": "float32", "format": "NCHW", "dims": [2, 3, 8, 8], "bytes": 1536}
    ]
    assert [output["bytes"] for output in report["outputs"]] == [2048, 512]
    assert report["engine"] and report["runs"] == 5 and report["batch"] == 7
    times = report["ms"]["Inference"]
    assert list(times) == ["mean", "min", "p50", "p90", "p95", "p99", "max"]
    assert 0 < times["min"] <= times["p50"] <= times["p99"] <= times["max"]
    assert report["throughput"] == pytest.approx(7000 / times["mean"])


def test_random_inputs_have_a_seed(build: Build, tmp_path: Path) -> None:
    om = str(build())
    for folder, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert main(["run", om, "--output", folder, "--seed", seed]) == 0
    a, b, c = (np.load(tmp_path / folder / "net_output_0.npy") for folder in "abc")
    assert np.array_equal(a, b) and not np.array_equal(a, c)


def test_nothing_leaks(build: Build) -> None:
    om = build("--input_shape=data:1~4,3,8~16,8", shape=("n", 3, "h", 8))
    words = [sys.executable, "-m", "softnpu.cli.softnpu", "run", str(om), "--dymShape", "data:3,3,9,8", "--loop", "2"]
    env = {**os.environ, "SOFTNPU_CHECK": "leaks"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=env)
    assert (done.returncode, done.stderr) == (0, "")


# ---- gears and ranges ------------------------------------------------------------------------------------------------

GEARS = [
    (("--input_shape=data:-1,3,8,8", "--dynamic_batch_size=1,4"), ["--dymBatch", "4"], (4, 3, 8, 8)),
    (("--input_shape=data:-1,3,8,8", "--dynamic_batch_size=1,4"), [], (4, 3, 8, 8)),  # the largest
    (("--input_shape=data:1,3,-1,-1", "--dynamic_image_size=8,8;8,16"), ["--dymHW", "8,8"], (1, 3, 8, 8)),
    (
        ("--input_shape=data:-1,3,-1,8", "--dynamic_dims=1,8;2,4", "--input_format=ND"),
        ["--dymDims", "data:2,3,4,8"],
        (2, 3, 4, 8),
    ),
    (("--input_shape=data:1~4,3,8~16,8",), ["--dymShape", "data:3,3,9,8"], (3, 3, 9, 8)),
    (("--input_shape=data:1~4,3,8~16,8",), [], (2, 3, 11, 8)),  # the .npy tells
]


@pytest.mark.parametrize(("options", "words", "shape"), GEARS)
def test_dynamic_models_run_with_the_chosen_shape(
    build: Build, tmp_path: Path, options: tuple[str, ...], words: list[str], shape: tuple[int, ...]
) -> None:
    om = build(*options, shape=("n", 3, "h", "w"))
    np.save(tmp_path / "x.npy", random(*shape))
    original = ["--compare", "net.onnx"]
    assert main(["run", str(om), "--input", "x.npy", "--output", "out", *words, *original]) == 0
    config = np.load(tmp_path / "out" / "net_output_0.npy")
    assert config.shape == (shape[0], 4, *shape[2:])
    np.testing.assert_allclose(config, convolve(random(*shape)), rtol=1e-4, atol=1e-5)


def test_sets_of_different_shape(build: Build, tmp_path: Path) -> None:
    om = build("--input_shape=data:1~4,3,8~16,8", shape=("n", 3, "h", 8))
    (tmp_path / "many").mkdir()
    shapes = [(1, 3, 8, 8), (4, 3, 16, 8), (2, 3, 9, 8)]
    for number, shape in enumerate(shapes):
        np.save(tmp_path / "many" / f"{number}.npy", random(*shape))
    assert main(["run", str(om), "--input", "many", "--output", "out", "--compare", "net.onnx"]) == 0
    for number, shape in enumerate(shapes):
        assert np.load(tmp_path / "out" / f"{number}_output_1.npy").shape == (shape[0], *shape[2:])


def test_output_sizes_must_hold_the_results(build: Build, capsys: pytest.CaptureFixture[str]) -> None:
    om = str(build("--input_shape=data:1~4,3,8~16,8", shape=("n", 3, "h", 8)))
    words = ["run", om, "--dymShape", "data:1,3,8,8", "--outputSize"]
    assert main([*words, "4096,4096"]) == 0
    assert main([*words, "100,4096"]) == 2
    assert "1024" in capsys.readouterr().err  # what output 0 needs
    assert main([*words, "4096"]) == 2


def test_a_model_with_aipp_takes_a_picture(build: Build, tmp_path: Path) -> None:
    (tmp_path / "aipp.cfg").write_text(
        "aipp_op { aipp_mode: static input_format: YUV420SP_U8 csc_switch: false src_image_size_w: 8 src_image_size_h: 8 }"
    )
    om = build("--insert_op_conf=aipp.cfg", shape=(1, 3, 8, 8))
    picture = np.random.default_rng(1).integers(0, 256, (12, 8), np.uint8)
    picture.tofile(tmp_path / "x.bin")
    assert main(["run", str(om), "--input", "x.bin", "--output", "out"]) == 0
    chroma = picture[8:].reshape(4, 4, 2).repeat(2, 0).repeat(2, 1)
    planes = np.concatenate([picture[:8, :, None], chroma], axis=-1).transpose(2, 0, 1)[None]
    written = np.load(tmp_path / "out" / "net_output_0.npy")
    np.testing.assert_allclose(written, convolve(planes), rtol=1e-3, atol=0.05)


# ---- comparison ------------------------------------------------------------------------------------------------------


def test_compare_finds_a_difference(build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    om = build()
    write_onnx(tmp_path / "other.onnx", (2, 3, 8, 8), WEIGHT * np.float32(1.001))
    assert main(["run", str(om), "--compare", "net.onnx"]) == 0
    assert "equal" in capsys.readouterr().out
    assert main(["run", str(om), "--compare", "other.onnx"]) == 1
    assert "DIFFERENT" in capsys.readouterr().out
    assert main(["run", str(om), "--compare", "other.onnx", "--tolerance", "0.01", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["equal"] and [one["name"] for one in report["differences"]] == ["features", "total"]


def test_a_difference_is_measured_as_numpy_would() -> None:
    measured = difference("y", np.array([1.0, 2.0, 4.0], np.float32), np.array([1.0, 2.0, 5.0], np.float32))
    assert (measured.absolute, measured.relative, measured.equal) == (1.0, 0.2, False)
    assert measured.cosine == pytest.approx(25 / np.sqrt(21 * 30))
    nan = np.array([np.nan, 1.0])
    assert difference("y", nan, nan).equal
    assert not difference("y", nan, np.array([0.0, 1.0])).equal
    assert not difference("y", np.zeros((1, 2)), np.zeros((2, 1))).equal
    assert difference("y", np.zeros(0), np.zeros(0)).equal
    assert difference("y", np.float16([1.0]), np.float32([1.005])).equal  # half precision has a tolerance of its own
    assert difference("y", np.zeros(3), np.zeros(3)).cosine == 1.0


def test_compare_refuses_other_inputs(build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    om = build()
    write_onnx(tmp_path / "wide.onnx", (2, 3, 9, 9))
    assert main(["run", str(om), "--compare", "wide.onnx"]) == 2
    assert "[2, 3, 9, 9]" in capsys.readouterr().err
    (tmp_path / "no.onnx").write_bytes(b"no model")
    assert main(["run", str(om), "--compare", "no.onnx"]) == 2


# ---- what is refused -------------------------------------------------------------------------------------------------

REFUSED = [
    (["--dymBatch", "2"], "--dymBatch"),
    (["--dymHW", "8,8"], "--dymHW"),
    (["--dymShape", "data:1,3,8,8"], "fixed shape"),
    (["--dymShape", "dato:1,3,8,8"], "dato"),
    (["--dymHW", "8,x"], "8,x"),
    (["--dymBatch", "1", "--dymHW", "8,8"], "exclude"),
    (["--input", "missing.npy"], "missing.npy"),
    (["--input", "x.jpg"], ".jpg"),
    (["--input", "double.npy"], "float64"),
    (["--input", "shape.npy"], "[2, 8, 8, 3]"),
    (["--input", "short.bin"], "1536"),
    (["--input", "double.npy,double.npy"], "2 sources"),
    (["--input", "empty"], "no .npy or .bin"),
    (["--input", "broken.npy"], "broken.npy"),
    (["--device", "77"], "77"),
    (["--loop", "0"], "'0'"),
    (["--loop", "many"], "many"),
    (["--outfmt", "jpg"], "jpg"),
    (["--output", "short.bin/x"], "short.bin"),
    (["--compare", "none.onnx"], "none.onnx"),
    (["--tolerance", "-1"], "-1"),
    (["--nonsense"], "--nonsense"),
]


@pytest.mark.parametrize(
    ("words", "part"), REFUSED, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_wrong_commands_are_refused_in_a_sentence(
    build: Build, tmp_path: Path, words: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    om = build()
    np.save(tmp_path / "double.npy", np.zeros((2, 3, 8, 8)))
    np.save(tmp_path / "shape.npy", np.zeros((2, 8, 8, 3), np.float32))
    for name in ("short.bin", "broken.npy", "x.jpg"):
        (tmp_path / name).write_bytes(b"12345678")
    (tmp_path / "empty").mkdir()
    assert main(["run", str(om), *words]) == 2
    printed = capsys.readouterr()
    assert (
        part in printed.err
        and printed.err.startswith("softnpu: ")
        and "Traceback" not in printed.err
        and not printed.out
    )


@pytest.mark.parametrize("command", ["run", "info"])
@pytest.mark.parametrize("content", [None, b"", b"IMOD", b"x" * 4000])
def test_a_file_that_is_no_model_is_refused(
    tmp_path: Path, command: str, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.om"
    if content is not None:
        path.write_bytes(content)
    assert main([command, str(path)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_models_that_were_cut_are_refused(build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = build().read_bytes()
    for length in range(0, len(data), max(1, len(data) // 40)):
        (tmp_path / "cut.om").write_bytes(data[:length])
        assert main(["run", str(tmp_path / "cut.om")]) == 2
    assert "Traceback" not in capsys.readouterr().err


# ---- info, version, help ---------------------------------------------------------------------------------------------


def test_info_tells_what_is_in_a_model(build: Build, capsys: pytest.CaptureFixture[str]) -> None:
    om = str(build("--input_shape=data:-1,3,8,8", "--dynamic_batch_size=1,4", shape=("n", 3, 8, 8)))
    assert main(["info", om]) == 0
    text = capsys.readouterr().out
    for part in ("Ascend310P3", "ONNX", "Conv2D", "--dynamic_batch_size=1,4", "batch sizes", "1; 4", "data"):
        assert part in text
    assert main(["info", om, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["operators"]["Conv2D"] == 1 and report["gears"] == [[1], [4]] and report["gear_kind"] == "batch"
    assert "softnpu" not in report["attributes"]


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"softnpu {softnpu.__version__}\n"
    assert main(["run", "--help"]) == 0
    assert "--dymShape" in capsys.readouterr().out
    assert main([]) == 2
    assert main(["walk"]) == 2


def test_as_a_command(build: Build, tmp_path: Path) -> None:
    om = build()
    words = [sys.executable, "-m", "softnpu.cli.softnpu", "run", str(om)]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert done.returncode == 0 and "throughput" in done.stdout and not done.stderr


# ---- the small parts -------------------------------------------------------------------------------------------------


def test_values_of_options_have_their_grammar() -> None:
    assert numbers("224, 224") == [224, 224]
    assert counts("0,10") == [0, 10]
    assert named_dims("a:0:1,3;b:4") == {"a:0": [1, 3], "b": [4]}
    for text in ("", "a", "a:", ":1", "a:1,-1", "a:1;a:2"):
        with pytest.raises(ValueError):
            named_dims(text)


def test_summary_is_numpys() -> None:
    values = list(np.random.default_rng(0).random(37))
    figures = summary(values)
    assert figures["mean"] == pytest.approx(np.mean(values))
    for name, share in (("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99)):
        assert figures[name] == pytest.approx(np.percentile(values, share))


@pytest.mark.parametrize(("dtype", "kind"), [(0, "f"), (1, "f"), (2, "i"), (4, "u"), (9, "i"), (12, "b"), (27, "u")])
def test_random_inputs_fit_their_type(dtype: int, kind: str) -> None:
    array = make(Wanted("x", dtype, (5, 40)), np.random.default_rng(0))
    assert array.shape == (5, 40) and array.dtype.kind == kind
    if kind == "f":
        assert array.min() >= 0 and array.max() <= 1
    if dtype == 9:
        assert set(np.unique(array)) <= {0, 1}


def test_open_shape_needs_words(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="open shape"):
        make(Wanted("x", 0, None), np.random.default_rng(0))
    (tmp_path / "x.bin").write_bytes(b"1234")
    with pytest.raises(Refusal, match="shape of input x"):
        read(tmp_path / "x.bin", Wanted("x", 0, None))


def test_one_folder_for_several_inputs(tmp_path: Path) -> None:
    for name in ("b.npy", "a.npy"):
        np.save(tmp_path / name, np.zeros(1))
    (inputs,) = find_sets([str(tmp_path)], ["first", "second"])
    assert [path.name for path in inputs.files] == ["a.npy", "b.npy"]
    with pytest.raises(Refusal, match="2 files"):
        find_sets([str(tmp_path)], ["first", "second", "third"])
