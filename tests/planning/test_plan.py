"""Each group gets a format with one reason, and making a plan changes nothing."""

import dataclasses

import onnx
import onnx_ir as ir
import pytest

from onnxcast.errors import InputError
from onnxcast.formats import FLOAT8E4, FLOAT16, FLOAT32, Format
from onnxcast.planning import Reason, make_plan, pin
from onnxcast.policy import TOKENS, make_policy
from onnxcast.targets import GENERIC, Target
from tests.planning.plans import decided, load, plan_of, reasons


class Choosy(Target):
    """Takes float32 operands only."""

    def matmul_operand_pair(self, first: Format, second: Format) -> tuple[Format, Format]:
        del first, second
        return FLOAT32, FLOAT32


CHOOSY = Choosy(name="choosy", preferred=FLOAT16)


@dataclasses.dataclass(frozen=True)
class Case:
    """A graph of which one group, named by its result, has a reason."""

    reason: Reason
    group: str
    nodes: str
    token: str = "all-fp16"
    constants: str = ""
    opset: int = 21
    keep_ops: tuple[str, ...] = ()
    keep_nodes: tuple[str, ...] = ()
    wide: str = ""
    target: Target = GENERIC
    pin: str = ""

    def decision(self) -> tuple[str, Reason]:
        functions = """<opset_import: ["": 21], domain: "local"> F (u) => (v) { v = Abs (u) }"""
        text = f"""g (float[4,4] x, float[4] s, int64[4] i, int8[4] q, bool b) => (z)
            <{self.constants}> {{ {self.nodes} }} {functions}"""
        policy = make_policy(
            fp32_cast=self.token,
            keep_ops=self.keep_ops,
            keep_nodes=self.keep_nodes,
            policy=lambda node: "wide" if node.op_type == self.wide else None,
        )
        model = load(text, self.opset)
        for node in model.graph:
            if self.pin:
                pin(node, self.pin)
        return decided(make_plan(model, policy, self.target))[self.group]


LEGACY = dataclasses.replace(GENERIC, float8e4=FLOAT8E4)
LIMITS = "float low = {-240}, float high = {240}"


