"""A proof runs the source, the result as it is, and the twin, and says which of them matches."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

import onnxcast
from onnxcast.errors import RefusedError
from onnxcast.files import read_model
from onnxcast.verification.comparison import Tolerance
from onnxcast.verification.feeds import input_specs, random_feeds
from onnxcast.verification.proof import Proof, against, first_difference, prove
from onnxcast.verification.session import Worker
from onnxcast.verification.values import Array, Feeds

HEADER = '<ir_version: 10, opset_import: ["": 21, "local": 1]>'
FLOAT16, BFLOAT16 = Tolerance(1e-2, 1e-2), Tolerance(6e-2, 6e-2)
EXACT = Tolerance(0.0, 0.0)

SQUARE = """g (float[N] x) => (float[N] y) <float[1] s = {0.001}> {
    [square] h = Mul (x, x)
    [scale] y = Mul (h, s)
}"""
SQUARE_16 = """g (float[N] x) => (float[N] y) <float[1] s = {0.001}> {
    x16 = Cast <to = 10> (x)
    s16 = Cast <to = 10> (s)
    [square] h = Mul (x16, x16)
    [scale] y16 = Mul (h, s16)
    y = Cast <to = 1> (y16)
}"""
PRODUCT = "g (float[2,2] x, float[2,2] w) => (float[2,2] y) { y = MatMul (x, w) }"
PRODUCT_BF16 = """g (float[2,2] x, float[2,2] w) => (float[2,2] y) {
    x16 = Cast <to = 16> (x)
    w16 = Cast <to = 16> (w)
    y16 = MatMul (x16, w16)
    y = Cast <to = 1> (y16)
}"""


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


def parsed(text: str) -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(HEADER + text)
    return model


def floats(*values: float) -> Feeds:
    return {"x": np.array(values, np.float32)}


def proved(
    before: str,
    after: str,
    worker: Worker,
    *samples: Feeds,
    tolerance: Tolerance = FLOAT16,
) -> Proof:
    source = read_model(parsed(before))
    feeds = list(samples) or random_feeds(input_specs(source.model), shapes={})
    with against(source, feeds, tolerance, worker) as prover:
        return prove(prover, ir.from_proto(parsed(after)))


def test_a_hidden_overflow_fails_by_the_twin_alone_and_names_its_node(worker: Worker) -> None:
    proof = proved(SQUARE, SQUARE_16, worker, floats(1000.0))
    assert not proof.ok
    assert (proof.as_is, proof.default_level, proof.twin) == ("ran", "loads", "ran")
    assert [error.ok for error in proof.as_is_errors] == [True]
    assert [error.ok for error in proof.twin_errors] == [False]
    assert proof.diverging.startswith("square (Mul): element [0] is inf, the reference has 1e+06")
    assert proof.worst is not None
    assert proof.worst.name == "y"


def test_the_same_model_passes_where_nothing_overflows(worker: Worker) -> None:
    proof = proved(SQUARE, SQUARE_16, worker, floats(10.0, -3.0))
    assert proof.ok
    assert proof.diverging == ""
    assert (proof.reference, proof.samples, proof.rounded) == ("source", 1, 4)
    assert all(0 < error.max_error < 1e-2 for error in proof.twin_errors)


def test_the_worst_of_several_samples_decides(worker: Worker) -> None:
    small, large = floats(10.0), floats(1000.0)
    for samples in ([small, large], [large, small]):
        proof = proved(SQUARE, SQUARE_16, worker, *samples)
        assert not proof.ok
        assert proof.samples == 2
        assert [error.name for error in proof.twin_errors] == ["y"]
        assert np.isinf(proof.twin_errors[0].max_error)
        assert proof.diverging.startswith("square (Mul)")


def test_a_right_bfloat16_model_passes_though_onnxruntime_has_no_kernel(worker: Worker) -> None:
    proof = proved(PRODUCT, PRODUCT_BF16, worker, tolerance=BFLOAT16)
    assert proof.ok
    assert proof.as_is == "not run (no kernel: MatMul)"
    assert proof.as_is_errors == []
    assert [error.name for error in proof.twin_errors] == ["y"]


def test_a_wrong_bfloat16_model_fails_without_a_kernel(worker: Worker) -> None:
    swapped = PRODUCT_BF16.replace("MatMul (x16, w16)", "MatMul (w16, x16)")
    proof = proved(PRODUCT, swapped, worker, tolerance=BFLOAT16)
    assert not proof.ok
    assert proof.as_is == "not run (no kernel: MatMul)"


def test_a_result_that_is_not_valid_fails_to_load(worker: Worker) -> None:
    mixed = "g (float[N] x) => (float[N] y) { h = Cast <to = 10> (x) y = Add (h, x) }"
    proof = proved("g (float[N] x) => (float[N] y) { y = Add (x, x) }", mixed, worker)
    assert not proof.ok
    assert proof.as_is.startswith("failed to load (")
    assert "\n" not in proof.as_is
    # In the twin both operands are float32, so its numbers match: they are not what counts.
    assert [error.ok for error in proof.twin_errors] == [True]


def test_a_twin_that_does_not_load_is_a_fault_and_no_exception(worker: Worker) -> None:
    mixed = """g (float[N] x) => (float[N] y) <int64 one = {1}> {
        h = Cast <to = 10> (x) y = Add (h, one)
    }"""
    proof = proved("g (float[N] x) => (float[N] y) { y = Add (x, x) }", mixed, worker)
    assert not proof.ok
    assert proof.twin.startswith("failed to load (")
    assert proof.twin_errors == []


def test_a_result_that_loads_and_does_not_run_fails(worker: Worker) -> None:
    wide = "g (float[N] x) => (float[N] y) { y = Add (x, x) }"
    shaped = """g (float[N] x) => (float[N] y) <int64[1] s = {3}> {
        h = Reshape (x, s) y = Add (h, h)
    }"""
    proof = proved(wide, shaped, worker, floats(1, 2))
    assert not proof.ok
    assert proof.as_is.startswith("failed to run (")


def test_a_source_that_does_not_run_is_refused_on_one_line(worker: Worker) -> None:
    unknown = "g (float[N] x) => (float[N] y) { y = local.Unknown (x) }"
    with pytest.raises(RefusedError, match=r"does not run the source.*Unknown") as caught:
        proved(unknown, SQUARE_16, worker)
    assert "\n" not in str(caught.value)


@contextlib.contextmanager
def crashing(condition: str) -> Iterator[Worker]:
    """A worker whose process dies of SIGSEGV in the middle of requests that meet `condition`."""

    class Crashing(Worker):
        def _command(self) -> list[str]:
            script = f"""
