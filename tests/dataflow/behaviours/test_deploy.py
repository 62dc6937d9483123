"""Where nodes run, on every engine."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from tests.dataflow.behaviours import support as user
from tests.dataflow.behaviours.support import FAILED, node

DEPLOY = "ge.experiment.data_flow_deploy_info_path"


@df.pyflow
class Where:
    def __init__(self):
        self.first = df.get_running_instance_id()

    @df.method()
    def go(self, a):
        assert self.first == df.get_running_instance_id()
        return a, df.get_running_instance_id(), df.get_running_instance_num(), df.get_running_device_id(), os.getpid()


def deployed(folder: pathlib.Path, content: Any) -> dict[str, str]:
    """Graph options with a deployment file."""
    path = folder / "deploy.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return {DEPLOY: str(path)}


def places(**devices: str) -> dict[str, Any]:
    return {
        "batch_deploy_info": [
            {"flow_node_list": [name], "logic_device_list": text} for name, text in devices.items()
        ]
    }  # fmt: skip


def where(folder: pathlib.Path, content: Any) -> tuple[df.FlowData, df.FlowGraph]:
    data = df.FlowData()
    return data, df.FlowGraph([Where.fnode().go(data)], deployed(folder, content))


NODE = "Where_fnode"


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        {},
        {"batch_deploy_info": []},
        places(other="0:0:0"),
        {"batch_deploy_info": [{"flow_node_list": [NODE, NODE], "logic_device_list": "0:0:0"}]},
        {**places(Where_fnode="0:0:0"), "deploy_info": [{"flow_node_name": NODE, "logic_device_id": "0:0:1"}]},
        places(Where_fnode="0:0"),
        places(Where_fnode="0:0:x"),
        places(Where_fnode="0:0:3~1"),
        places(Where_fnode="0:0:123456"),
        places(Where_fnode="1:0:0"),
        {
            "batch_deploy_info": [
                {
                    "flow_node_list": [NODE],
                    "logic_device_list": "0:0:0",
                    "invoke_list": [{"invoke_name": "k", "deploy_info_file": "f.json", "logic_device_list": "0:0:0"}],
                }
            ]
        },
    ],
    ids=lambda content: str(content)[:60],
)
def test_a_wrong_deployment_file_is_refused_at_the_first_feed(engine, tmp_path: pathlib.Path, content) -> None:
    data, graph = where(tmp_path, content)
    with pytest.raises(df.DfException, match=r"deploy\.json") as error:
        graph.feed({data: 1})
    assert error.value.error_code == 145000


def test_a_missing_deployment_file_is_named(engine, tmp_path: pathlib.Path) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([Where.fnode().go(data)], {DEPLOY: str(tmp_path / "none.json")})
    with pytest.raises(df.DfException, match=r"none\.json"):
        graph.feed({data: 1})


def test_a_deployment_may_use_aliases_and_the_old_form(engine, tmp_path: pathlib.Path, capsys) -> None:
    data = df.FlowData()
    first, second = df.pyflow(user.same).fnode(), Where.fnode().set_alias("placed")
    template = tmp_path / "template.json"
    df.utils.generate_deploy_template(df.FlowGraph([second.go(first(data))]), str(template))
    old = {"deploy_info": [{"flow_node_name": name, "logic_device_id": "0:0:1:0"} for name in ("same_fnode", "placed")]}
    for options, device in (({DEPLOY: str(template)}, 0), (deployed(tmp_path, old), 1)):
        graph = df.FlowGraph([df.dataflow.FlowOutput(second, 0)], options)
        assert graph.feed({data: 1}) == 0
        [(_, instance, count, running_on, _)], code = graph.fetch(timeout=5000)
        assert (instance, count, running_on, code) == (0, 1, device, 0)


def test_two_devices_two_instances(engine, tmp_path: pathlib.Path) -> None:
    data, graph = where(tmp_path, places(Where_fnode="0:0:0~1"))
    for number in range(1, 9):
        assert graph.feed({data: number}) == 0
    places_by_number = {}
    for _ in range(8):
        [result], code = graph.fetch(timeout=5000)
        assert code == 0 and result[2] == 2
        places_by_number[result[0]] = result[1:2] + result[3:]
    assert {number: instance for number, (instance, *_) in places_by_number.items()} == {
        n: (n - 1) % 2 for n in range(1, 9)
    }
    assert all(instance == device for instance, device, _ in places_by_number.values())
    if engine != "inline":
        assert len({pid for *_, pid in places_by_number.values()}) == 2


def test_a_deployment_file_given_to_init_counts_for_every_graph(engine, tmp_path: pathlib.Path) -> None:
    df.finalize()
    content = places(Where_fnode="0:0:0,0:0:1,0:0:2", of_another_graph="0:0:0")
    df.init({"softnpu.flow.engine": engine, **deployed(tmp_path, content)})
    data = df.FlowData()
    graph = df.FlowGraph([Where.fnode().go(data)])
    for number in range(3):
        assert graph.feed({data: number}) == 0
    assert sorted(graph.fetch(timeout=5000)[0][0][1:3] for _ in range(3)) == [(0, 3), (1, 3), (2, 3)]


def test_aligned_instances_give_back_their_order(engine, tmp_path: pathlib.Path) -> None:
    """Instances overtake each other; alignment brings the two halves of a request together again."""
    data = df.FlowData()
    paths = [df.pyflow(user.same).fnode()(data) for _ in range(2)]
    options = deployed(tmp_path, places(same_fnode="0:0:0~1", same_fnode_1="0:0:0~2", FlowNode="0:0:0"))
    graph = df.FlowGraph([node(user.Sum, 2, 1)(*paths)], options)
    graph.set_inputs_align_attrs(128, -1, False)
    for number in range(60):
        assert graph.feed_data({data: [number]}) == 0
    values = [user.value(graph.fetch_data(timeout=5000)) for _ in range(60)]
    assert sorted(values) == [[number, number, 0, 0] for number in range(60)]


@pytest.mark.parametrize(("keep", "devices"), [(True, [3, 1, 2]), (False, [1, 2, 3])])
def test_instances_follow_the_order_of_devices_that_was_asked_for(
    engine, tmp_path: pathlib.Path, keep, devices
) -> None:
    content = {**places(Where_fnode="0:0:3,0:0:1~2"), "keep_logic_device_order": keep}
    data, graph = where(tmp_path, content)
    for number in range(3):
        assert graph.feed({data: number}) == 0
    results = sorted(graph.fetch(timeout=5000)[0][0][1:4:2] for _ in range(3))
    assert [device for _, device in results] == devices


# ---- balance -------------------------------------------------------------------------------------------------------------

ROWS, COLS = 3, 4


class Scatter:
    """One request becomes a matrix of parts."""

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        number = int(input_flow_msgs[0].get_tensor().numpy()[0])
        config = ff.BalanceConfig(ROWS, COLS)
        config.set_data_pos([(row, col) for row in range(ROWS) for col in range(COLS)])
        parts = [np.array([number, row, col]) for row in range(ROWS) for col in range(COLS)]
        return run_context.set_multi_outputs(0, parts, config)


class Gather:
    """Sends each part on so that its row stays together, and writes down where the part was."""

    @ff.init_wrapper()
    def init_flow_func(self, meta_params):
        self.instance = meta_params.get_running_instance_id()
        self.policy = ff.AffinityPolicy(meta_params.get_attr_int("policy")[1])
        return 0

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        part = input_flow_msgs[0].get_tensor().numpy()
        config = ff.BalanceConfig(ROWS, COLS, self.policy)
        config.set_data_pos([(int(part[1]), int(part[2]))])
        return run_context.set_output(0, np.append(part, self.instance), config)


class Mark:
    """Adds its instance."""

    @ff.init_wrapper()
    def init_flow_func(self, meta_params):
        self.instance = meta_params.get_running_instance_id()
        return 0

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        part = input_flow_msgs[0].get_tensor().numpy()
        return run_context.set_output(0, np.append(part, self.instance))


@pytest.mark.parametrize("policy", [ff.AffinityPolicy.ROW_AFFINITY, ff.AffinityPolicy.COL_AFFINITY])
def test_balanced_parts_go_to_the_instance_of_their_row_or_column(engine, tmp_path: pathlib.Path, policy) -> None:
    data = df.FlowData()
    scatter, gather, last = node(Scatter, 1, 1), node(Gather, 1, 1, policy=int(policy)), node(Mark, 1, 1)
    scatter.set_balance_scatter()
    gather.set_balance_gather()
    options = deployed(tmp_path, places(FlowNode="0:0:0", FlowNode_1="0:0:0~1", FlowNode_2="0:0:0~1"))
    graph = df.FlowGraph([last(gather(scatter(data)))], options)
    requests = 5
    for number in range(requests):
        assert graph.feed_data({data: [number]}) == 0
    parts = [user.value(graph.fetch_data(timeout=5000)) for _ in range(requests * ROWS * COLS)]
    wanted = [[number, row, col] for number in range(requests) for row in range(ROWS) for col in range(COLS)]
    assert sorted(part[:3] for part in parts) == wanted
    line = 1 if policy == ff.AffinityPolicy.ROW_AFFINITY else 2
    for number in range(requests):
        mine = [part for part in parts if part[0] == number]
        assert {part[3] for part in mine} == {0, 1}  # the parts were spread over both
        instances = {key: {part[4] for part in mine if part[line] == key} for key in range((ROWS, COLS)[line - 1])}
        assert all(len(each) == 1 for each in instances.values())  # each line reached one
        assert set().union(*instances.values()) == {0, 1}


class Labels:
    """Three parts under each of two labels."""

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        for label in (1, 2, 1, 2, 2, 1):
            message = run_context.alloc_tensor_msg([1], np.int64)
            message.get_tensor().numpy()[0] = label
            message.set_route_label(label)
            run_context.set_output(0, message)
        return 0


def test_messages_with_a_label_stay_with_one_instance(engine, tmp_path: pathlib.Path) -> None:
    data = df.FlowData()
    first, second = node(Labels, 1, 1), node(Mark, 1, 1)
    options = deployed(tmp_path, places(FlowNode="0:0:0", FlowNode_1="0:0:0~1"))
    graph = df.FlowGraph([second(first(data))], options)
    for _ in range(2):
        assert graph.feed_data({data: [0]}) == 0
        labels = [tuple(user.value(graph.fetch_data(timeout=5000))) for _ in range(6)]
        assert len(set(labels)) == 2 and {label for label, _ in labels} == {1, 2} == {1 + place for _, place in labels}


class Refused:
    """The codes of balance configurations that do not fit, then one that does."""

    @ff.proc_wrapper("i0,o0,o1")
    def go(self, run_context, input_flow_msgs):
        codes = []
        for policy in ff.AffinityPolicy:
            config = ff.BalanceConfig(2, 2, policy)
            config.set_data_pos([(1, 1)])
            codes.append(run_context.set_output(1, np.zeros(1), config))
        for rows, cols, position in ((0, 1, (0, 0)), (257, 256, (0, 0)), (2, 2, (2, 0)), (2, 2, (0, -1))):
            config = ff.BalanceConfig(rows, cols)
            config.set_data_pos([position])
            codes.append(run_context.set_output(1, np.zeros(1), config))
        return run_context.set_output(0, np.array(codes))


@pytest.mark.parametrize("role", ["", "scatter", "gather"])
def test_messages_that_do_not_fit_the_balance_are_refused(engine, role) -> None:
    data = df.FlowData()
    flow_node = node(Refused, 1, 2)
    if role:
        getattr(flow_node, f"set_balance_{role}")()
    fits = {"": [], "scatter": [0], "gather": [1, 2]}[role]
    graph = df.FlowGraph(list(flow_node(data)))
    assert graph.feed_data({data: [0]}) == 0
    assert user.value(graph.fetch_data([0], 5000)) == [0 if index in fits else 164000 for index in range(7)]
    for _ in fits:
        assert user.value(graph.fetch_data([1], 5000)) == [0.0]
    assert graph.fetch_data([1], 0)[2] == user.EMPTY


# ---- devices, compiling --------------------------------------------------------------------------------------------------


def test_a_node_with_visible_devices_sees_its_own_as_number_0(engine, tmp_path: pathlib.Path, monkeypatch) -> None:
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)

    @df.pyflow(visible_device_enable=True, resources={"num_npus": 1})
    def visible(a):
        return os.environ.get("ASCEND_RT_VISIBLE_DEVICES"), df.get_running_device_id()

    data = df.FlowData()
    graph = df.FlowGraph([visible.fnode()(data)], deployed(tmp_path, places(visible_fnode="0:0:3")))
    assert graph.feed({data: 0}) == 0
    [(variable, device)], code = graph.fetch(timeout=5000)
    assert (device, code) == (0, 0)
    if engine == "ray":
        assert variable.isdigit()  # Ray hands out devices itself
    else:
        assert variable == (None if engine == "inline" else "3")  # one process has one environment
    assert "ASCEND_RT_VISIBLE_DEVICES" not in os.environ


def test_a_graph_that_is_only_compiled_runs_nothing(engine, tmp_path: pathlib.Path) -> None:
    note = tmp_path / "ran"

    @df.pyflow
    class Ran:
        def __init__(self):
            note.touch()

        @df.method()
        def go(self, a):
            return a

    data = df.FlowData()
    graph = df.FlowGraph([Ran.fnode().go(data)], {"ge.runFlag": "0"})
    assert graph.feed({data: 1}) == 0 and graph.feed({data: 1}) == 0
    assert graph.fetch(timeout=0) == ([], FAILED) and not note.exists()
    wrong = df.FlowGraph([Ran.fnode().go(data)], {"ge.runFlag": "0", **deployed(tmp_path, places(other="0:0:0"))})
    with pytest.raises(df.DfException):
        wrong.feed({data: 1})