NARROW = [
    Case(Reason.REQUESTED, "y", "y = Relu (x) z = Neg (y)"),
    Case(Reason.MATMUL_OPERANDS, "y", "y = MatMul (x, x) z = Neg (y)"),
    Case(Reason.MATMUL_OPERANDS, "y", "y = MatMul (x, x) z = Neg (y)", "matmult-fp16"),
    Case(Reason.CARRIES_NARROW, "t", "y = MatMul (x, x) t = Transpose (y) z = Floor (t)"),
    Case(Reason.STORAGE, "z", "z = MatMul (x, x)", "all-fp8e4"),
    Case(
        Reason.WEIGHTS,
        "z",
        "z = MatMul (x, w)",
        constants="float[4,2] w = {1,2,3,4,5,6,7,8}",
        pin="z reaches 7e+04",
    ),
    Case(Reason.INPUT, "y", "y = Relu (x) z = Neg (y)", "inputs-fp16"),
    Case(Reason.FALLBACK, "z", "z = Mul (x, k)", "all-mixed", constants="float k = {1e6}"),
    Case(Reason.FEEDS_NARROW, "t", "t = Transpose (x) z = MatMul (t, t)"),
]
FLOAT_SCALE = "float k = {0.5}, int8 n = {0}"
WIDE = [
    Case(Reason.SCOPE, "z", "z = Relu (x)", "matmult-fp16"),
    Case(Reason.SCOPE, "z", "z = MatMul (x, x)", "none"),
    Case(Reason.KEEP_OP, "z", "z = Relu (x)", keep_ops=("Relu",)),
    Case(Reason.KEEP_OP, "z", "z = MatMul (x, x)", keep_ops=("Mat*",)),
    Case(Reason.KEEP_NODE, "y", "[head_neg] y = Neg (x) z = Abs (y)", keep_nodes=("head_*",)),
    Case(Reason.KEEP_POLICY, "z", "z = Relu (x)", wide="Relu"),
    Case(
        Reason.LIMIT,
        "y",
        "y = Clip (x, low, high) z = Cast <to = 17> (y)",
        "all-fp8e4",
        constants=LIMITS,
        target=LEGACY,
    ),
    Case(Reason.PINNED, "z", "z = Relu (x)", pin="z reaches 7e+04"),
    Case(Reason.SCHEMA, "z", "z = Relu (x)", "all-bf16", opset=12),
    Case(Reason.SCHEMA, "z", "z = Celu (x)", opset=12),
    Case(Reason.FUNCTION_BODY, "z", "z = MeanVarianceNormalization <axes = [0]> (x)", opset=13),
    # One Cast of the product serves both wide readers.
    Case(
        Reason.CHEAPER_WIDE,
        "t",
        "y = MatMul (x, x) f = Floor (y) t = Transpose (y) z = Floor (t)",
    ),
    Case(Reason.TARGET_OPERANDS, "z", "z = MatMul (x, x)", target=CHOOSY),
    Case(Reason.OPAQUE, "y:", "y = local.Unknown (x) z = Shape (x)"),
    Case(Reason.CALL, "y", "y = local.F (x) z = Shape (y)"),
    Case(
        Reason.CONTROL_FLOW,
        "z",
        "z = If (b) <then_branch = t () => (float[4,4] m) { m = Abs (x) },"
        " else_branch = e () => (float[4,4] n) { n = Neg (x) }>",
        "all-fp32r",
    ),
    Case(Reason.ISLAND, "z", "y = MatMul (x, x) f = Floor (y) z = Sigmoid (f)"),
    Case(Reason.NOT_A_TENSOR, "y", "y = SequenceConstruct (x) z = SequenceLength (y)"),
    Case(Reason.USER_CAST, "y", "y = Cast <to = 1> (q) z = Shape (y)"),
    Case(Reason.USER_CAST, "z:T1", "z = Cast <to = 10> (x)"),
    Case(Reason.TYPED_BY_ATTRIBUTE, "y", "y = ConstantOfShape (i) z = Shape (y)"),
    Case(Reason.TYPED_BY_ATTRIBUTE, "y", "y = RandomNormal <shape = [2]> () z = Shape (y)"),
    Case(Reason.PARAMETER, "z:T1", "z = Dropout (x, k)", constants=FLOAT_SCALE),
    Case(Reason.QUANTISED, "z:T1", "z = QuantizeLinear (x, k, n)", constants=FLOAT_SCALE),
    Case(
        Reason.QUANTISED,
        "z",
        "d = DequantizeLinear (q, k, n) z = Relu (d)",
        constants=FLOAT_SCALE,
    ),
    Case(Reason.METADATA, "z:T", "z = Shape (x)"),
    Case(Reason.ACCUMULATING, "z", "z = ReduceSum (x)"),
    Case(Reason.STATISTICS, "y", "y = Mul (x, x) z = ReduceSum (y)"),
    Case(Reason.RESIDUE, "z", "h = Cast <to = 10> (x) f = Cast <to = 1> (h) z = Sub (x, f)"),
    Case(Reason.AMPLIFYING, "z", "z = Log (x)"),
    Case(Reason.AMPLIFYING, "z", "z = Exp (x)"),
    Case(Reason.JUMPING, "z:T", "z = Greater (x, x)"),
    Case(Reason.JUMPING, "z", "z = Floor (x)"),
    Case(Reason.INTEGER_VALUED, "z", "c = Cast <to = 1> (i) z = Neg (c)"),
    Case(Reason.OUT_OF_RANGE, "z", "z = Mul (x, k)", constants="float k = {1e6}"),
    Case(Reason.VANISHING, "z", "z = Add (x, k)", constants="float k = {1e-12}"),
    Case(Reason.CARRIES_WIDE, "t", "t = Transpose (x) z = Floor (t)"),
]


@pytest.mark.parametrize("case", [*NARROW, *WIDE], ids=lambda case: case.reason.name)
def test_a_group_is_decided_with_its_reason(case: Case) -> None:
    policy = make_policy(fp32_cast=case.token)
    narrow = policy.fallback if case.reason is Reason.FALLBACK else policy.format
    wanted = "float32" if case in WIDE else str(narrow)
    assert case.decision() == (wanted, case.reason)


def test_every_reason_has_a_case() -> None:
    assert {case.reason for case in (*NARROW, *WIDE)} == set(Reason)


def test_reasons_are_told_apart_by_their_sentences() -> None:
    assert len({reason.value for reason in Reason}) == len(Reason)


ENCODER = """g (float[2,4] x, int64[2] i) => (float[2,4] y) <float[4,4] w = {
    1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float k = {0.1}> {
    h = MatMul (x, w) r = Relu (h) m = ReduceMean (r) d = Sub (r, m) y = Mul (d, k)
}"""


