"""Pictures: all names are there, the file is what it says it is, and nothing lies on top of anything else."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

import dataflow as df
from softnpu.flow.drawing.process_point import FUNCTION
from softnpu.flow.watch.arrange import arrange
from softnpu.flow.watch.picture import render
from softnpu.flow.watch.sketch import INPUT, OUTPUT, Box, Line, Sketch, sketch
from softnpu.flow.watch.svg import _size

SVG = "{http://www.w3.org/2000/svg}"


@df.pyflow
def double(x):  # type: ignore[no-untyped-def]
    return x * 2


@df.pyflow
def add(x, y):  # type: ignore[no-untyped-def]
    if x < 0:
        raise ValueError(x)
    return x + y


def diamond(name: str = "diamond") -> tuple[df.FlowGraph, list[df.FlowData]]:
    left, right = df.FlowData(name="left"), df.FlowData(name="right & <left>")
    first = double.fnode()(left)
    second = double.fnode()(right)
    last = add.fnode()
    last.set_attr("_flow_attr_depth", 8)
    return df.FlowGraph([last(first, second), first], name=name), [left, right]


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_svg_is_xml_with_every_name(flow: dict[str, str]) -> None:
    graph, _ = diamond()
    svg = graph.visualize()
    shown = texts(svg)
    for name in [*(node.name for node in graph.nodes), "left", "right & <left>", "output 0", "output 1", "diamond"]:
        assert name in shown
    assert "queue: depth 8" in shown
    assert "prefers-color-scheme:dark" in svg
    # nothing from elsewhere, nothing that runs
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|<script|<image|@import|href", svg)
    paths = [each for each in ElementTree.fromstring(svg).iter(f"{SVG}path") if each.get("class") == "line"]
    assert len(paths) == 6


def test_the_picture_of_a_running_graph_has_its_numbers(flow: dict[str, str]) -> None:
    graph, (left, right) = diamond()
    for value in (1, -2):
        graph.feed({left: value, right: 3})
    shown = texts(graph.visualize())
    assert sum(each.startswith("2 calls") for each in shown) == 3
    assert "1 failed" in shown


@pytest.mark.parametrize(("name", "begins"), [("g.svg", "<svg"), ("g.dot", "digraph"), ("g.mmd", "flowchart LR")])
def test_the_suffix_of_a_file_chooses_the_form(flow: dict[str, str], tmp_path: Path, name: str, begins: str) -> None:
    graph, _ = diamond()
    text = graph.visualize(tmp_path / name)
    assert text.startswith(begins)
    assert (tmp_path / name).read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert all(node.name in text for node in graph.nodes)


def test_fmt_chooses_the_form_and_an_unknown_suffix_is_refused(flow: dict[str, str], tmp_path: Path) -> None:
    graph, _ = diamond()
    assert graph.visualize(tmp_path / "x.txt", fmt="mermaid").startswith("flowchart")
    with pytest.raises(df.DfException, match=r"x\.png.*svg, dot or mermaid"):
        graph.visualize(tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


def test_dot_and_mermaid_have_every_node_and_edge() -> None:
    made = Sketch(
        'a "b"',
        [
            Box("in", INPUT, outputs=1),
            Box('x"y\\z', FUNCTION, ["run"], inputs=2, outputs=1),
            Box("output 0", OUTPUT, inputs=1),
        ],
        [Line(0, 0, 1, 0), Line(0, 0, 1, 1, "batch of 4"), Line(1, 0, 2, 0)],
    )
    dot = render(made, "dot")
    assert 'digraph "a \\"b\\"" {' in dot
    assert 'n1 [label="x\\"y\\\\z\\nfunction\\nrun"]' in dot
    assert dot.count(" -> ") == 3
    assert "batch of 4" in dot
    mermaid = render(made, "mermaid")
    assert 'n1["x#34;y\\z<br/>function<br/>run"]' in mermaid
    assert 'n0 -->|"0 → 1, batch of 4"| n1' in mermaid


def test_a_model_is_shown_with_its_file_and_kind(flow: dict[str, str]) -> None:
    data = df.FlowData()
    model = df.GraphProcessPoint(df.Framework.ONNX, "/nowhere/resnet50.onnx").fnode(1, 1, name="net")
    graph = df.FlowGraph([model(data)])
    shown = texts(graph.visualize())  # the file is not opened for it
    assert {"net", "model", "ONNX resnet50.onnx"} <= set(shown)
    assert [box.kind for box in sketch(graph).boxes] == ["input", "model", "output"]


def random_sketch(count: int, seed: int) -> Sketch:
    chance = random.Random(seed)
    boxes, lines = [Box("a", INPUT, outputs=1), Box("b", INPUT, outputs=1)], []
    for number in range(count):
        inputs = chance.choice([1, 1, 2, 3])
        lines += [
            Line(max(0, len(boxes) - 1 - int(chance.expovariate(0.3))), 0, len(boxes), at) for at in range(inputs)
        ]
        boxes.append(Box(f"node_{number}", FUNCTION, inputs=inputs, outputs=1))
    for number in set(range(2, count + 2)) - {line.start for line in lines}:
        lines.append(Line(number, 0, len(boxes), 0))
        boxes.append(Box(f"output {number}", OUTPUT, inputs=1))
    return Sketch("random", boxes, lines)


def chain(count: int) -> Sketch:
    boxes = [Box("in", INPUT, outputs=1), *(Box(f"n{at}", FUNCTION, inputs=1, outputs=1) for at in range(count))]
    boxes.append(Box("output 0", OUTPUT, inputs=1))
    return Sketch("chain", boxes, [Line(at, 0, at + 1, 0) for at in range(count + 1)])


@pytest.mark.parametrize("made", [chain(1), chain(64), *(random_sketch(count, count) for count in (3, 12, 30, 64))])
def test_boxes_do_not_overlap_and_lines_go_forward(made: Sketch) -> None:
    placed = arrange(made, [_size(box) for box in made.boxes])
    spots = placed.spots[: len(made.boxes)]
    for at, one in enumerate(spots):
        for two in spots[at + 1 :]:
            apart_x = abs(one.x - two.x) >= (one.width + two.width) / 2
            apart_y = abs(one.y - two.y) >= (one.height + two.height) / 2
            assert apart_x or apart_y
    assert all(spots[line.start].layer < spots[line.end].layer for line in made.lines)
    root = ElementTree.fromstring(render(made, "svg"))
    wide, tall = float(root.get("width", 0)), float(root.get("height", 0))
    for spot in spots:
        assert spot.x - spot.width / 2 >= -1 and spot.x + spot.width / 2 <= wide
        assert spot.y - spot.height / 2 >= -1 and spot.y + spot.height / 2 <= tall


def test_a_long_chain_is_folded() -> None:
    root = ElementTree.fromstring(render(chain(64), "svg"))
    assert float(root.get("width", 0)) < 3000
    assert float(root.get("height", 0)) < 3000


def test_no_crossings_where_none_are_needed() -> None:
    """Parallel chains that are written down in a mixed order."""
    boxes = [Box(f"in {at}", INPUT, outputs=1) for at in range(4)]
    boxes += [Box(f"n {at}", FUNCTION, inputs=1, outputs=1) for at in (2, 0, 3, 1)]
    boxes += [Box(f"output {at}", OUTPUT, inputs=1) for at in (1, 3, 0, 2)]
    middle, last = {2: 4, 0: 5, 3: 6, 1: 7}, {1: 8, 3: 9, 0: 10, 2: 11}
    lines = [Line(at, 0, middle[at], 0) for at in range(4)] + [Line(middle[at], 0, last[at], 0) for at in range(4)]
    spots = arrange(Sketch("four", boxes, lines), [_size(box) for box in boxes]).spots
    orders = [
        sorted(range(4), key=lambda at: spots[place[at]].y) for place in (dict(enumerate(range(4))), middle, last)
    ]
    assert orders[0] == orders[1] == orders[2]


def test_hard_names_are_escaped(flow: dict[str, str]) -> None:
    made = Sketch("g", [Box("a\x00b\x1b]", FUNCTION), Box("图像" * 40, FUNCTION), Box("x" * 300, FUNCTION)], [])
    root = ElementTree.fromstring(render(made, "svg"))
    assert float(root.get("width", 0)) < 900
    titles = [each.text or "" for each in root.iter(f"{SVG}title")]
    assert any("x" * 300 in each for each in titles)  # the whole name is in the tip


def test_a_large_graph_is_drawn_in_time() -> None:
    began = time.perf_counter()
    render(random_sketch(64, 1), "svg")
    assert time.perf_counter() - began < 20
