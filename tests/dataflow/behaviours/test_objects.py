"""The user's objects inside nodes: state, hooks, parameters, messages, on every engine."""

from __future__ import annotations

import os

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from tests.dataflow.behaviours import support as user
from tests.dataflow.behaviours.support import EMPTY, node


def test_state_lives_in_a_process_of_its_own(engine) -> None:
    @df.pyflow
    class Counter:
        made = 0

        def __init__(self, start):
            type(self).made += 1
            self.count = start

        @df.method()
        def go(self, a):
            self.count += a
            return self.count, os.getpid(), self.made

    a = df.FlowData()
    first, second = Counter.fnode(0), Counter.fnode(100)
    graph = df.FlowGraph([first.go(a), second.go(a)])
    for number in (1, 2, 3):
        assert graph.feed({a: 1}) == 0
        [one_state, other_state], code = graph.fetch(timeout=5000)
        assert (code, one_state[0], other_state[0]) == (0, number, 100 + number)
    if engine != "inline":
        assert len({os.getpid(), one_state[1], other_state[1]}) == 3 and one_state[2] == other_state[2] == 1


def test_the_environment_hook_runs_before_the_object_is_unpickled(engine, monkeypatch) -> None:
    monkeypatch.setenv("SET_BY_THE_HOOK", "to be restored")
    monkeypatch.delenv("SET_BY_THE_HOOK")

    def hook():
        os.environ["SET_BY_THE_HOOK"] = "hooked"

    @df.pyflow(env_hook_func=hook)
    class Seen:
        def __init__(self, unpickled):
            self.unpickled = unpickled

        @df.method()
        def go(self, a):
            return self.unpickled

    data = df.FlowData()
    graph = df.FlowGraph([Seen.fnode(user.Environment("SET_BY_THE_HOOK")).go(data)])
    assert graph.feed({data: 0}) == 0 and graph.fetch(timeout=5000) == (["hooked"], 0)
    assert engine == "inline" or "SET_BY_THE_HOOK" not in os.environ


def test_an_object_knows_its_device_and_instance_only_inside_a_node(engine) -> None:
    @df.pyflow
    class Where:
        def __init__(self):
            self.before = df.get_running_device_id()

        @df.method()
        def go(self, a):
            return self.before, df.get_running_device_id(), df.get_running_instance_id(), df.get_running_instance_num()

    data = df.FlowData()
    graph = df.FlowGraph([Where.fnode().go(data)])
    assert graph.feed({data: 0}) == 0 and graph.fetch(timeout=5000) == ([(0, 0, 0, 1)], 0)
    for ask in (df.get_running_device_id, df.get_running_instance_id, df.get_running_instance_num):
        assert ask() is None


class Parameters:
    """Shows what it was told at its start."""

    @ff.init_wrapper()
    def init_flow_func(self, meta_params):
        self.codes = [
            meta_params.get_attr_int("number")[0],
            meta_params.get_attr_int("missing")[0],
            meta_params.get_attr_int("text")[0],
            meta_params.get_attr_str("text")[0],
            meta_params.get_attr_int_list_list("lists")[1][1][1],
            int(meta_params.get_attr_tensor_dtype("dtype")[1] is np.float32),
            meta_params.get_attr_tensor_dtype("number")[0],
            meta_params.get_input_num(),
            meta_params.get_output_num(),
            meta_params.get_running_instance_num(),
            len(meta_params.get_name()),
        ]
        return 0

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        return run_context.set_output(0, np.array(self.codes))


def test_init_parameters_reach_the_function_with_their_types(engine) -> None:
    data = df.FlowData()
    flow_node = node(Parameters, 1, 1, number=3, text="t", lists=[[1], [2, 33]], dtype=df.DT_FLOAT)
    graph = df.FlowGraph([flow_node(data)])
    assert graph.feed_data({data: [0]}) == 0
    wanted = [0, 164001, 164002, 0, 33, 1, 164001, 1, 1, 1, len(flow_node.name)]
    assert user.value(graph.fetch_data(timeout=5000)) == wanted


class Refuses:
    """Cannot be set up."""

    @ff.init_wrapper()
    def init_flow_func(self, meta_params):
        return 9900005

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        return 0


def test_failed_start_is_told_at_the_first_feed(engine) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([node(Refuses, 1, 1)(data)])
    for _ in range(2):
        with pytest.raises(df.DfException, match="9900005"):
            graph.feed_data({data: [0]})


class Sends:
    """What set_output answers: one object to two outputs and twice to one; no object; no such output."""

    @ff.proc_wrapper("i0,o0,o1,o2")
    def go(self, run_context, input_flow_msgs):
        message = run_context.alloc_tensor_msg([1], df.DT_INT32)
        message.get_tensor().numpy()[0] = 7
        codes = [
            run_context.set_output(0, message),
            run_context.set_output(0, message),
            run_context.set_output(1, message),
            run_context.set_output(1, None),
            run_context.set_output(2, message),
            run_context.set_output(3, message),
        ]
        return run_context.set_output(1, np.array(codes))


def test_messages_can_be_sent_again(engine) -> None:
    data = df.FlowData()
    first, second, _ = node(Sends, 1, 3)(data)  # nobody takes the third output: it drops what it gets
    graph = df.FlowGraph([first, second])
    assert graph.feed_data({data: [0]}) == 0
    assert [user.value(graph.fetch_data([0], 5000)) for _ in range(2)] == [[7], [7]]
    assert user.value(graph.fetch_data([1], 5000)) == [7]
    assert user.value(graph.fetch_data([1], 5000)) == [0, 0, 0, 0, 0, 164000]
    assert graph.fetch_data([0], 0)[2] == EMPTY
