"""The table of com.microsoft ops against the schemas of the installed onnxruntime."""

import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
from onnxruntime.capi import _pybind_state

from onnxcast.graph.contrib import CONTRIB, CONTRIB_DOMAIN
from onnxcast.graph.types import ElementTypes

OLD = tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 32)
FLOATS = {"tensor(float)", "tensor(float16)", "tensor(bfloat16)"}
SCHEMAS = {
    schema.name: schema
    for schema in _pybind_state.get_all_operator_schema()
    if schema.domain == CONTRIB_DOMAIN
}


def grouping(variables: list[str]) -> list[int]:
    """For each parameter the first that shares its type variable."""
    return [variables.index(variable) for variable in variables]


@pytest.mark.parametrize("op", [op for op in CONTRIB if op in SCHEMAS])
def test_a_row_groups_operands_and_results_as_the_schema_does(op: str) -> None:
    row, schema = CONTRIB[op], SCHEMAS[op]
    operands, results = row.operands.split(), row.results.split()
    wanted = [
        *[formal.typeStr for formal in schema.inputs][: len(operands)],
        *[formal.typeStr for formal in schema.outputs][: len(results)],
    ]
    fixed = {t.type_param_str: set(t.allowed_type_strs) for t in schema.type_constraints}
    found = [*operands, *results]
    floats = [name for name in wanted if FLOATS & fixed.get(name, {name})]
    assert {found[wanted.index(name)] for name in floats} <= {"T", "QK", "Z", "tensor(float)"}
    many = [k for k, name in enumerate(wanted) if fixed.get(name, {name}) != {"tensor(float)"}]
    assert grouping([found[k] for k in many]) == grouping([wanted[k] for k in many])


@pytest.mark.skipif(OLD, reason="the table is that of onnxruntime 1.32, which allows more types")
@pytest.mark.parametrize("op", [op for op in CONTRIB if op in SCHEMAS])
def test_a_row_lists_no_type_that_the_schema_lacks(op: str) -> None:
    allowed = {t.type_param_str: set(t.allowed_type_strs) for t in SCHEMAS[op].type_constraints}
    variable = SCHEMAS[op].inputs[CONTRIB[op].operands.split().index("T")].typeStr
    assert {f"tensor({name})" for name in CONTRIB[op].types} <= allowed[variable]


def test_onnxruntime_knows_all_ops_of_the_table_but_one() -> None:
    assert set(CONTRIB) - set(SCHEMAS) <= {"TransposeMatMul"}  # an older name of FusedMatMul


def test_results_have_a_type_without_value_info() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> g (float[2,2] x, float[2] b)'
        " => (float[2,2] y) { h = com.microsoft.FusedMatMul (x, x)"
        " g = com.microsoft.BiasGelu (h, b) y = Relu (g) }"
    )
    model = ir.from_proto(proto)
    types = ElementTypes(model)
    assert [types.dtype(node.outputs[0]) for node in model.graph] == [ir.DataType.FLOAT] * 3
