"""What refuses a format: the schema, type inference, and the op's function body."""

import onnx
import onnx_ir as ir
import pytest

from onnxcast.formats import BFLOAT16, FLOAT16, Format
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import main_nodes
from onnxcast.planning.grouping import find_groups
from onnxcast.planning.groups import Group, Kind
from onnxcast.planning.legality import Legality, Why
from onnxcast.planning.reasons import Reason
from tests.planning.plans import load

Verdict = tuple[Reason, str] | None

SCHEMA, BODY = Reason.SCHEMA, Reason.FUNCTION_BODY


def _told(why: Why | None) -> Verdict:
    return None if why is None else (why.reason, why.detail)


def verdicts(text: str, format_: Format = FLOAT16, opset: int = 21) -> dict[str, Verdict]:
    """By op and type variable."""
    model = load(text, opset)
    types = ElementTypes(model)
    legality = Legality(types)
    return {
        f"{group.node.op_type} {group.variable}": _told(legality.why_not(group, format_))
        for group in find_groups(main_nodes(model), types)
        if group.kind is Kind.SCHEMA
    }


def groups(text: str, opset: int = 21) -> list[Group]:
    model = load(text, opset)
    return find_groups(main_nodes(model), ElementTypes(model))


def members(text: str, opset: int = 21) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    return [(group.variable, group.operands, group.results) for group in groups(text, opset)]


def without_hint(verdict: Verdict) -> Verdict:
    """The verdict without the opset that allows the format, which later versions of onnx know."""
    return verdict and (verdict[0], verdict[1].partition(", allowed")[0])


UNARY = "g (float[2,3] x) => (float[2,3] y) {{ y = {} (x) }}"


@pytest.mark.parametrize(
    ("op", "opset", "format_", "wanted"),
    [
        ("Relu", 12, FLOAT16, None),
        ("Relu", 12, BFLOAT16, (SCHEMA, "Relu-6")),
        ("Relu", 13, BFLOAT16, None),
        ("Tanh", 13, BFLOAT16, None),
        ("Sin", 21, FLOAT16, None),
        ("Sin", 21, BFLOAT16, (SCHEMA, "Sin-7")),
        ("Sin", 22, BFLOAT16, None),
    ],
)
def test_the_schema_of_the_models_opset_decides(
    op: str, opset: int, format_: Format, wanted: Verdict
) -> None:
    found = verdicts(UNARY.format(op), format_, opset)
    assert {name: without_hint(verdict) for name, verdict in found.items()} == {f"{op} T": wanted}


@pytest.mark.parametrize(
    ("op", "opset", "hint"),
    [("Relu", 12, "Relu-6, allowed from opset 13"), ("Sin", 13, "Sin-7, allowed from opset 22")],
)
def test_a_refusal_names_the_opset_that_allows_the_format(op: str, opset: int, hint: str) -> None:
    assert verdicts(UNARY.format(op), BFLOAT16, opset) == {f"{op} T": (SCHEMA, hint)}


@pytest.mark.parametrize(
    ("op", "opset", "float16", "bfloat16"),
    [
        # The body holds float32 constants whatever the input is.
        ("Celu", 12, (SCHEMA, "Celu-12"), (SCHEMA, "Celu-12")),
        ("MeanVarianceNormalization <axes = [1]>", 13, BODY, BODY),
        # Its body uses HardSigmoid-6, which lacks bfloat16.
        ("HardSwish", 14, None, (SCHEMA, "HardSwish-14")),
        ("HardSwish", 22, None, None),
        # Bodies that convert their constants to the input's type.
        ("Softsign", 22, None, None),
        ("Mish", 22, None, None),
        ("Gelu", 20, None, None),
        ("Softmax", 13, None, None),
    ],
)
def test_the_function_body_decides_too(
    op: str, opset: int, float16: Reason | Verdict, bfloat16: Reason | Verdict
) -> None:
    for format_, wanted in ((FLOAT16, float16), (BFLOAT16, bfloat16)):
        [(name, found)] = verdicts(UNARY.format(op), format_, opset).items()
        if isinstance(wanted, Reason):
            assert found is not None
            assert found[0] is wanted, name
            assert found[1].startswith(op.split(maxsplit=1)[0])
        else:
            assert without_hint(found) == wanted, name


