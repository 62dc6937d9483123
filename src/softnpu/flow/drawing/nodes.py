"""What a program draws a graph with: inputs, nodes, and the attributes of their connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from softnpu.flow import log
from softnpu.flow.drawing import naming
from softnpu.flow.drawing.process_point import NodePorts, ProcessPoint
from softnpu.flow.errors import DfException, DfTypeError
from softnpu.flow.plan import CountRule, Function, TimeRule
from softnpu.flow.values.tensor import Tensor, TensorDesc

ATTR_FLOW = "_flow_attr"
ATTR_DEPTH = "_flow_attr_depth"
ATTR_POLICY = "_flow_attr_enqueue_policy"
_ATTRIBUTES = (ATTR_FLOW, ATTR_DEPTH, ATTR_POLICY, "_flow_attr_flow_node_alias")
POLICIES = ("FIFO", "OVERWRITE")


def _typed(owner: str, name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise DfTypeError(f"{owner}: {name} is of type {kind.__name__}, not {type(value).__name__} ({value!r}).")


class TimeBatch:
    """Collect messages of an input over a span of time."""

    def __init__(self, time_window: int = 0, batch_dim: int = -1, drop_remainder: bool = False) -> None:
        _typed("TimeBatch", "time_window", time_window, int)
        _typed("TimeBatch", "batch_dim", batch_dim, int)
        _typed("TimeBatch", "drop_remainder", drop_remainder, bool)
        self.time_window = time_window
        self.batch_dim = batch_dim
        self.drop_remainder = drop_remainder

    def rule(self) -> TimeRule:
        """As the plan has it, with the values that the attributes have by then."""
        return TimeRule(self.time_window, self.batch_dim, self.drop_remainder)


class CountBatch:
    """Collect a number of messages of an input."""

    def __init__(self, batch_size: int = 0, slide_stride: int = 0, timeout: int = 0, padding: bool = False) -> None:
        _typed("CountBatch", "batch_size", batch_size, int)
        _typed("CountBatch", "slide_stride", slide_stride, int)
        _typed("CountBatch", "timeout", timeout, int)
        _typed("CountBatch", "padding", padding, bool)
        self.batch_size = batch_size
        self.slide_stride = slide_stride
        self.timeout = timeout
        self.padding = padding

    def rule(self) -> CountRule:
        """As the plan has it, with the values that the attributes have by then."""
        return CountRule(self.batch_size, self.slide_stride, self.timeout, self.padding)


class FlowData:
    """One input of a graph, fed by the application."""

    def __init__(self, data_cls: type = Tensor, schema: TensorDesc | None = None, name: str | None = None) -> None:
        if data_cls is not Tensor:
            raise DfException(f"FlowData: data_cls can only be df.Tensor, not {data_cls!r}.")
        if schema is not None and type(schema) is not TensorDesc:
            raise DfException(f"FlowData: schema is a df.TensorDesc, not {type(schema).__name__}.")
        self._schema = schema
        self.name = naming.others.make(naming.check(name, "FlowData") if name is not None else "FlowData")

    def __repr__(self) -> str:
        return f"FlowData(name={self.name!r})"


class FlowOutput:
    """One output of a node."""

    def __init__(self, node: FlowNode, index: int) -> None:
        self.node = node
        self.index = index

    def __repr__(self) -> str:
        return f"FlowOutput(node={self.node.name!r}, index={self.index})"


Source = FlowData | FlowOutput


class FlowNode:
    """A place of work with fixed numbers of inputs and outputs."""

    def __init__(self, input_num: int, output_num: int, name: str | None = None) -> None:
        for what, value in (("input_num", input_num), ("output_num", output_num)):
            if not isinstance(value, int) or value < 0:
                raise DfException(f"FlowNode: {what} is a number from 0, not {value!r}.")
        self.input_num = input_num
        self.output_num = output_num
        self.name = naming.nodes.make(naming.check(name, "FlowNode") if name is not None else "FlowNode")
        self.alias = ""
        self.attributes: dict[str, bool | int | str] = {}
        self.balance = ""
        self.point: ProcessPoint | None = None
        self.on_device = False
        self.batches: dict[int, TimeBatch | CountBatch] = {}
        self.rewired = ""  # says so where an input was connected twice, to different sources
        self._input_anchors: list[Source | None] = [None] * input_num
        self._output_anchors = [FlowOutput(self, index) for index in range(output_num)]
        self._input_map: dict[int, int] = {}  # process point's index → the node's
        self._output_map: dict[int, int] = {}

    def __call__(self, *inputs: Source) -> Any:
        """Connect all inputs; gives None, the output, or a tuple of outputs."""
        if len(inputs) != self.input_num:
            raise DfException(f"Node {self.name} has {self.input_num} inputs, but {len(inputs)} were given.")
        return self._connect(range(self.input_num), inputs, range(self.output_num))

    def _connect(self, indexes: Sequence[int], inputs: Sequence[Source], outputs: Sequence[int]) -> Any:
        for index, source in zip(indexes, inputs, strict=True):
            if not isinstance(source, FlowData | FlowOutput):
                raise DfException(f"Input {index} of node {self.name} is {_no_source(source)}.")
            if isinstance(source, FlowOutput) and source.node is self:
                raise DfException(f"Input {index} of node {self.name} would be its own output {source.index}.")
        for index, source in zip(indexes, inputs, strict=True):
            before = self._input_anchors[index]
            if before not in (None, source):
                self.rewired = f"input {index} of node {self.name} was connected to {before!r}, then to {source!r}"
            self._input_anchors[index] = source
        chosen = [self._output_anchors[index] for index in outputs]
        return None if not chosen else chosen[0] if len(chosen) == 1 else tuple(chosen)

    def add_process_point(self, pp: ProcessPoint) -> None:
        """Give the node its work."""
        if not isinstance(pp, ProcessPoint) or not pp._makes_a_node:
            raise DfException(
                f"Node {self.name}: a process point is a FuncProcessPoint or a GraphProcessPoint, not {type(pp).__name__}; "
                "a nested graph is attached to a FuncProcessPoint with add_invoked_closure."
            )
        if self.point is not None and self.point is not pp:
            raise DfException(f"Node {self.name} already has the process point {self.point.name}; a node has only one.")
        self.point = pp

    def map_input(
        self,
        node_input_index: int,
        pp: ProcessPoint,
        pp_input_index: int,
        input_attrs: Sequence[TimeBatch | CountBatch] | None = None,
    ) -> FlowNode:
        """Which input of the process point an input of the node is, and how its messages are batched."""
        self._check_map("input", node_input_index, self.input_num, pp, pp_input_index)
        attrs = [] if input_attrs is None else list(input_attrs)
        for attr in attrs:
            if not isinstance(attr, TimeBatch | CountBatch):
                raise DfException(f"input_attrs holds TimeBatch or CountBatch, not {type(attr).__name__}.")
        if len(attrs) > 1:
            raise DfException(
                f"Input {node_input_index} of node {self.name} can have one batch attribute, not {len(attrs)}."
            )
        self._input_map[pp_input_index] = node_input_index
        if attrs:
            self.batches[node_input_index] = attrs[0]
        return self

    def map_output(self, node_output_index: int, pp: ProcessPoint, pp_output_index: int) -> FlowNode:
        """Which output of the process point an output of the node is."""
        self._check_map("output", node_output_index, self.output_num, pp, pp_output_index)
        self._output_map[pp_output_index] = node_output_index
        return self

    def _check_map(self, what: str, index: int, count: int, pp: ProcessPoint, pp_index: int) -> None:
        if not isinstance(index, int) or not 0 <= index < count:
            raise DfException(f"Node {self.name} has {count} {what}s; there is no {what} {index!r}.")
        if self.point is None or pp is not self.point:
            raise DfException(
                f"Node {self.name}: add the process point with add_process_point before its {what}s are mapped."
            )
        if not isinstance(pp_index, int) or pp_index < 0:
            raise DfException(f"Node {self.name}: {pp_index!r} is no {what} index of a process point.")

    def set_balance_scatter(self) -> None:
        """The node splits requests over the instances of the next one."""
        self._set_balance("scatter")

    def set_balance_gather(self) -> None:
        """The node collects the parts of requests."""
        self._set_balance("gather")

    def _set_balance(self, role: str) -> None:
        if self.balance and self.balance != role:
            log.warning("node %s already balances by %s; %s is ignored", self.name, self.balance, role)
            return
        self.balance = role

    def set_attr(self, name: str, value: bool | int | str) -> None:
        """An attribute of the node, such as the depth of its queues."""
        if not isinstance(value, bool | int | str):
            raise TypeError(f"attribute {name} is bool, int or str, not {type(value).__name__}")
        if name == ATTR_DEPTH and (not isinstance(value, int) or value < 1):
            raise DfException(f"Node {self.name}: {name} is a number of messages from 1 (better 2), not {value!r}.")
        if name == ATTR_DEPTH and value == 1:
            log.warning(
                "node %s: a queue of depth 1 keeps producer and consumer from working at the same time", self.name
            )
        if name == ATTR_POLICY and value not in POLICIES:
            raise DfException(f"Node {self.name}: {name} is one of {', '.join(POLICIES)}, not {value!r}.")
        if name.startswith(ATTR_FLOW) and name not in _ATTRIBUTES:
            log.warning("node %s: attribute %s means nothing; known are %s", self.name, name, ", ".join(_ATTRIBUTES))
        self.attributes[name] = value

    def set_alias(self, name: str) -> FlowNode:
        """The name under which the deployment file knows the node."""
        naming.check(name, "node's alias")
        if name not in (self.name, self.alias):
            naming.nodes.claim(name)
        if self.alias not in ("", self.name, name):
            naming.nodes.release(self.alias)
        self.alias = name
        return self

    def inputs(self) -> list[Source]:
        """What the inputs are connected to; DfException for one that is not."""
        for index, source in enumerate(self._input_anchors):
            if source is None:
                raise DfException(f"Input {index} of node {self.name} is not connected{self._hint(index)}.")
        return [source for source in self._input_anchors if source is not None]

    def _ports(self) -> NodePorts:
        """As process points see it."""
        return NodePorts(self.name, self.input_num, self.output_num, self._input_map, self._output_map)

    def _hint(self, index: int) -> str:
        functions = () if self.point is None else self.point._functions
        owner = next((each.name for each in functions if index in each.inputs), None)
        return f": call node.{owner}(…)" if owner and len(functions) > 1 else ""

    def __repr__(self) -> str:
        return f"FlowNode(name={self.name!r}, input_num={self.input_num}, output_num={self.output_num})"


def _no_source(value: object) -> str:
    """What was given instead of something to connect to, and what to give."""
    if isinstance(value, FlowNode):
        return f"the node {value.name}; call it with its inputs, and pass the output that this gives"
    if isinstance(value, tuple | list) and value and all(isinstance(each, FlowData | FlowOutput) for each in value):
        return f"a {type(value).__name__} of {len(value)}; pass one of them, or all of them with *"
    return f"of type {type(value).__name__}; pass a df.FlowData or the output of a node (values come with feed)"


def add_methods(node: FlowNode, functions: Sequence[Function]) -> None:
    """One callable attribute per method of a decorated class, which wires just that method."""
    for function in functions:
        setattr(node, function.name, _wire(node, function.name, function.inputs, function.outputs))


def _wire(node: FlowNode, name: str, indexes: tuple[int, ...], outputs: tuple[int, ...]) -> Callable[..., Any]:
    def wire(*inputs: Source) -> Any:
        if len(inputs) != len(indexes):
            raise DfException(f"{node.name}.{name} takes {len(indexes)} inputs, but {len(inputs)} were given.")
        return node._connect(indexes, inputs, outputs)

    wire.__name__ = name
    return wire
