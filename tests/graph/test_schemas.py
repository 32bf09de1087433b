"""Signatures say what onnx's schemas say, at the opset that a scope imports."""

import onnx
import onnx.defs
import onnx_ir as ir
import pytest

from onnxcast.graph.schemas import Schemas, signature_of, type_string

FLOAT16 = ir.TensorType(ir.DataType.FLOAT16)
BFLOAT16 = ir.TensorType(ir.DataType.BFLOAT16)


def signed(op: str, version: int = 21, domain: str = "") -> list[str | None]:
    signature = signature_of(domain, op, version)
    assert signature is not None
    return [signature.operand(k) for k in range(4)] + [signature.result(k) for k in range(2)]


def test_operands_and_results_carry_their_type_variable() -> None:
    assert signed("Where") == ["B", "T", "T", None, "T", None]
    assert signed("LayerNormalization", 17) == ["T", "T", "T", None, "T", "U"]
    assert signed("Shape") == ["T", None, None, None, "T1", None]


def test_a_variadic_operand_takes_all_that_follow() -> None:
    assert signed("Concat") == ["T", "T", "T", "T", "T", None]
    assert signed("Loop")[2:] == ["V@2", "V@3", "V@0", "V@1"]


def test_a_heterogeneous_operand_may_be_what_its_variable_allows() -> None:
    signature = signature_of("", "Loop", 21)
    assert signature is not None
    assert signature.allows("V@3", FLOAT16)


def test_a_type_is_allowed_as_of_the_opset_that_allows_it() -> None:
    for version, allowed in ((12, False), (13, True), (21, True)):
        signature = signature_of("", "Relu", version)
        assert signature is not None
        assert signature.allows("T", FLOAT16)
        assert signature.allows("T", BFLOAT16) is allowed


def test_a_fixed_type_allows_itself_only() -> None:
    signature = signature_of("", "Resize", 21)
    assert signature is not None
    scales = signature.operand(2)
    assert scales == "tensor(float)"
    assert signature.allows(scales, ir.TensorType(ir.DataType.FLOAT))
    assert not signature.allows(scales, FLOAT16)


def test_an_unknown_op_domain_or_version_has_no_signature() -> None:
    assert signature_of("", "NoSuchOp", 21) is None
    assert signature_of("com.example", "Relu", 1) is None
    assert signature_of("", "GroupNormalization", 10) is None


def test_both_names_of_the_onnx_domain_mean_the_same() -> None:
    one, other = signature_of("ai.onnx", "Relu", 21), signature_of("", "Relu", 21)
    assert one is not None
    assert other is not None
    assert (one.inputs, one.outputs, one.allowed) == (other.inputs, other.outputs, other.allowed)


def test_every_schema_has_a_signature_that_knows_its_variables() -> None:
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.deprecated:
            continue
        signature = signature_of(schema.domain, schema.name, schema.since_version)
        assert signature is not None
        for parameter in (*signature.inputs, *signature.outputs):
            assert parameter.variable in signature.allowed or parameter.variable.endswith(")")


@pytest.mark.parametrize("dtype", [d for d in ir.DataType if d is not ir.DataType.UNDEFINED])
def test_every_element_type_is_spelled_as_in_schemas(dtype: ir.DataType) -> None:
    spellings = {
        text
        for schema in onnx.defs.get_all_schemas()
        for c in schema.type_constraints
        for text in c.allowed_type_strs
    }
    assert type_string(ir.TensorType(dtype)) in spellings


def test_composed_types_are_spelled_as_in_schemas() -> None:
    assert type_string(ir.SequenceType(FLOAT16)) == "seq(tensor(float16))"
    nested = ir.OptionalType(ir.SequenceType(FLOAT16))
    assert type_string(nested) == "optional(seq(tensor(float16)))"
    assert type_string(ir.SparseTensorType(ir.DataType.FLOAT)) == "sparse_tensor(float)"


def model(opsets: str) -> ir.Model:
    return ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: [{opsets}]>
        g (float[2] x) => (float[2] y) {{ h = Relu (x) y = local.Relu (h) }}
        <opset_import: ["": 12], domain: "local"> Relu (a) => (b) {{ b = Relu (a) }}"""
    )


@pytest.mark.parametrize(
    "opsets", ['"": 21, "local": 3', '"local": 3, "": 21', '"local": 3, "ai.onnx": 21']
)
def test_a_nodes_version_is_its_domains_in_the_scope(opsets: str) -> None:
    loaded = model(opsets)
    schemas = Schemas(loaded)
    relu, call = loaded.graph
    assert schemas.version(relu) == 21
    assert schemas.version(call) == 3
    assert schemas.is_call(call)
    assert schemas.signature(call) is None
    function = next(iter(loaded.functions.values()))
    assert schemas.version(function[0]) == 12
    inner = schemas.signature(function[0])
    assert inner is not None
    assert not inner.allows("T", BFLOAT16)


def test_a_domain_that_is_not_imported_has_no_version() -> None:
    loaded = model('"": 21, "local": 3')
    del loaded.graph.opset_imports["local"]
    call = loaded.graph[1]
    assert Schemas(loaded).version(call) is None
