"""Building graphs: init, names, nodes, outputs."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

import dataflow as df
from softnpu.flow.plan import CountRule, Port, TimeRule
from tests.dataflow.face.support import code_of


@df.pyflow
def one(a):
    return a


@df.pyflow
def two(a, b):
    return a


@df.pyflow(num_returns=6)
def six(a):
    return (a,) * 6


def test_init_checks_its_options_and_comes_before_graphs() -> None:
    df.finalize()
    with pytest.raises(TypeError):
        df.init()
    for bad in (None, [], "x", {"a": 1}, {1: "a"}):
        with pytest.raises(df.DfException) as error:
            df.init(bad)
        assert code_of(error) == 145000
    data = df.FlowData()
    with pytest.raises(df.DfException) as error:
        df.FlowGraph([one.fnode()(data)])
    assert code_of(error) == 145001


def test_second_init_is_ignored() -> None:
    df.finalize()
    options = {"ge.exec.deviceId": "0"}
    df.init(options)
    assert options["ge.graphRunMode"] == "0"
    df.init({"ge.exec.deviceId": "1"})
    assert df.dataflow._global_options is options
    df.finalize()
    df.finalize()
    assert df.dataflow._global_options is None


def test_names_count_from_the_start_after_finalize(flow) -> None:
    def names():
        return [
            df.FlowNode(1, 1).name,
            df.FlowNode(1, 1).name,
            df.FlowData().name,
            df.FlowData().name,
            one.fnode().name,
        ]

    expected = ["FlowNode", "FlowNode_1", "FlowData", "FlowData_1", "one_fnode"]
    assert names() == expected
    df.finalize()
    df.init({})
    assert names() == expected


def test_names_are_unique_whatever_is_asked(flow) -> None:
    got = [df.FlowNode(1, 1, name=name).name for name in ("x", "x", "x_1", "x", "x_2")]
    assert got[:2] == ["x", "x_1"] and len(set(got)) == 5
    assert df.FlowData(name="x").name == "x"


def test_names_from_any_thread(flow) -> None:
    names: list[str] = []
    threads = [
        threading.Thread(target=lambda: names.extend(df.FlowNode(1, 1).name for _ in range(50))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == len(set(names)) == 400


def test_a_node_is_called_with_its_inputs_and_gives_its_outputs(flow) -> None:
    data = df.FlowData()
    assert df.FlowNode(1, 0)(data) is None
    assert isinstance(df.FlowNode(1, 1)(data), df.dataflow.FlowOutput)
    many = df.FlowNode(1, 3)(data)
    assert isinstance(many, tuple) and [output.index for output in many] == [0, 1, 2]
    node = df.FlowNode(2, 1)
    for arguments in ((data,), (data, data, data), (data, 3), (data, None)):
        with pytest.raises(df.DfException) as error:
            node(*arguments)
        assert code_of(error) == 145000
    output = node(data, data)
    with pytest.raises(df.DfException) as error:
        node(data, output)
    assert code_of(error) == 145000 and node.name in str(error.value)


def test_flow_data_refuses_a_wrong_class_or_schema(flow) -> None:
    for arguments in ({"data_cls": int}, {"schema": [1]}, {"schema": df.DT_FLOAT}):
        with pytest.raises(df.DfException):
            df.FlowData(**arguments)


def test_a_node_maps_only_its_own_ports_and_points(flow) -> None:
    node, point = df.FlowNode(2, 2), df.GraphProcessPoint(df.Framework.ONNX, "x.onnx")
    with pytest.raises(df.DfException):
        node.map_input(0, point, 0)  # not added yet
    node.add_process_point(point)
    for call in (node.map_input, node.map_output):
        for index in (2, -1, "0"):
            with pytest.raises(df.DfException) as error:
                call(index, point, 0)
            assert code_of(error) == 145000
        assert call(1, point, 0) is node
    for attrs in ([1], [df.TimeBatch(1), df.CountBatch(1)]):
        with pytest.raises(df.DfException):
            node.map_input(0, point, 1, attrs)
    for bad in (1, None, df.FlowNode(1, 1)):
        with pytest.raises(df.DfException):
            node.add_process_point(bad)


def test_batches_have_defaults_and_refuse_other_types() -> None:
    assert (df.TimeBatch().time_window, df.TimeBatch().batch_dim, df.TimeBatch().drop_remainder) == (0, -1, False)
    count = df.CountBatch(4, 1, 10, True)
    assert (count.batch_size, count.slide_stride, count.timeout, count.padding) == (4, 1, 10, True)
    for make in (
        lambda: df.TimeBatch("1"), lambda: df.TimeBatch(1, 0.5), lambda: df.TimeBatch(1, 0, 1),
        lambda: df.CountBatch(1.0), lambda: df.CountBatch(1, "0"), lambda: df.CountBatch(1, 0, None),
        lambda: df.CountBatch(1, 0, 0, 1),
    ):  # fmt: skip
        with pytest.raises(df.DfException) as error:
            make()
        assert code_of(error) == 145000 and isinstance(error.value, TypeError)


def test_an_alias_is_unique_among_names_and_aliases(flow) -> None:
    first, second = df.FlowNode(1, 1, "first"), df.FlowNode(1, 1, "second")
    assert first.set_alias("nice") is first and first.alias == "nice"
    assert first.set_alias("first").alias == "first"
    second.set_alias("nice")  # free again
    for name in ("first", "nice"):
        with pytest.raises(ValueError):
            df.FlowNode(1, 1).set_alias(name)
    assert df.FlowNode(1, 1, "after").name == "after"


def test_outputs_keep_the_order_of_the_list(stub) -> None:
    o = df.FlowNode(1, 6)(df.FlowData())
    graph = df.FlowGraph([o[2], o[1], o[0], o[0], o[5], o[3], o[0]])
    assert graph._output_idx_mapping == [4, 3, 0, 1, 6, 5, 2]


def test_outputs_of_several_nodes(flow) -> None:
    data = df.FlowData()
    a, b = six.fnode()(data), six.fnode()(data)
    graph = df.FlowGraph([b[1], a[0], b[0], a[0]])
    plan = graph.plan()
    ports = [plan.outputs[index] for index in graph._output_idx_mapping]
    names = [(plan.nodes[port.node].name, port.index) for port in ports]
    assert names == [("six_fnode_1", 1), ("six_fnode", 0), ("six_fnode_1", 0), ("six_fnode", 0)]
    assert [port.index for port in plan.outputs] == [0, 1, 0, 0]  # grouped by node, first appearance


def test_inputs_are_sorted_by_name(flow) -> None:
    datas = [df.FlowData() for _ in range(12)]
    out = datas[0]
    for data in datas[1:]:
        out = two.fnode()(out, data)
    graph = df.FlowGraph([out])
    assert [data.name for data in graph._input_datas] == sorted(data.name for data in datas)
    assert [data.name for data in graph._input_datas].index("FlowData_10") == 2


def test_a_graph_refuses_what_are_no_outputs_or_options(flow) -> None:
    output = one.fnode()(df.FlowData())
    for bad in ((output,), output, [1], None, [None]):
        with pytest.raises(df.DfException) as error:
            df.FlowGraph(bad)
        assert code_of(error) == 145000
    with pytest.raises(df.DfException):
        df.FlowGraph([output], {"ge.runFlag": 0})


def test_unconnected_input_is_told_at_construction(flow) -> None:
    node = two.fnode()
    with pytest.raises(df.DfException) as error:
        df.FlowGraph([df.dataflow.FlowOutput(node, 0)])
    assert code_of(error) == 145000 and "Input 0 of node two_fnode" in str(error.value)


def test_cycle_is_told_at_construction(flow) -> None:
    a, b = two.fnode(), one.fnode()
    data = df.FlowData()
    a(data, b(a(data, data)))
    with pytest.raises(df.DfException, match=r"cycle.*two_fnode.*one_fnode") as error:
        df.FlowGraph([df.dataflow.FlowOutput(a, 0)])
    assert code_of(error) == 145000


def test_node_without_work_is_told_at_the_first_feed(flow) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([df.FlowNode(1, 1)(data)])
    with pytest.raises(df.DfException, match="FlowNode has no process point"):
        graph.feed({data: 1})


def test_stub_takes_nodes_without_work(stub) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([df.FlowNode(1, 1)(data)])
    assert graph.feed({data: 1}) == 0 and graph.feed_data({data: [1]}) == 0


def test_counts_have_to_agree(flow) -> None:
    point = df.FuncProcessPoint(py_func=two)
    node, data = df.FlowNode(1, 1), df.FlowData()
    node.add_process_point(point)
    graph = df.FlowGraph([node(data)])
    with pytest.raises(df.DfException, match="1 inputs, its process point 2"):
        graph.feed({data: 1})


def test_setters_of_the_graph_check_and_reach_the_plan(flow) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([one.fnode()(data)])
    for cache, timeout in ((-1, 1), (1025, 1), (1, 0), (1, 600001), (1, -2), ("1", 1)):
        with pytest.raises(df.DfException) as error:
            graph.set_inputs_align_attrs(cache, timeout)
        assert code_of(error) == 145000
    graph.set_inputs_align_attrs(1024, -1, True)
    graph.set_exception_catch(True)
    graph.set_contains_n_mapping_node(True)
    plan = graph.plan()
    assert (plan.align.cache, plan.align.timeout, plan.align.dropout, plan.catch, plan.n_mapping) == (
        1024,
        -1,
        True,
        True,
        True,
    )
    assert graph.feed({data: 1}) == 0
    for call in (
        lambda: graph.set_inputs_align_attrs(1, 1),
        lambda: graph.set_exception_catch(True),
        lambda: graph.set_contains_n_mapping_node(True),
    ):
        with pytest.raises(df.DfException) as error:
            call()
        assert code_of(error) == 145000


def test_the_deployment_template_lists_every_node_by_its_alias(flow, tmp_path: pathlib.Path, capsys) -> None:
    data = df.FlowData()
    first, second = one.fnode(), one.fnode().set_alias("last")
    graph = df.FlowGraph([second(first(data))])
    path = tmp_path / "deploy.json"
    assert df.utils.generate_deploy_template(graph, str(path)) is None
    text = path.read_text()
    content = json.loads(text)
    assert content == {
        "batch_deploy_info": [
            {"flow_node_list": ["last"], "logic_device_list": "0:0:0:0"},
            {"flow_node_list": ["one_fnode"], "logic_device_list": "0:0:0:0"},
        ]
    }
    assert '\n    "batch_deploy_info"' in text and str(path) in capsys.readouterr().out
    deployed = df.FlowGraph([second(first(data))], {"ge.experiment.data_flow_deploy_info_path": str(path)})
    assert [len(node.instances) for node in deployed.plan().nodes] == [1, 1]


def test_attributes_reach_the_plan(flow) -> None:
    data = df.FlowData()
    point = df.FuncProcessPoint(py_func=two)
    node = df.FlowNode(2, 1)
    node.add_process_point(point)
    node.map_input(1, point, 0, [df.CountBatch(3, 1, 5, True)])
    node.map_input(0, point, 1, [df.TimeBatch(-1, 0)])
    node.set_attr("_flow_attr_depth", 7)
    node.set_attr("_flow_attr_enqueue_policy", "OVERWRITE")
    node.set_balance_gather()
    node.set_balance_scatter()  # too late
    node.set_alias("it")
    planned = df.FlowGraph([node(data, data)]).plan().nodes[0]
    assert planned.batches == {1: CountRule(3, 1, 5, True), 0: TimeRule(-1, 0)}
    assert (planned.depth, planned.overwrite, planned.balance, planned.alias) == (7, True, "gather", "it")
    assert planned.functions[0].inputs == (1, 0)
    node.set_attr("_flow_attr", False)
    plain = df.FlowGraph([df.dataflow.FlowOutput(node, 0)]).plan().nodes[0]
    assert (plain.depth, plain.overwrite) == (128, False)
    for value in (1.5, None, [1]):
        with pytest.raises(TypeError):
            node.set_attr("x", value)
    for name, value in (("_flow_attr_depth", 0), ("_flow_attr_enqueue_policy", "LIFO")):
        with pytest.raises(df.DfException):
            node.set_attr(name, value)


def test_the_plan_has_every_edge_of_the_drawing(flow) -> None:
    data = df.FlowData()
    first = one.fnode()
    mid = first(data)
    plan = df.FlowGraph([two.fnode()(mid, data), mid]).plan()
    names = [node.name for node in plan.nodes]
    a, b = names.index("one_fnode"), names.index("two_fnode")
    assert set(plan.edges[Port(-1, 0)]) == {Port(a, 0), Port(b, 1)}
    assert plan.edges[Port(a, 0)] == (Port(b, 0),)
    assert plan.outputs == (Port(b, 0), Port(a, 0))


def test_the_import_loads_no_heavy_library() -> None:
    code = (
        "import sys, dataflow, dataflow.flow_func, dataflow.plugin;"
        "heavy = {'cloudpickle', 'jinja2', 'torch', 'onnx', 'onnxruntime', 'rich', 'ray', 'ml_dtypes'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_public_names_are_those_of_the_manual() -> None:
    expected = {
        "utils",
        "DT_BOOL",
        "DT_DOUBLE",
        "DT_FLOAT",
        "DT_FLOAT16",
        "DT_INT8",
        "DT_INT16",
        "DT_INT32",
        "DT_INT64",
        "DT_STRING",
        "DT_UINT8",
        "DT_UINT16",
        "DT_UINT32",
        "DT_UINT64",
        "CountBatch",
        "FlowData",
        "FlowFlag",
        "FlowGraph",
        "FlowGraphProcessPoint",
        "FlowInfo",
        "FlowNode",
        "Framework",
        "FuncProcessPoint",
        "GraphProcessPoint",
        "Tensor",
        "TensorDesc",
        "TimeBatch",
        "alloc_tensor",
        "finalize",
        "init",
        "npu_model",
        "method",
        "pyflow",
        "msg_type_register",
        "DfAbortException",
        "DfException",
        "get_running_device_id",
        "get_running_instance_id",
        "get_running_instance_num",
    }
    assert set(df.__all__) == expected
    for name in expected - {"npu_model"}:
        assert hasattr(df, name), name
    assert callable(df.pyflow) and sys.modules["dataflow.pyflow"].pyflow is df.pyflow
    assert [(each.name, each.value) for each in df.Framework] == [("TENSORFLOW", 1), ("ONNX", 2), ("MINDSPORE", 3)]


def test_the_environment_chooses_the_engine(monkeypatch) -> None:
    df.finalize()
    monkeypatch.setenv("SOFTNPU_FLOW_ENGINE", "stub")
    df.init({})
    data = df.FlowData()
    assert df.FlowGraph([df.FlowNode(1, 1)(data)]).feed_data({data: np.zeros(2)}) == 0
    monkeypatch.setenv("SOFTNPU_FLOW_ENGINE", "nothing")
    with pytest.raises(df.DfException, match="SOFTNPU_FLOW_ENGINE"):
        df.FlowGraph([df.FlowNode(1, 1)(data)])
    df.finalize()
