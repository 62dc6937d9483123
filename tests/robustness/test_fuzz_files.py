"""Hostile files of every kind: a documented code, no crash, no hang, no flood of memory, nothing left behind."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from random import Random
from typing import Any

import onnx
import pytest

import acl
from softnpu.base.errors import NpuError
from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.onnx.reader import read
from softnpu.compiler.single_op.files import read as read_single_ops
from softnpu.graph import container, digest, runtime_info
from softnpu.graph.inout import ModelInfo, TensorInfo
from tests.robustness import fuzz_files, fuzz_mutate, fuzz_seeds

SHORT, LONG = 1500, 10_000


def problems(report: fuzz_files.Report) -> str:
    return "\n\n".join(report.findings[:5])


def test_hostile_files() -> None:
    report = fuzz_files.run(seed=20, count=SHORT)
    assert not report.findings, problems(report)
    assert report.answers.total() == SHORT
    seen = {answer.partition(":")[0] for answer in report.answers}
    assert seen == set(fuzz_files.KINDS)
    assert report.answers["om: load 145006"] > 100  # most damage is noticed before anything runs
    assert report.answers["om: run 0"] > 5  # and some of it does not matter


@pytest.mark.slow
def test_many_hostile_files() -> None:
    report = fuzz_files.run(seed=21, count=LONG)
    assert not report.findings, problems(report)


@pytest.mark.slow
def test_forged_programs() -> None:
    """A forger puts the digests right; the checks behind them and the engine's own must hold alone."""
    report = fuzz_files.run(seed=22, count=1000, kind="program")
    assert not report.findings, problems(report)


# ---- digests ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def model(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.onnx").write_bytes(fuzz_seeds.picture_net())
    words = ["--model=net.onnx", "--framework=5", f"--output={tmp_path / 'net'}", fuzz_seeds.SOC, "--log=null"]
    fuzz_seeds._run(words)
    assert acl.init() == 0
    assert acl.rt.set_device(0) == 0
    return tmp_path / "net.om"


def load(data: bytes, path: Path) -> int:
    path.write_bytes(data)
    number, code = acl.mdl.load_from_file(str(path))
    if not code:
        assert acl.mdl.unload(number) == 0
    return int(code)


def test_a_changed_bit_in_any_part_is_noticed(model: Path, tmp_path: Path) -> None:
    data = model.read_bytes()
    assert load(data, tmp_path / "same.om") == 0
    view = memoryview(data)
    _, parts = container.read(view)
    rng = Random(3)
    for kind in (container.MODEL_DEF, container.MODEL_INOUT_INFO, container.TBE_KERNELS, container.WEIGHTS_DATA):
        at = bytes(view).find(bytes(parts[kind]))
        for _ in range(20):
            place = at + rng.randrange(len(parts[kind]))
            spoiled = bytearray(data)
            spoiled[place] ^= 1 << rng.randrange(8)
            assert load(bytes(spoiled), tmp_path / "spoiled.om") == 145006, (kind, place)


def test_a_model_without_digests_is_not_run(model: Path, tmp_path: Path) -> None:
    header, parts = container.read(model.read_bytes())
    found: dict[int, Any] = {kind: bytes(part) for kind, part in parts.items()}
    whole = fuzz_mutate.sealed(header, dict(found))
    assert load(whole, tmp_path / "whole.om") == 0
    found[container.TBE_KERNELS] = found[container.TBE_KERNELS][: -digest.ITEM_BYTES]
    pieces = [(kind, [part]) for kind, part in found.items()]
    container.write(tmp_path / "bare.om", header.name, header.platform, header.dynamic, pieces)
    assert acl.mdl.load_from_file(str(tmp_path / "bare.om")) == (0, 145006)
    assert "digest" in acl.get_recent_err_msg()