def test_variables_that_inference_ties_are_one_group() -> None:
    # RMSNormalization-23 types its result as V, that of the scale, and infers it from the input.
    text = "g (float[2,4] x, float[4] s) => (float[2,4] y) { y = RMSNormalization (x, s) }"
    assert members(text, 23) == [("T, V", (0, 1), (0,))]
    for format_ in (FLOAT16, BFLOAT16):
        assert verdicts(text, format_, 23) == {"RMSNormalization T, V": None}


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 27, reason="LinearAttention came with 27")
def test_a_state_is_tied_to_the_query_only_where_it_has_no_operand_of_its_own() -> None:
    text = """g (float[1,2,8] q, float[1,2,8] k, float[1,2,8] v, float[1,2,4,4] p)
    => (float[1,2,8] y, float[1,2,4,4] state) {{
        y, state = LinearAttention
            <q_num_heads = 2, kv_num_heads = 2, update_rule = "linear"> ({})
    }}"""
    assert members(text.format("q, k, v"), 27) == [("T, S", (0, 1, 2), (0, 1))]
    assert members(text.format("q, k, v, p"), 27) == [("T", (0, 1, 2), (0,)), ("S", (3,), (1,))]


def test_statistics_of_a_batch_normalization_are_not_tied_to_its_data() -> None:
    text = """g (float[2,3] x, float[3] s, float[3] m) => (float[2,3] y) {
        y = BatchNormalization (x, s, s, m, m)
    }"""
    assert members(text, 13) == [("T", (0, 1, 2, 3, 4), (0,))]
    assert members(text, 14) == [("T", (0, 1, 2), (0,)), ("U", (3, 4), ())]
    assert members(text, 15) == [("T", (0,), (0,)), ("T1", (1, 2), ()), ("T2", (3, 4), ())]
    assert set(verdicts(text, FLOAT16, 15).values()) == {None}


def test_statistics_of_a_layer_normalization_are_fixed_by_its_attribute() -> None:
    text = """g (float[2,4] x, float[4] s) => (float[2,4] y, float[2,1] m) {
        y, m = LayerNormalization (x, s)
    }"""
    for format_ in (FLOAT16, BFLOAT16):
        found = verdicts(text, format_)
        assert found["LayerNormalization T"] is None
        refused = found["LayerNormalization U"]
        assert refused is not None
        assert refused[0] is SCHEMA


def test_a_type_that_only_inference_copies_is_tied() -> None:
    # The letters differ, since an attribute may name the type of the result; here none does.
    text = "g (float[2,3] x) => (float[2,3] y) { y = Bernoulli (x) }"
    assert members(text) == [("T1, T2", (0,), (0,))]
    named = text.replace("Bernoulli", "Bernoulli <dtype = 1>")
    assert members(named) == [("T1", (0,), ()), ("T2", (), (0,))]


@pytest.mark.parametrize("format_", [FLOAT16, BFLOAT16], ids=str)
def test_parameters_of_a_fixed_type_stay_and_refuse_nothing_else(format_: Format) -> None:
    text = """g (float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Resize (x, , s) }"""
    found = verdicts(text, format_)
    assert found["Resize T1"] is None
    assert found["Resize tensor(float)"] == (SCHEMA, "Resize-19")


def tree(dtype: int) -> onnx.ModelProto:
    """One split and two leaves, with thresholds and weights of a type."""
    numbers = {
        name: onnx.helper.make_tensor(name, dtype, [len(values)], values)
        for name, values in (("nodes_splits", [0.5]), ("leaf_weights", [1.0, 2.0]))
    }
    modes = onnx.helper.make_tensor("nodes_modes", onnx.TensorProto.UINT8, [1], [0])
    node = onnx.helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        tree_roots=[0],
        nodes_featureids=[0],
        nodes_truenodeids=[0],
        nodes_trueleafs=[1],
        nodes_falsenodeids=[1],
        nodes_falseleafs=[1],
        leaf_targetids=[0, 0],
        nodes_modes=modes,
        **numbers,
    )
    tensors = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 1]) for name in "xy"
    ]
    graph = onnx.helper.make_graph([node], "g", tensors[:1], tensors[1:])
    imports = [onnx.helper.make_opsetid(*each) for each in (("", 21), ("ai.onnx.ml", 5))]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


def test_a_tensor_in_an_attribute_ties_the_type_of_the_operand() -> None:
    model = ir.from_proto(tree(onnx.TensorProto.FLOAT))
    types = ElementTypes(model)
    [group] = find_groups(main_nodes(model), types)
    refused = _told(Legality(types).why_not(group, FLOAT16))
    assert refused == (SCHEMA, "TreeEnsemble-5 ties T to another type")


def test_types_are_no_matter_of_names() -> None:
    # A model-local function hides the op whose name it has, so its schema says nothing.
    text = """g (float[2,3] x) => (float[2,3] y) { y = local.Celu (x) }
    <opset_import: ["": 12], domain: "local"> Celu (a) => (b) { b = Celu (a) }"""
    assert verdicts(text, FLOAT16, 12) == {}
    assert [group.kind for group in groups(text, 12)] == [Kind.CALL]
