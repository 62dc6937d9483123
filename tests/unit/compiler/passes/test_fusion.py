"""Fusion switches in every form, their precedence, their errors, and the report."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from softnpu.compiler.errors import AtcError
from softnpu.compiler.passes import fusion, order
from softnpu.compiler.passes.fusion import FusionReport, Switches, parse_option, read_switches, write_result

A, B = "ConvBatchnormFusionPass", "TbeCommonRules0FusionPass"


def switch_file(folder: Path, text: str | bytes) -> Path:
    path = folder / "fusion_switch.cfg"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_nothing_said_means_on() -> None:
    switches = read_switches()
    assert all(switches.on(step.NAME, step.GROUP) for step in order.ORDER)


def test_the_form_of_lines(tmp_path: Path) -> None:
    switches = read_switches(switch_file(tmp_path, f"{A}:off\r\n\n {B} : on \n"))
    assert not switches.on(A, "GraphFusion")
    assert switches.on(B, "UBFusion")
    everything = read_switches(switch_file(tmp_path, f"ALL:off\n{B}:on"))
    assert not everything.on(A, "GraphFusion")
    assert everything.on(B, "UBFusion")
    assert not everything.on("Other", "UBFusion")


def test_the_form_of_json(tmp_path: Path) -> None:
    text = {"Switch": {"GraphFusion": {"ALL": "off", A: "on"}, "UBFusion": {B: "off"}}}
    switches = read_switches(switch_file(tmp_path, json.dumps(text)))
    assert switches.on(A, "GraphFusion")
    assert not switches.on("COPYPass", "GraphFusion")
    assert not switches.on(B, "UBFusion")
    assert switches.on("TbeEltwiseFusionPass", "UBFusion")
    assert read_switches(switch_file(tmp_path, '{"Switch":{}}')).on(A, "GraphFusion")


def test_the_option_counts_more_than_the_file(tmp_path: Path) -> None:
    path = switch_file(tmp_path, f"ALL:off\n{A}:off")
    switches = read_switches(path, f"{A}:on;{B}:off;")
    assert switches.on(A, "GraphFusion")
    assert not switches.on(B, "UBFusion")


def test_what_a_file_cannot_close_the_option_can(tmp_path: Path) -> None:
    path = switch_file(tmp_path, "ALL:off\nAABiasaddConvFusion:off")
    assert read_switches(path).on("AABiasaddConvFusion", "GraphFusion")
    assert not read_switches(path, "AABiasaddConvFusion:off").on("AABiasaddConvFusion", "GraphFusion")


@pytest.mark.parametrize(
    "text",
    [
        "ConvBatchnormFusionPass",
        "A:maybe",
        ":on",
        "A:on\nA:off",
        "A:on:off",
        b"\xff\xfe\x00",
        "{",
        '{"Switch":[]}',
        '{"Switch":{"GraphFusion":{"A":"on","A":"off"}}}',
        '{"Switch":{"GraphFusion":{"A":true}}}',
        '{"Switch":{"GraphFusion":{"A":"ON"}}}',
        '{"Switch":{"Other":{"A":"on"}}}',
        '{"Switch":{"UBFusion":"off"}}',
        '{"GraphFusion":{"A":"on"}}',
        '{"Switch":{},"More":1}',
        '{"a":' * 100_000,
        "A:on\n" + "x" * (1 << 20),
    ],
)
def test_bad_content_is_e20003(text, tmp_path: Path) -> None:
    with pytest.raises(AtcError) as caught:
        read_switches(switch_file(tmp_path, text))
    assert caught.value.code == "E20003"
    assert str(tmp_path) in caught.value.message
    assert caught.value.solution


def test_a_file_that_cannot_be_opened_is_e21001(tmp_path: Path) -> None:
    for path in (tmp_path / "none.cfg", tmp_path):
        with pytest.raises(AtcError) as caught:
            read_switches(path)
        assert caught.value.code == "E21001"


@pytest.mark.parametrize("text", ["A", "A:yes", "A:on;A:off", ":on", "A=on"])
def test_a_bad_option_is_e10001(text) -> None:
    with pytest.raises(AtcError) as caught:
        parse_option(text)
    assert caught.value.code == "E10001"
    assert "--optimization_switch" in caught.value.message


def test_the_report_counts_matches_and_effects(tmp_path: Path) -> None:
    report = FusionReport()
    report.count(A, "GraphFusion", 2, 1)
    report.count(A, "GraphFusion", 1, 1)
    report.count("COPYPass", "GraphFusion", 0, 0)
    report.count(B, "UBFusion", 2, 2)
    path = write_result(report, tmp_path / "deep" / "er")
    assert path.name == "fusion_result.json"
    assert json.loads(path.read_text()) == [
        {
            "session_and_graph_id_0_0": {
                "graph_fusion": {A: {"effect_times": "2", "match_times": "3"}},
                "ub_fusion": {B: {"effect_times": "2", "match_times": "2", "repository_hit_times": "0"}},
            }
        }
    ]
    assert report.counts(A) == (3, 2)
    assert report.counts("none") == (0, 0)
    assert "ub_fusion" not in FusionReport(["GraphFusion"]).content()[0]["session_and_graph_id_0_0"]


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AtcError) as caught:
        write_result(FusionReport(), tmp_path / "file" / "x")
    assert caught.value.code == "E21001"


def test_where_the_report_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_WORK_PATH", raising=False)
    monkeypatch.chdir(tmp_path)
    assert fusion.result_folder() == tmp_path
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path / "work"))
    assert fusion.result_folder() == tmp_path / "work" / "FE" / str(os.getpid())


def test_names_and_groups_of_the_passes() -> None:
    for step in order.ORDER:
        assert step.GROUP in fusion.GROUPS
        assert step.NAME.isidentifier()
    names = {step.NAME: step for step in order.ORDER}
    assert len(names) == len({id(step) for step in order.ORDER})
    assert isinstance(Switches().on("x", "UBFusion"), bool)