import os, signal
from onnxcast.verification import worker
answer = worker.answer
def crash(request, sessions):
    if {condition}:
        os.kill(os.getpid(), signal.SIGSEGV)
    return answer(request, sessions)
worker.answer = crash
worker.main()
"""
            return [sys.executable, "-c", script]

    with Crashing() as started:
        yield started


def test_a_crash_at_the_default_level_is_reported_and_the_proof_goes_on() -> None:
    with crashing("request['level'] == 'default'") as fragile:
        proof = proved(SQUARE, SQUARE_16, fragile, floats(10.0))
    assert proof.ok
    assert proof.default_level == "crashed (onnxruntime's process was killed by SIGSEGV)"
    assert (proof.as_is, proof.twin) == ("ran", "ran")


def test_a_crash_in_the_run_as_is_is_reported_and_the_twin_decides() -> None:
    with crashing("request['feeds'] and 'result.onnx' in request['model']") as fragile:
        proof = proved(SQUARE, SQUARE_16, fragile, floats(10.0))
        wrong = proved(SQUARE, SQUARE_16, fragile, floats(1000.0))
    assert proof.ok
    assert proof.as_is == "crashed (onnxruntime's process was killed by SIGSEGV)"
    assert (proof.as_is_errors, proof.default_level) == ([], "loads")
    assert not wrong.ok
    assert wrong.diverging.startswith("square (Mul)")


def test_a_crash_of_the_twin_proves_nothing() -> None:
    with crashing("'twin.onnx' in request['model']") as fragile:
        proof = proved(SQUARE, SQUARE_16, fragile, floats(10.0))
    assert not proof.ok
    assert proof.twin.startswith("crashed")


def test_a_crash_in_the_search_for_the_node_leaves_the_verdict() -> None:
    with crashing("'observed.onnx' in request['model']") as fragile:
        proof = proved(SQUARE, SQUARE_16, fragile, floats(1000.0))
    assert not proof.ok
    assert proof.diverging == ""


def test_a_crash_of_the_source_is_a_refusal() -> None:
    with crashing("True") as fragile, pytest.raises(RefusedError, match="SIGSEGV"):
        proved(SQUARE, SQUARE_16, fragile, floats(10.0))


def test_a_narrow_source_is_compared_by_its_twin(worker: Worker) -> None:
    proof = proved(SQUARE_16, SQUARE_16, worker, floats(1000.0), tolerance=EXACT)
    assert proof.ok
    assert proof.reference == "source's twin"
    # The device gives inf for the narrow source, so a wide result is another model.
    wide = proved(SQUARE_16, SQUARE, worker, floats(1000.0))
    assert not wide.ok
    assert wide.reference == "source's twin"


def test_a_narrow_source_as_is_is_compared_with_itself_as_is(worker: Worker) -> None:
    # onnxruntime gives 1000 for both, where the twins give inf.
    proof = proved(SQUARE_16, SQUARE_16, worker, floats(1000.0, 3.3), tolerance=EXACT)
    assert (proof.as_is, proof.ok) == ("ran", True)
    other = SQUARE_16.replace("Mul (h, s16)", "Mul (h, h)")
    wrong = proved(SQUARE_16, other, worker, floats(3.3))
    assert [error.ok for error in wrong.as_is_errors] == [False]


def test_a_bfloat16_source_that_does_not_run_as_is_has_its_twin_for_a_reference(
    worker: Worker,
) -> None:
    proof = proved(PRODUCT_BF16, PRODUCT_BF16, worker, tolerance=EXACT)
    assert proof.ok
    assert (proof.reference, proof.as_is) == ("source's twin", "not run (no kernel: MatMul)")


@pytest.mark.parametrize(("before", "after"), [("float", "float16"), ("float16", "float")])
def test_inputs_and_outputs_may_be_narrow_on_either_side(
    before: str, after: str, worker: Worker
) -> None:
    text = "g (TYPE[N] x) => (TYPE[N] y) { h = Exp (x) y = Sqrt (h) }"
    sample = {"x": np.array([0.1, 1.7], np.float32 if before == "float" else np.float16)}
    proof = proved(text.replace("TYPE", before), text.replace("TYPE", after), worker, sample)
    assert proof.ok
    assert all(error.max_error > 0 for error in proof.twin_errors)


def test_sequences_integers_and_bools_are_compared(worker: Worker) -> None:
    wide = """g (float[3] x) => (seq(float[3]) s, int64 i, bool[3] b) {
        h = Mul (x, x)
        s = SequenceConstruct (x, h)
        i = ArgMax <keepdims = 0> (h)
        b = Greater (h, x)
    }"""
    narrow = """g (float[3] x) => (seq(float[3]) s, int64 i, bool[3] b) {
        x16 = Cast <to = 10> (x)
        low = Mul (x16, x16)
        h = Cast <to = 1> (low)
        s = SequenceConstruct (x, h)
        i = ArgMax <keepdims = 0> (h)
        b = Greater (h, x)
    }"""
    good = proved(wide, narrow, worker, floats(0.5, 3.0, 2.0))
    assert good.ok
    assert [error.name for error in good.twin_errors] == ["s[0]", "s[1]", "i", "b"]
    # 2.0 and 2.0001 are one float16, so the largest of the squares moves.
    bad = proved(wide, narrow, worker, floats(0.5, 2.0, 2.0001))
    assert [error.name for error in bad.twin_errors if not error.ok] == ["i"]
    assert bad.diverging == "ArgMax(-> i) (ArgMax): differs in 1 of 1 elements"


BRANCHES = """g (float[1] x, bool c) => (float[1] y) <float[1] s = {0.001}> {
    [before] h = Add (x, x)
    [choice] y = If (c) <
        then_branch = then () => (float[1] t) { THEN },
        else_branch = other () => (float[1] e) { e = Identity (h) }
    >
}"""


def test_a_divergence_inside_a_branch_names_the_if(worker: Worker) -> None:
    wide = BRANCHES.replace("THEN", "u = Mul (h, h) t = Mul (u, s)")
    inner = """h16 = Cast <to = 10> (h) s16 = Cast <to = 10> (s) u16 = Mul (h16, h16)
        v16 = Mul (u16, s16) t = Cast <to = 1> (v16)"""
    sample = {**floats(1000.0), "c": np.array(True)}
    proof = proved(wide, BRANCHES.replace("THEN", inner), worker, sample)
    assert not proof.ok
    assert proof.diverging.startswith("choice (If): element [0] is inf")


FUNCTION = """g (float[N] x) => (float[N] y) { [call] y = local.Square (x) }
<domain: "local", opset_import: ["": 21]>
Square (a) => (b) { BODY }"""


def test_rounding_inside_functions_counts(worker: Worker) -> None:
    wide = FUNCTION.replace("BODY", "b = Mul (a, a)")
    narrow = FUNCTION.replace("BODY", "l = Cast <to = 10> (a) s = Mul (l, l) b = Cast <to = 1> (s)")
    assert proved(wide, narrow, worker, floats(2.5)).ok
    assert not proved(wide, narrow, worker, floats(1000.0)).ok


def test_a_function_may_import_another_opset_that_is_compatible(worker: Worker) -> None:
    text = FUNCTION.replace("BODY", "l = Cast <to = 10> (a) m = Neg (l) b = Cast <to = 1> (m)")
    older = text.replace('opset_import: ["": 21]', 'opset_import: ["": 20]')
    # Cast-21 takes more types than Cast-19 does.
    with pytest.raises(onnxcast.InputError, match="not compatible"):
        proved(older, older, worker)
    plain = FUNCTION.replace("BODY", "b = Neg (a)").replace('["": 21]', '["": 20]')
    assert proved(plain, plain, worker, tolerance=EXACT).ok


def test_external_data_is_found_where_it_is(worker: Worker, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    weights = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    model = parsed("g (float[2,8] x) => (float[2,8] y) { y = MatMul (x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.data", size_threshold=0)
    [feeds] = random_feeds(input_specs(ir.load(path)), shapes={})
    with against(read_model(path), [feeds], EXACT, worker) as prover:
        proof = prove(prover, ir.load(path))
    assert proof.ok
    assert (proof.as_is, proof.default_level) == ("ran", "loads")


ZEROS = "g (float[N] x) => (float[N] y, float[N] z) { y = Identity (x) z = OP (x) }"


def test_a_tolerance_of_zero_asks_for_the_same_bits(worker: Worker) -> None:
    commuted = SQUARE.replace("Mul (h, s)", "Mul (s, h)")
    assert proved(SQUARE, commuted, worker, floats(0.3, 0.0), tolerance=EXACT).ok
    nearby = SQUARE.replace("0.001", "0.0010000002")
    assert not proved(SQUARE, nearby, worker, floats(0.3), tolerance=EXACT).ok
    text = "g (float[N] x) => (float[N] y) { y = Abs (x) }"
    zero = proved(text, text.replace("Abs", "Neg"), worker, floats(0.0, -1.0), tolerance=EXACT)
    assert [error.why for error in zero.twin_errors] == ["differs in the sign of a zero"]


def test_first_difference_names_an_output_that_differs_in_any_bit(worker: Worker) -> None:
    source = read_model(parsed(ZEROS.replace("OP", "Abs")))
    sample = [floats(1.0, 0.0)]
    same = ir.from_proto(parsed(ZEROS.replace("OP", "Identity")))
    assert first_difference(source, same, sample, worker) == ""
    other = ir.from_proto(parsed(ZEROS.replace("OP", "Neg")))
    assert first_difference(source, other, sample, worker) == "z"
    # Only the sign of the zero differs.
    assert first_difference(source, other, [floats(0.0)], worker) == "z"


def test_each_step_is_told(worker: Worker) -> None:
    steps: list[str] = []
    source, result = read_model(parsed(SQUARE)), ir.from_proto(parsed(SQUARE_16))
    with against(source, [floats(1000.0)], FLOAT16, worker, steps.append) as prover:
        prove(prover, result, steps.append)
    assert steps == [
        "run the source",
        "run the result as is",
        "run the twin",
        "look for the first diverging node",
    ]


STORED = """g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {0.1, 0.2, 0.3, 0.4}> {
    w16 = Cast <to = 10> (w) v = Cast <to = 1> (w16) y = MatMul (x, v)
}"""
WIDE = STORED.replace("w16 = Cast <to = 10> (w) v = Cast <to = 1> (w16)", "v = Identity (w)")


def stored() -> onnx.ModelProto:
    """The weights of WIDE stored as float16: no node gives a narrow result."""
    model = parsed(STORED)
    weights = onnx.numpy_helper.to_array(model.graph.initializer[0]).astype(np.float16)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "w16"))
    del model.graph.node[0]
    return model


NARROW_INPUT = """g (float16[2,2] x) => (float[2,2] y) <float[2,2] w = {0.1, 0.2, 0.3, 0.4}> {
    u = Cast <to = 1> (x) y = MatMul (u, w)
}"""
IN_FUNCTION = """g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {0.1, 0.2, 0.3, 0.4}> {
    v = local.Round (w) y = MatMul (x, v)
} <domain: "local", opset_import: ["": 21]>
Round (a) => (b) { l = Cast <to = 10> (a) b = Cast <to = 1> (l) }"""


@pytest.mark.parametrize(
    "after",
    [STORED, IN_FUNCTION, NARROW_INPUT, None],
    ids=["a pair of Casts", "in a function", "an input", "weights"],
)
def test_verify_takes_the_tolerance_of_the_narrowest_value_anywhere(after: str | None) -> None:
    model = stored() if after is None else parsed(after)
    proof = onnxcast.verify(parsed(WIDE), model)
    assert proof.ok
    assert proof.tolerance == FLOAT16
    assert 0 < proof.twin_errors[0].max_error < 1e-3


def test_verify_compares_inputs_that_have_no_value_of_their_own() -> None:
    as_input = parsed("g (float[2,2] x, float[2,2] w) => (float[2,2] y) { y = MatMul (x, w) }")
    array = np.full((2, 2), 0.5, np.float32)
    as_input.graph.initializer.append(onnx.numpy_helper.from_array(array, "w"))
    inside = parsed("g (float[2,2] x) => (float[2,2] y) { y = MatMul (x, w) }")
    inside.graph.initializer.append(onnx.numpy_helper.from_array(array, "w"))
    assert onnxcast.verify(as_input, inside).ok
    assert onnxcast.verify(inside, as_input).ok
    other = parsed("g (float[2,2] z) => (float[2,2] y) { y = MatMul (z, z) }")
    with pytest.raises(onnxcast.InputError, match="second model has inputs z, the first has x:"):
        onnxcast.verify(inside, other)


@pytest.mark.parametrize("x", [np.full(1, np.nan, np.float32), np.zeros(0, np.float32)])
def test_samples_that_give_nothing_to_compare_prove_nothing(x: Array, worker: Worker) -> None:
    text = "g (float[n] x) => (float[n] y) { y = Mul (x, x) }"
    with pytest.raises(RefusedError, match="nothing but NaN or empty outputs"):
        proved(text, text, worker, {"x": x})
