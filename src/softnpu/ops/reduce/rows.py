"""Reductions that differ in a word, and the largest elements: a row each."""

from softnpu.ops.common.schema import Row, Schema
from softnpu.ops.reduce._reduce import by_attribute, by_input, schema, schema_d
from softnpu.ops.reduce._reduce_by_input import reduce_by_input
from softnpu.ops.reduce._top import ATTRS, top_by_input

ROWS = (
    Row(schema("All"), by_input("All"), "whether all elements are true, over axes"),
    Row(schema_d("All"), by_attribute("All"), "whether all elements are true, over axes that are an attribute"),
    Row(schema("Any"), by_input("Any"), "whether an element is true, over axes"),
    Row(schema_d("Any"), by_attribute("Any"), "whether an element is true, over axes that are an attribute"),
    Row(
        Schema("ReduceLogSum", ("x", "axes"), attrs={"keep_dims": False}),
        reduce_by_input("LogSum"),
        "the logarithm of the sum over axes",
    ),
    Row(
        Schema("ReduceLogSumExp", ("x", "axes"), attrs={"keep_dims": False}),
        reduce_by_input("LogSumExp"),
        "the logarithm of the sum of exponentials over axes",
    ),
    Row(schema("Max"), by_input("Max"), "the largest element over axes"),
    Row(schema_d("Max"), by_attribute("Max"), "the largest element over axes that are an attribute"),
    Row(schema("Mean"), by_input("Mean"), "the mean over axes"),
    Row(schema_d("Mean"), by_attribute("Mean"), "the mean over axes that are an attribute"),
    Row(schema("Min"), by_input("Min"), "the smallest element over axes"),
    Row(schema_d("Min"), by_attribute("Min"), "the smallest element over axes that are an attribute"),
    Row(schema("Prod"), by_input("Prod"), "the product over axes"),
    Row(schema_d("Prod"), by_attribute("Prod"), "the product over axes that are an attribute"),
    Row(schema("Sum"), by_input("Sum"), "the sum over axes"),
    Row(schema_d("Sum"), by_attribute("Sum"), "the sum over axes that are an attribute"),
    Row(
        Schema("TopK", ("x", "k"), ("values", "indices"), attrs=dict(ATTRS)),
        top_by_input,
        "the k largest elements along a dim, and where they are",
    ),
    Row(
        Schema("TopKV2", ("x", "k"), ("values", "indices"), attrs=dict(ATTRS)),
        top_by_input,
        "the k largest elements along a dim, and where they are",
    ),
)
