"""Tables of the graph engine's messages (package ge.proto): what the MODEL_DEF partition of an `.om` holds."""

from __future__ import annotations

from softnpu.graph.wire import Message

SHAPE = Message("ShapeDef").add(dim=(1, "int64", True))
ATTR = Message("AttrDef")
NAMED_ATTRS = Message("NamedAttrs").add(name=(1, "string"), attr=(2, "map", ATTR))
TENSOR_DESC = Message("TensorDescriptor").add(
    name=(1, "string"),
    dtype=(2, "enum"),
    shape=(3, SHAPE),
    layout=(4, "string"),
    attr=(5, "map", ATTR),
    has_out_attr=(9, "bool"),
    size=(10, "int64"),
    weight_size=(11, "int64"),
    reuse_input=(12, "bool"),
    output_tensor=(13, "bool"),
    device_type=(14, "string"),
    input_tensor=(15, "bool"),
    real_dim_cnt=(16, "int64"),
    reuse_input_index=(17, "int64"),
    data_offset=(18, "int64"),
    cmps_size=(19, "int64"),
    cmps_tab=(20, "string"),
    cmps_tab_offset=(21, "int64"),
)
TENSOR = Message("TensorDef").add(desc=(1, TENSOR_DESC), data=(2, "bytes"))
OP = Message("OpDef").add(
    name=(1, "string"),
    type=(2, "string"),
    input=(5, "string", True),
    attr=(10, "map", ATTR),
    has_out_attr=(20, "bool"),
    id=(21, "int64"),
    stream_id=(22, "int64"),
    input_name=(23, "string", True),
    src_name=(24, "string", True),
    src_index=(25, "int64", True),
    dst_name=(26, "string", True),
    dst_index=(27, "int64", True),
    input_i=(28, "int64", True),
    output_i=(29, "int64", True),
    workspace=(30, "int64", True),
    workspace_bytes=(31, "int64", True),
    is_input_const=(32, "bool", True),
    input_desc=(33, TENSOR_DESC, True),
    output_desc=(34, TENSOR_DESC, True),
    subgraph_name=(35, "string", True),
)
GRAPH = Message("GraphDef").add(
    name=(1, "string"),
    input=(4, "string", True),
    output=(5, "string", True),
    op=(6, OP, True),
    attr=(11, "map", ATTR),
)
LIST_INT = Message("ListInt").add(list_i=(1, "int64", True))
LIST_LIST_INT = Message("ListListInt").add(list_list_i=(1, LIST_INT, True))
LIST_FLOAT = Message("ListFloat").add(list_f=(1, "float", True))
LIST_LIST_FLOAT = Message("ListListFloat").add(list_list_f=(1, LIST_FLOAT, True))
LIST = Message("ListValue").add(
    s=(2, "bytes", True),
    i=(3, "int64", True),
    f=(4, "float", True),
    b=(5, "bool", True),
    bt=(7, "bytes", True),
    td=(8, TENSOR_DESC, True),
    t=(9, TENSOR, True),
    g=(10, GRAPH, True),
    na=(11, NAMED_ATTRS, True),
    dt=(12, "int64", True),
    val_type=(20, "enum"),
)
ATTR.add(
    list=(1, LIST),
    s=(2, "bytes"),
    i=(3, "int64"),
    f=(4, "float"),
    b=(5, "bool"),
    bt=(7, "bytes"),
    func=(10, NAMED_ATTRS),
    td=(11, TENSOR_DESC),
    t=(12, TENSOR),
    g=(13, GRAPH),
    list_list_int=(14, LIST_LIST_INT),
    dt=(15, "int64"),
    list_list_float=(16, LIST_LIST_FLOAT),
    expression=(17, "bytes"),
)
MODEL = Message("ModelDef").add(
    name=(1, "string"),
    version=(2, "uint32"),
    custom_version=(3, "string"),
    graph=(7, GRAPH, True),
    attr=(11, "map", ATTR),
)
