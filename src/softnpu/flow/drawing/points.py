"""Process points: the work inside a node."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from softnpu.flow import log
from softnpu.flow.drawing import naming, project, workspace
from softnpu.flow.drawing.nodes import FlowNode
from softnpu.flow.drawing.process_point import MODEL, NodeBody, NodePorts, Plannable, ProcessPoint
from softnpu.flow.errors import DfException
from softnpu.flow.functions import work
from softnpu.flow.models.source import ModelSource
from softnpu.flow.plan import UDF_LOADER, BodySpec, Function, Plan
from softnpu.flow.values.dtypes import DType


class Framework(enum.Enum):
    """Where a model file comes from."""

    TENSORFLOW = 1
    ONNX = 2
    MINDSPORE = 3


class GraphProcessPoint(ProcessPoint):
    """A model file."""

    _kind = MODEL

    def __init__(
        self,
        framework: Framework,
        graph_file: str,
        load_params: dict[str, str] | None = None,
        compile_config_path: str = "",
        name: str | None = None,
    ) -> None:
        if not isinstance(framework, Framework):
            raise DfException(f"framework is a df.Framework, not {framework!r}.")
        super().__init__(compile_config_path, name)
        self.framework = framework
        self.graph_file = graph_file
        self.load_params = load_params or {}

    def fnode(self, input_num: int, output_num: int, name: str | None = None) -> FlowNode:
        """A node that runs this model."""
        node = FlowNode(input_num, output_num, name)
        node.add_process_point(self)
        return node

    def _models(self, options: Mapping[str, str], ports: NodePorts | None = None) -> dict[str, ModelSource]:
        source = ModelSource(
            framework=self.framework.value,
            path=str(self.graph_file),
            name=self.name,
            load_params=self.load_params,
            config_path=self.compile_config_path or "",
            options=options,
        )
        if ports is not None:
            inputs, outputs = ports.inverse("input"), ports.inverse("output")
            source = replace(
                source, input_num=ports.input_num, output_num=ports.output_num, inputs=inputs, outputs=outputs
            )
        return {"": source}

    def _body(self, ports: NodePorts, models: Mapping[str, BodySpec]) -> NodeBody:
        return NodeBody((ports.whole(),), models[""])

    def _closure(self, model: BodySpec | None) -> BodySpec:
        """What a function runs by key: its model, compiled."""
        assert model is not None, "every model was compiled"
        return model

    def _small_print(self, node: str) -> list[str]:
        return [f"{self.framework.name} {Path(str(self.graph_file)).name}"]


class FlowGraphProcessPoint(ProcessPoint):
    """A nested graph, for functions that invoke it."""

    _makes_a_node = False

    def __init__(self, flow_graph: Plannable, compile_config_path: str = "", name: str | None = None) -> None:
        if not isinstance(flow_graph, Plannable):
            raise DfException(f"flow_graph is a df.FlowGraph, not {type(flow_graph).__name__}.")
        if flow_graph.started:
            raise DfException(f"Graph {flow_graph.name} was already fed; only a fresh graph can be nested.")
        super().__init__(compile_config_path, name)
        self.flow_graph = flow_graph

    def _closure(self, model: BodySpec | None) -> Plan:
        """What a function runs by key: the graph, planned."""
        return self.flow_graph.plan(nested=True)


class FuncProcessPoint(ProcessPoint):
    """User code: a class with wrapped methods, what `pyflow` made, or a project described by a JSON file."""

    def __init__(
        self,
        compile_config_path: str | None = None,
        name: str | None = None,
        py_func: Any = None,
        workspace_dir: str | None = None,
    ) -> None:
        super().__init__(compile_config_path, name)
        self.py_func = py_func
        self.workspace_dir = workspace_dir
        self.init_params: dict[str, Any] = {}
        self.closures: dict[str, GraphProcessPoint | FlowGraphProcessPoint] = {}
        self.work: work.Work | None = self._work()
        if self.work is not None and py_func is not None:
            workspace.write_if_asked(self.work, workspace_dir)

    def _work(self) -> work.Work | None:
        if self.py_func is None:
            return project.read(self.compile_config_path) if self.compile_config_path else None
        maker = getattr(self.py_func, "_flow_work", None)
        if maker is not None:
            node_work: work.Work = maker()
            return node_work
        if not isinstance(self.py_func, type):
            raise TypeError(f"py_func is a class or what df.pyflow made, not {type(self.py_func).__name__}")
        return work.of_class(self.py_func)

    @property
    def functions(self) -> tuple[Function, ...]:
        """Its functions, with the process point's own indexes."""
        return self.work.functions if self.work is not None else ()

    _functions = functions

    def set_init_param(self, name: str, value: Any) -> None:
        """A value that the user code reads with `get_attr_…` when it is initialised."""
        naming.check(name, "parameter")
        if not _is_parameter(value):
            raise TypeError(
                f"parameter {name}: str, int, float, bool, a df.DT_… type, a list of one of these or a list of lists of int "
                f"is expected, not {value!r}"
            )
        self.init_params[name] = value

    def add_invoked_closure(self, graph_key: str, pp: GraphProcessPoint | FlowGraphProcessPoint) -> FuncProcessPoint:
        """A model or graph that the user code runs by its key."""
        naming.check(graph_key, "closure")
        if not isinstance(pp, GraphProcessPoint | FlowGraphProcessPoint):
            raise DfException(f"A closure is a GraphProcessPoint or FlowGraphProcessPoint, not {type(pp).__name__}.")
        if graph_key in self.closures:
            raise DfException(f"{self.name} already has a closure {graph_key!r}.")
        self.closures[graph_key] = pp
        return self

    def _models(self, options: Mapping[str, str], ports: NodePorts | None = None) -> dict[str, ModelSource]:
        return {key: source for key, pp in self.closures.items() for source in pp._models(options).values()}

    def _body(self, ports: NodePorts, models: Mapping[str, BodySpec]) -> NodeBody | None:
        node_work = self.work
        if node_work is None:
            return None
        inputs, outputs = ports.indexes("input", node_work.input_num), ports.indexes("output", node_work.output_num)
        functions = tuple(
            replace(each, inputs=tuple(inputs[i] for i in each.inputs), outputs=tuple(outputs[i] for i in each.outputs))
            for each in node_work.functions
        )
        if (self.closures or self.init_params) and node_work.loader != UDF_LOADER:
            log.warning(
                "node %s: a decorated function has no context, so its closures and parameters are of no use", ports.node
            )
        data = {
            **node_work.data,
            "functions": node_work.functions,
            "output_map": outputs,
            "attributes": dict(self.init_params),
            "closures": {key: pp._closure(models.get(key)) for key, pp in self.closures.items()},
        }
        return NodeBody(functions, BodySpec(node_work.loader, data), node_work.resources, node_work.visible_device)

    def _small_print(self, node: str) -> list[str]:
        names = [function.name + (" (stream)" if function.stream else "") for function in self.functions]
        lines = [", ".join(names)] if names and names != [node] else []
        return lines + [f"calls {key}" for key in self.closures]


_SCALARS = (str, int, float, bool, DType)


def _is_parameter(value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return isinstance(value, _SCALARS)
    if all(isinstance(item, list | tuple) for item in value):
        return all(type(number) is int for item in value for number in item)
    kinds = {type(item) for item in value}
    return len(kinds) == 1 and isinstance(value[0], _SCALARS)