def test_weights_beside_the_model_are_checked_too(model: Path, tmp_path: Path) -> None:
    words = ["--model=net.onnx", "--framework=5", f"--output={tmp_path / 'two'}", fuzz_seeds.SOC, "--external_weight=2"]
    fuzz_seeds._run(words)
    (weights,) = (tmp_path / "weight").iterdir()
    assert load((tmp_path / "two.om").read_bytes(), tmp_path / "two.om") == 0
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 0x10
    weights.write_bytes(data)
    assert load((tmp_path / "two.om").read_bytes(), tmp_path / "two.om") == 145006


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 3 * 4096 + 17])
def test_the_digest_of_weights_does_not_depend_on_the_pieces(size: int) -> None:
    rng = Random(size)
    data = rng.randbytes(size)
    whole = digest.of_weights([data])
    for _ in range(10):
        cuts = sorted(rng.randrange(size + 1) for _ in range(6))
        pieces = [data[low:high] for low, high in zip([0, *cuts], [*cuts, size], strict=True)]
        assert digest.of_weights(pieces) == whole
    for place in {0, size // 2, size - 1} if size else ():
        changed = bytearray(data)
        changed[place] ^= 1
        assert digest.of_weights([bytes(changed)]) != whole


def test_blocks_that_change_places_are_noticed() -> None:
    blocks = [struct.pack("<Q", number) * 512 for number in (1, 2, 3)]
    assert digest.of_weights(blocks) != digest.of_weights([blocks[1], blocks[0], blocks[2]])


# ---- what files may not say ------------------------------------------------------------------------------------------


def refused(data: bytes, folder: Path) -> str:
    (folder / "m.onnx").write_bytes(data)
    with pytest.raises(AtcError) as caught:
        read(folder / "m.onnx")
    return caught.value.code


def test_attributes_of_another_type_and_missing_ones_are_refused(tmp_path: Path) -> None:
    made = onnx.load_from_string(fuzz_seeds.all_types())
    made.graph.node[0].attribute[0].type = onnx.AttributeProto.FLOAT
    assert refused(made.SerializeToString(), tmp_path) == "E14001"
    del made.graph.node[0].attribute[:]
    assert refused(made.SerializeToString(), tmp_path) == "E14002"


def test_operators_with_too_few_or_too_many_inputs_are_refused(tmp_path: Path) -> None:
    made = onnx.load_from_string(fuzz_seeds.all_types())
    names = [*made.graph.node[0].input]
    for wrong in ([], [*names, *names]):
        del made.graph.node[0].input[:]
        made.graph.node[0].input.extend(wrong)
        assert refused(made.SerializeToString(), tmp_path) == "E14001"


def test_single_operators_with_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ops.json").write_text(json.dumps([fuzz_seeds.SINGLE[0]] * 2), encoding="utf-8")
    with pytest.raises(AtcError) as caught:
        read_single_ops(tmp_path / "ops.json")
    assert caught.value.code == "E10023"


def test_weights_with_a_hundred_dims_are_refused(tmp_path: Path) -> None:
    made = onnx.load_from_string(fuzz_seeds.picture_net())
    made.graph.initializer[0].dims.extend([1] * 100)
    assert refused(made.SerializeToString(), tmp_path) == "E10041"


@pytest.mark.parametrize("version", [0, -1, 1 << 31, (1 << 63) - 1])
def test_impossible_opsets_are_refused(version: int, tmp_path: Path) -> None:
    made = onnx.load_from_string(fuzz_seeds.picture_net())
    made.opset_import[0].version = version
    assert refused(made.SerializeToString(), tmp_path) == "E10041"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("gear_inputs",), []),
        (("gear_inputs", 0), [1]),
        (("gear_outputs", 0, 0), [-1]),
        (("gear_outputs", 0, 0), [1e300]),
        (("extra",), None),
        (("extra", "largest_gear"), 3),
        (("extra", "largest_gear"), "0"),
        (("extra", "engine_inputs"), True),
        (("extra", "engine_outputs"), [None]),
        (("extra", "steps"), [{"program": "0"}]),
        (("extra", "steps"), [{"type": "Proposal"}]),
        (("extra", "aipp"), {"x": {"type": 2}}),
        (("extra", "aipp"), {"x": {"type": 3}}),
    ],
)
def test_the_runtime_attribute_is_checked(path: tuple[Any, ...], value: Any) -> None:
    sound: dict[str, Any] = {
        "gear_outputs": [[[1, 5]], [[2, 5]]],
        "gear_inputs": [[1, 3], [2, 3]],
        "extra": {"largest_gear": 1, "engine_inputs": ["x", None], "engine_outputs": ["y"], "steps": None},
    }
    tensors = [TensorInfo("x", 0, 2, [-1, 3], 0), TensorInfo("shape", 3, 2, [1], 4)]

    def info() -> ModelInfo:
        return ModelInfo(tensors, [TensorInfo("y", 0, 2, [2, 5], 40)], [[1], [2]], "batch")

    runtime_info.read(json.dumps(sound), info())
    place = sound
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(NpuError) as caught:
        runtime_info.read(json.dumps(sound), info())
    assert caught.value.code == 145006


@pytest.mark.parametrize("text", [None, 5, "", "[]", "{", "[" * 100_000, '{"extra": []}'])
def test_a_runtime_attribute_that_is_none(text: Any) -> None:
    with pytest.raises(NpuError):
        runtime_info.read(text, ModelInfo([], []))


# ---- the fuzzer itself -----------------------------------------------------------------------------------------------


def test_the_same_number_is_the_same_file() -> None:
    data = fuzz_seeds.recurrent()
    made = [fuzz_mutate.spoil("onnx", "m.onnx", data, Random(f"1:onnx:{number}")) for number in range(50)]
    again = [fuzz_mutate.spoil("onnx", "m.onnx", data, Random(f"1:onnx:{number}")) for number in range(50)]
    assert made == again
    assert len(set(made)) > 45


def test_messages_are_taken_apart_and_put_together() -> None:
    data = fuzz_seeds.picture_net()
    tree = fuzz_mutate.parse(data)
    assert tree is not None
    assert fuzz_mutate.write(tree) == data
