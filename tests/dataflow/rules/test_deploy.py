"""Deployment file, resource description, function configuration, options: parsed strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from softnpu.flow import log
from softnpu.flow.application import options
from softnpu.flow.drawing.function_config import function_config
from softnpu.flow.errors import DfException
from softnpu.flow.plan import BodySpec, Device, Function, Node, Plan, Port
from softnpu.flow.planning import deploy, numa


def _file(folder: Path, content: Any, name: str = "file.json") -> str:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def _plan(*names: str, alias: str = "") -> Plan:
    nodes = tuple(
        Node(name, 1, 1, (Function("f", (0,), (0,)),), BodySpec("m:f"), alias=alias if number == 0 else "")
        for number, name in enumerate(names)
    )
    edges = {Port(-1, 0): tuple(Port(number, 0) for number in range(len(names)))}
    return Plan("g", ("x",), nodes, edges, (Port(0, 0),))


def _batch(*names: str, devices: str = "0:0:0:0", **more: Any) -> dict[str, Any]:
    return {"flow_node_list": list(names), "logic_device_list": devices, **more}


def _refused(folder: Path, content: Any, *words: str) -> None:
    path = _file(folder, content)
    with pytest.raises(DfException) as caught:
        deploy.read(path)
    assert caught.value.error_code == 145000
    for word in (path, *words):
        assert word in caught.value.message


# ---- devices ----


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0:0:0", [(0, 0, 0, 0)]),
        ("0:1:2:3", [(0, 1, 2, 3)]),
        ("0:0:1~3", [(0, 0, 1, 0), (0, 0, 2, 0), (0, 0, 3, 0)]),
        ("0:0~1:0~1:7", [(0, 0, 0, 7), (0, 0, 1, 7), (0, 1, 0, 7), (0, 1, 1, 7)]),
        ("0:0:2, 0:0:0", [(0, 0, 2, 0), (0, 0, 0, 0)]),
        ("0:0:-1", [(0, 0, -1, 0)]),
        ("0:0:-1:0,0:0:0", [(0, 0, -1, 0), (0, 0, 0, 0)]),
        ("0:0:5~5", [(0, 0, 5, 0)]),
        ("0:0:1,0:0:0~2", [(0, 0, 1, 0), (0, 0, 0, 0), (0, 0, 2, 0)]),
        ("00000:0:0", [(0, 0, 0, 0)]),
    ],
)
def test_texts_of_devices_are_lists_and_ranges(text: str, wanted: list[tuple[int, ...]]) -> None:
    assert deploy.parse_devices(text) == [Device(*numbers) for numbers in wanted]


@pytest.mark.parametrize(
    "text",
    [
        "", "0", "0:0", "0:0:0:0:0", "a:0:0", "0:0:", "0:0:0,", "0:0:123456", "0:0:+1", "0:0:-2", "0:-1:0", "0:0:0:-1",
        "0:0:3~1", "0:0:0~32768", "0:0:~3", "0:0:1~", "0:0:1~2~3", "1:0:0", "0~1:0:0", "0:0:٣", "0:0:0;0:0:1",
        "0:0~255:0~256", "0:0~32767:0~32767:0~32767",
    ],
)  # fmt: skip
def test_texts_that_name_no_devices_are_refused(tmp_path: Path, text: str) -> None:
    _refused(tmp_path, {"batch_deploy_info": [_batch("a", devices=text)]}, "batch_deploy_info[0].logic_device_list")


def test_at_most_65535_devices() -> None:
    assert len(deploy.parse_devices("0:0~256:0~254")) == 65535
    with pytest.raises(ValueError, match="65535"):
        deploy.parse_devices("0:0~255:0~255")


# ---- deployment file ----


def test_instances_of_a_node_by_alias_or_name(tmp_path: Path) -> None:
    content = {"batch_deploy_info": [_batch("nick", devices="0:0:0~1"), _batch("b", "c")]}
    found = deploy.apply(_plan("a", "b", "c", alias="nick"), _file(tmp_path, content))
    assert found == {"nick": (Device(), Device(device=1)), "b": (Device(),), "c": (Device(),)}


def test_old_form_and_both_forms_together(tmp_path: Path) -> None:
    content = {
        "batch_deploy_info": [_batch("a")],
        "deploy_info": [{"flow_node_name": "b", "logic_device_id": "0:0:1:0"}],
    }
    assert deploy.apply(_plan("a", "b"), _file(tmp_path, content)) == {"a": (Device(),), "b": (Device(device=1),)}


@pytest.mark.parametrize(("keep", "order"), [(True, [3, 1, -1]), (False, [-1, 1, 3]), (None, [-1, 1, 3])])
def test_keep_logic_device_order(tmp_path: Path, keep: bool | None, order: list[int]) -> None:
    content: dict[str, Any] = {"batch_deploy_info": [_batch("a", devices="0:0:3,0:0:1,0:0:-1")]}
    if keep is not None:
        content["keep_logic_device_order"] = keep
    devices = deploy.apply(_plan("a"), _file(tmp_path, content))["a"]
    assert [device.device for device in devices] == order


def test_order_is_by_number_not_by_text(tmp_path: Path) -> None:
    content = {"batch_deploy_info": [_batch("a", devices="0:0:10,0:0:9,0:1:0")]}
    devices = deploy.apply(_plan("a"), _file(tmp_path, content))["a"]
    assert [(device.server, device.device) for device in devices] == [(0, 9), (0, 10), (1, 0)]


def test_every_node_has_to_be_listed(tmp_path: Path) -> None:
    path = _file(tmp_path, {"batch_deploy_info": [_batch("a", "typo")]})
    with pytest.raises(DfException, match=r"node b, c of graph g is not listed.*typo") as caught:
        deploy.apply(_plan("a", "b", "c"), path)
    assert caught.value.error_code == 145000


def test_a_node_with_an_alias_is_not_found_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(DfException, match="nick"):
        deploy.apply(_plan("a", alias="nick"), _file(tmp_path, {"batch_deploy_info": [_batch("a")]}))


def test_nodes_of_other_graphs_may_be_in_the_file(tmp_path: Path) -> None:
    path = _file(tmp_path, {"batch_deploy_info": [_batch("a", "other")]})
    assert deploy.apply(_plan("a"), path) == {"a": (Device(),)}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, ["batch_deploy_info", "deploy_info"]),
        ({"keep_logic_device_order": True}, ["neither"]),
        ({"batch_deploy_info": []}, ["lists no node"]),
        ({"batch_deploy_info": {}}, ["batch_deploy_info", "a list"]),
        ({"batch_deploy_info": [3]}, ["batch_deploy_info[0]", "an object"]),
        ({"batch_deploy_info": [{"logic_device_list": "0:0:0"}]}, ["batch_deploy_info[0].flow_node_list", "missing"]),
        ({"batch_deploy_info": [{"flow_node_list": ["a"]}]}, ["logic_device_list", "missing"]),
        ({"batch_deploy_info": [_batch()]}, ["flow_node_list", "empty"]),
        ({"batch_deploy_info": [_batch("")]}, ["flow_node_list", "empty name"]),
        ({"batch_deploy_info": [{"flow_node_list": "a", "logic_device_list": "0:0:0"}]}, ["'a'", "a list"]),
        (
            {"batch_deploy_info": [{"flow_node_list": [1], "logic_device_list": "0:0:0"}]},
            ["flow_node_list[0]", "a text"],
        ),
        ({"batch_deploy_info": [{"flow_node_list": ["a"], "logic_device_list": 0}]}, ["logic_device_list", "a text"]),
        ({"batch_deploy_info": [_batch("a"), _batch("a")]}, ["batch_deploy_info[1]", "'a'", "again"]),
        ({"batch_deploy_info": [_batch("a", "a")]}, ["'a'", "again"]),
        (
            {"batch_deploy_info": [_batch("a")], "deploy_info": [{"flow_node_name": "a", "logic_device_id": "0:0:0"}]},
            ["deploy_info[0]", "again"],
        ),
        ({"deploy_info": [{"flow_node_name": "a"}]}, ["deploy_info[0].logic_device_id", "missing"]),
        ({"deploy_info": [{"logic_device_id": "0:0:0"}]}, ["deploy_info[0].flow_node_name", "missing"]),
        (
            {"batch_deploy_info": [_batch("a")], "keep_logic_device_order": 1},
            ["keep_logic_device_order", "true or false"],
        ),
        ({"batch_deploy_info": [_batch("a")], "dynamic_schedule_enable": "no"}, ["dynamic_schedule_enable"]),
        ({"batch_deploy_info": [_batch("a", redundant_logic_device_list="x")]}, ["redundant_logic_device_list"]),
        ([], ["object"]),
        ("{", ["JSON"]),
        ('{"batch_deploy_info": NaN}', ["NaN"]),
        ('{"a": ' * 200 + "1" + "}" * 200, ["nests"]),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: Any, words: list[str]) -> None:
    _refused(tmp_path, content, *words)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (str(tmp_path / "none.json"), str(tmp_path), "/dev/zero"):
        with pytest.raises(DfException, match="cannot be read") as caught:
            deploy.read(path)
        assert caught.value.error_code == 145000
    big = tmp_path / "big.json"
    with big.open("wb") as file:
        file.truncate(11 * 2**20)
    with pytest.raises(DfException, match="10 MB"):
        deploy.read(str(big))


def test_unknown_keys_are_named_and_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(log, "warning", lambda text, *values: lines.append(text % values))
    deploy.read(_file(tmp_path, {"batch_deploy_info": [_batch("a")], "batch_deploy_inof": []}))
    assert len(lines) == 1
    assert "batch_deploy_inof" in lines[0]


def test_an_invoke_list_gives_closures_their_devices_and_files(tmp_path: Path) -> None:
    _file(tmp_path, {}, "inner.json")
    invokes = [
        {"invoke_name": "k", "logic_device_list": "0:0:1", "redundant_logic_device_list": "0:0:2"},
        {"invoke_name": "f", "deploy_info_file": "inner.json"},
        {"invoke_name": "h", "deploy_info_file": "/no/such"},
    ]
    content = {"batch_deploy_info": [_batch("a", redundant_logic_device_list="0:0:9", invoke_list=invokes)]}
    entry = deploy.read(_file(tmp_path, content)).entries["a"]
    assert entry.spares == (Device(device=9),)
    assert [invoke.name for invoke in entry.invokes] == ["k", "f", "h"]
    assert (entry.invokes[0].devices, entry.invokes[0].spares) == ((Device(device=1),), (Device(device=2),))
    assert [invoke.file for invoke in entry.invokes] == ["", str(tmp_path / "inner.json"), "/no/such"]


@pytest.mark.parametrize(
    ("invokes", "word"),
    [
        ([{"invoke_name": "k", "deploy_info_file": "f", "logic_device_list": "0:0:0"}], "one of the two"),
        ([{"invoke_name": "k", "deploy_info_file": "f", "redundant_logic_device_list": "0:0:0"}], "one of the two"),
        ([{"invoke_name": "k"}], "neither"),
        ([{"logic_device_list": "0:0:0"}], "invoke_name"),
        ([{"invoke_name": "k", "logic_device_list": "0:0:0"}] * 2, "twice"),
        ([{"invoke_name": "k", "logic_device_list": "3~1"}], "logic_device_list"),
    ],
)
def test_invoke_list_is_checked(tmp_path: Path, invokes: list[Any], word: str) -> None:
    _refused(tmp_path, {"batch_deploy_info": [_batch("a", invoke_list=invokes)]}, "invoke_list[", word)


# ---- resource description ----


def _numa(**server: Any) -> dict[str, Any]:
    node = {"node_id": 0, "node_type": "host", "item_list": [{"item_id": 0}, {"item_id": 1}], **server}
    return {
        "cluster": [{"cluster_nodes": [node]}],
        "node_def": [{"node_type": "host", "resource_type": "X86"}],
        "item_def": [{"item_type": "chip", "resource_type": "Ascend"}],
    }


def test_resource_description_gives_servers_and_items(tmp_path: Path) -> None:
    content = _numa(is_local=True, ipaddr="10.0.0.1", port="2509", data_panel={"avail_ports": "16666~16700"})
    found = numa.read(_file(tmp_path, content))
    assert found.servers == (numa.Server(0, "host", "10.0.0.1", True, (0, 1)),)
    assert found.holds(Device(device=1))
    assert found.holds(Device(device=-1))
    assert not found.holds(Device(device=2))
    assert not found.holds(Device(server=1, device=-1))


def test_deployment_outside_the_resources_is_refused(tmp_path: Path) -> None:
    resources = numa.read(_file(tmp_path, _numa(), "numa.json"))
    content = {"batch_deploy_info": [_batch("a", devices="0:0:0,0:0:2")]}
    with pytest.raises(DfException, match=r"node a is put on 0:0:2:0.*0 \(2 items\)"):
        deploy.apply(_plan("a"), _file(tmp_path, content), resources)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({}, "cluster"),
        ({"cluster": []}, "cluster"),
        ({"cluster": [{}]}, "cluster_nodes"),
        ({"cluster": [{"cluster_nodes": [{}]}]}, "node_id"),
        (_numa(node_id=-1), "node_id"),
        (_numa(node_id="x"), "node_id"),
        (_numa(node_type="other"), "node_type"),
        (_numa(port=70000), "port"),
        (_numa(data_panel={"avail_ports": "100~200"}), "avail_ports"),
        (_numa(data_panel={"avail_ports": "16700~16666"}), "avail_ports"),
        (_numa(data_panel={"avail_ports": "16700"}), "avail_ports"),
        (_numa(item_list=[{"item_id": 0}, {"item_id": 0}]), "item_id"),
        (_numa(item_list=[{}]), "item_list[0].item_id"),
        (_numa() | {"node_def": [{"node_type": "host", "resource_type": "Vax"}]}, "resource_type"),
        ({"cluster": [{"cluster_nodes": [{"node_id": 1}, {"node_id": 1}]}]}, "twice"),
    ],
)
def test_resource_description_is_checked(tmp_path: Path, content: Any, word: str) -> None:
    with pytest.raises(DfException) as caught:
        numa.read(_file(tmp_path, content))
    assert word in caught.value.message
    assert caught.value.error_code == 145000


# ---- function configuration ----


def _func(**more: Any) -> dict[str, Any]:
    return {"input_num": 2, "output_num": 1, "func_list": [{"func_name": "f"}], **more}


def test_one_function_takes_all_inputs(tmp_path: Path) -> None:
    found = function_config(_file(tmp_path, _func(heavy_load=True, target_bin="libx.so")))
    assert found.functions == (Function("f", (0, 1), (0,)),)
    assert (found.heavy_load, found.visible_device, found.built_in, found.target_bin) == (True, False, False, "libx.so")


def test_function_configuration_in_full(tmp_path: Path) -> None:
    content = _func(
        func_list=[
            {"func_name": "f", "inputs_index": [1], "outputs_index": [0], "stream_input": True},
            {"func_name": "g", "inputs_index": [0]},
        ],
        running_resources_info=[{"type": "cpu", "num": 2}, {"type": "memory", "num": 100}],
        buf_cfg=[
            {"total_size": 2097152, "blk_size": 256, "max_buf_size": 8192, "page_type": "normal"},
            {"total_size": 2097152, "blk_size": 8192, "max_buf_size": 8388608, "page_type": "normal"},
        ],
        visible_device_enable=True,
    )
    found = function_config(_file(tmp_path, content))
    assert found.functions == (Function("f", (1,), (0,), stream=True), Function("g", (0,), (0,)))
    assert found.resources == {"num_cpus": 2, "memory": 100}
    assert [row.blk_size for row in found.buffers] == [256, 8192]
    assert found.visible_device


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({}, "input_num"),
        (_func(input_num=-1), "input_num"),
        (_func(input_num=True), "input_num"),
        (_func(func_list=[]), "func_list"),
        (_func(func_list=[{}]), "func_name"),
        (_func(func_list=[{"func_name": "f"}, {"func_name": "g"}]), "inputs_index"),
        (_func(func_list=[{"func_name": "f", "inputs_index": [0]}, {"func_name": "f", "inputs_index": [1]}]), "twice"),
        (
            _func(func_list=[{"func_name": "f", "inputs_index": [0]}, {"func_name": "g", "inputs_index": [0]}]),
            "two functions",
        ),
        (_func(func_list=[{"func_name": "f", "inputs_index": [0]}]), "leaves out input 1"),
        (_func(func_list=[{"func_name": "f", "inputs_index": [0, 2]}]), "has 2"),
        (_func(func_list=[{"func_name": "f", "inputs_index": [0, 0]}]), "once"),
        (_func(func_list=[{"func_name": "f", "outputs_index": [1]}]), "has 1"),
        (_func(target_bin="x.dll"), "lib*.so"),
        (_func(running_resources_info=[{"type": "gpu", "num": 1}]), "gpu"),
        (_func(buf_cfg=[{"total_size": 1, "blk_size": 3, "max_buf_size": 1}]), "power of two"),
        (_func(buf_cfg=[{"total_size": 1, "blk_size": 4194304, "max_buf_size": 1}]), "blk_size"),
        (_func(buf_cfg=[{"total_size": 1, "blk_size": 2, "max_buf_size": 4}] * 2), "sort"),
        (_func(buf_cfg=[{"total_size": 1, "blk_size": 2, "max_buf_size": 4}] * 65), "64"),
        (_func(buf_cfg=[{"total_size": 1, "blk_size": 2, "max_buf_size": 4, "page_type": "big"}]), "page_type"),
    ],
)
def test_function_configuration_is_checked(tmp_path: Path, content: Any, word: str) -> None:
    with pytest.raises(DfException) as caught:
        function_config(_file(tmp_path, content))
    assert word in caught.value.message


# ---- options ----

_POOL = "274877906944"


def test_options_that_are_fine(tmp_path: Path) -> None:
    options.check({})
    options.check(
        {
            "ge.exec.deviceId": "0",
            "ge.socVersion": "Ascend910B3",
            "ge.graphRunMode": "0",
            "ge.runFlag": "0",
            "ge.graph_key": "A-b_9",
            "ge.graph_compiler_cache_dir": str(tmp_path),
            "ge.flowGraphMemMaxSize": "1024:0,4096:2147483648",
            "ge.exec.logicalDeviceId": "[0:1]",
            "softnpu.flow.engine": "inline",
        }
    )
    options.check({"ge.flowGraphMemMaxSize": f"{_POOL}:0"})
    options.check({"ge.flowGraphMemMaxSize": ",".join(["1024:0"] * 128)})


@pytest.mark.parametrize(
    "value",
    ["", "x", "1024", "1024:", ":0", "1023:0", "274877906945:0", "1024:1023", "1024:2147483649", "-1024:0",
     f"{_POOL}:0,1024:0", ",".join(["1024:0"] * 129), "1024:0,", "9" * 5000 + ":0"],
)  # fmt: skip
def test_memory_pools_are_checked(value: str) -> None:
    with pytest.raises(DfException, match="flowGraphMemMaxSize") as caught:
        options.check({"ge.flowGraphMemMaxSize": value})
    assert caught.value.error_code == 145000
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ge.graph_key", ""),
        ("ge.graph_key", "a" * 129),
        ("ge.graph_key", "a b"),
        ("ge.graph_key", "a\n"),
        ("ge.graph_compiler_cache_dir", "/no/such/folder"),
        ("ge.runFlag", "2"),
        ("ge.exec.deviceId", "zero"),
        ("ge.exec.logicalDeviceId", "0:0"),
        ("ge.experiment.data_flow_deploy_info_path", ""),
        ("softnpu.flow.engine", "spark"),
    ],
)
def test_option_values_are_checked(key: str, value: str) -> None:
    with pytest.raises(DfException, match=key) as caught:
        options.check({key: value})
    assert caught.value.error_code == 145000


@pytest.mark.parametrize("bad", [None, [], {"ge.x": 1}, {1: "a"}])
def test_options_are_texts(bad: Any) -> None:
    with pytest.raises(DfException) as caught:
        options.check(bad)
    assert caught.value.error_code == 145000


def test_our_own_options_have_to_be_known() -> None:
    with pytest.raises(DfException, match=r"softnpu\.flow\.engine meant"):
        options.check({"softnpu.flow.engin": "inline"})


def test_unknown_ge_options_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(log, "info", lambda text, *values: lines.append(text % values))
    options.check({"ge.somethingNew": "7"})
    assert len(lines) == 1
    assert "ge.somethingNew=7" in lines[0]