@pytest.mark.parametrize("token", TOKENS)
def test_making_a_plan_changes_nothing(token: str) -> None:
    model = load(ENCODER)
    before = onnx.printer.to_text(ir.to_proto(model))
    make_plan(model, make_policy(fp32_cast=token), GENERIC)
    assert onnx.printer.to_text(ir.to_proto(model)) == before


@pytest.mark.parametrize("token", TOKENS)
def test_a_plan_decides_every_group_once_and_only_for_the_formats_asked(token: str) -> None:
    plan = plan_of(ENCODER, token)
    policy = make_policy(fp32_cast=token)
    assert len(plan.decisions) == 5
    assert {d.format for d in plan.decisions.values()} <= {FLOAT32, policy.format}  # all values fit
    assert [group for group, _ in plan.narrow()] == [
        group for group, decision in plan.decisions.items() if decision.format != FLOAT32
    ]


def test_the_bias_of_a_product_is_not_the_targets_concern() -> None:
    text = "g (float[2,2] x, float[2] c) => (float[2,2] y) { y = Gemm (x, x, c) }"
    assert reasons(text) == {"y": Reason.MATMUL_OPERANDS}
    assert reasons(text, "matmult-bf16") == {"y": Reason.MATMUL_OPERANDS}


def test_a_plan_is_told_as_records() -> None:
    [row] = plan_of(
        "g (float[2] x) => (float[2] y) { y = Add (x, k) }".replace(
            "{ y", "<float k = {1e-12}> { y"
        )
    ).rows()
    assert row == {
        "node": "Add(-> y)",
        "op": "Add",
        "variable": "T",
        "format": "float32",
        "form": "WIDE",
        "reason": "VANISHING",
        "because": Reason.VANISHING.value,
        "detail": "k = 1e-12",
    }


def test_the_detail_names_what_the_reason_is_about() -> None:
    text = """g (float[2] x, int64[2] i) => (float[2] y, float[2] z, float[2] l) <float k = {1e6}> {
        y = Mul (x, k) c = Cast <to = 1> (i) n = Neg (c) z = Abs (n) a = Add (x, k) l = Log (a)
    }"""
    details = {row["node"]: row["detail"] for row in plan_of(text).rows()}
    assert details["Mul(-> y)"] == "k up to 1e+06"
    assert details["Neg(-> n)"] == "from c"


TINY = "g (float[2] x) => (float[2] y) { [encoder_relu] h = Relu (x) y = Sigmoid (h) }"


@pytest.mark.parametrize(
    ("ops", "nodes", "found", "nearest"),
    [
        (["Sigmod"], [], "no op of the model matches 'Sigmod'", "nearest: Sigmoid"),
        (["Relu", "Lelu"], [], "'Lelu'", "nearest: Relu"),
        ([], ["encoder_rely"], "no node", "nearest: encoder_relu"),
        ([], ["decoder*zzz"], "'decoder*zzz' to be kept wide", ""),
        (["relu"], [], "'relu'", "nearest: Relu"),
    ],
)
def test_a_keep_pattern_that_matches_nothing_names_the_nearest(
    ops: list[str], nodes: list[str], found: str, nearest: str
) -> None:
    with pytest.raises(InputError) as caught:
        plan_of(TINY, keep_ops=ops, keep_nodes=nodes)
    text = str(caught.value)
    assert found in text
    assert nearest in text
    assert "\n" not in text


def test_what_is_kept_stays_wide_and_the_rest_is_narrow() -> None:
    found = decided(plan_of(TINY, keep_nodes=["encoder_*"]))
    assert found == {"h": ("float32", Reason.KEEP_NODE), "y": ("float16", Reason.REQUESTED)}
    found = decided(plan_of(TINY, keep_ops=["Sig*"]))
    assert found == {"h": ("float16", Reason.REQUESTED), "y": ("float32", Reason.KEEP_OP)}


def test_nodes_of_branches_are_matched_by_keep_patterns() -> None:
    text = """g (float[2] x, bool b) => (float[2] y) {
        y = If (b) <then_branch = t () => (float[2] m) { m = Abs (x) },
                    else_branch = e () => (float[2] n) { n = Neg (x) }>
    }"""
    found = decided(plan_of(text, keep_ops=["Abs"]))
    assert (found["m"][1], found["n"][1]) == (Reason.KEEP_OP, Reason.REQUESTED)
