"""The first node that is non-finite, or else that leaves the tolerance while its inputs do not."""

import itertools
import pathlib
from collections.abc import Iterator

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from onnxcast.files import commit
from onnxcast.verification.comparison import Tolerance
from onnxcast.verification.divergence import first_diverging
from onnxcast.verification.layers import measure_layers
from onnxcast.verification.session import Worker
from onnxcast.verification.values import Feeds

HEADER = '<ir_version: 10, opset_import: ["": 21]>'
TOLERANCE = Tolerance(1e-2, 1e-2)
ONES: Feeds = {"x": np.ones(2, np.float32)}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path


def load(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(HEADER + text))


def chain(**factors: float) -> str:
    """A chain of Muls: node and result of each bear its name, and its factor is given."""
    constants = ", ".join(f"float[1] k_{name} = {{{k}}}" for name, k in factors.items())
    names = ["x", *factors]
    nodes = " ".join(
        f"[{name}] {name} = Mul ({before}, k_{name})" for before, name in itertools.pairwise(names)
    )
    return f"g (float[2] x) => (float[2] {names[-1]}) <{constants}> {{ {nodes} }}"


def diverging(
    before: str, after: str, worker: Worker, folder: pathlib.Path, *samples: Feeds
) -> str:
    feeds = list(samples) or [ONES]
    models = load(before), load(after)
    layers = measure_layers(*models, (feeds, feeds), TOLERANCE, worker, folder)
    return first_diverging(models[0], layers)


def test_nothing_diverges_in_equal_models(worker: Worker, folder: pathlib.Path) -> None:
    assert diverging(chain(a=2, b=3), chain(a=2, b=3), worker, folder) == ""


def test_errors_within_the_tolerance_do_not_count(worker: Worker, folder: pathlib.Path) -> None:
    assert diverging(chain(a=2, b=3), chain(a=2.01, b=3), worker, folder) == ""


def test_it_is_the_first_whose_error_exceeds_the_tolerance(
    worker: Worker, folder: pathlib.Path
) -> None:
    before, after = chain(a=2, b=3, c=5, d=7), chain(a=2.01, b=4, c=6, d=7)
    found = diverging(before, after, worker, folder)
    assert found == "b (Mul): max error 0.34 is above 0.01, rms error 0.34 is above 0.01"


def test_an_error_that_heals_later_is_still_the_first(worker: Worker, folder: pathlib.Path) -> None:
    found = diverging(chain(a=2, b=3, c=1), chain(a=4, b=1.5, c=1.5), worker, folder)
    assert found.startswith("a (Mul)")


def test_a_non_finite_node_comes_before_an_earlier_finite_error(
    worker: Worker, folder: pathlib.Path
) -> None:
    before, after = chain(a=2, b=3, c=5), chain(a=4, b=3e38, c=3e38)
    found = diverging(before, after, worker, folder)
    assert found == "b (Mul): element [0] is inf, the reference has 6 (2 such)"


def test_of_several_non_finite_nodes_it_is_the_first(worker: Worker, folder: pathlib.Path) -> None:
    found = diverging(chain(a=2, b=3, c=1), chain(a=2, b=3e38, c=0), worker, folder)
    assert found.startswith("b (Mul): element [0] is inf")
    nan = diverging(chain(a=3e38, b=10, c=1), chain(a=3e38, b=10, c=0), worker, folder)
    # The reference is infinite at both places: NaN there is wrong, and no new non-finite element.
    assert nan == "c (Mul): element [0] is nan, the reference has inf (2 such)"


def test_where_the_reference_is_not_finite_either_nothing_diverges(
    worker: Worker, folder: pathlib.Path
) -> None:
    overflow = chain(a=3e38, b=10, c=2)
    assert diverging(overflow, overflow, worker, folder) == ""


def test_a_finite_value_where_the_reference_is_infinite_is_an_ordinary_error(
    worker: Worker, folder: pathlib.Path
) -> None:
    found = diverging(chain(a=1, b=3e38, c=10), chain(a=1, b=3e38, c=1), worker, folder)
    assert found == "c (Mul): element [0] is 3e+38, the reference has inf (2 such)"


def test_any_sample_can_diverge(worker: Worker, folder: pathlib.Path) -> None:
    before = "g (float[2] x) => (float[2] y) { [a] h = Relu (x) [b] y = Mul (h, h) }"
    after = before.replace("Relu", "Abs")
    negative = {"x": np.array([-1, 2], np.float32)}
    assert diverging(before, after, worker, folder, ONES) == ""
    for samples in ([ONES, negative], [negative, ONES]):
        assert diverging(before, after, worker, folder, *samples).startswith("a (Relu)")


def test_integers_and_bools_diverge_by_any_difference(worker: Worker, folder: pathlib.Path) -> None:
    before = """g (float[2] x) => (float[2] y) <float[2] k = {1, 1.001}> {
        [near] h = Mul (x, k)
        [where] i = ArgMax <keepdims = 0> (h)
        [picked] y = Gather (x, i)
    }"""
    found = diverging(before, before.replace("1.001", "0.999"), worker, folder)
    assert found == "where (ArgMax): differs in 1 of 1 elements"
    compared = before.replace("ArgMax <keepdims = 0> (h)", "Greater (h, x)").replace(
        "Gather (x, i)", "Where (i, x, h)"
    )
    found = diverging(compared, compared.replace("1.001", "0.999"), worker, folder)
    assert found == "where (Greater): differs in 1 of 2 elements"


def test_values_that_only_one_of_them_has_are_left_out(
    worker: Worker, folder: pathlib.Path
) -> None:
    before = "g (float[2] x) => (float[2] y) { [a] h = Exp (x) [b] y = Mul (h, h) }"
    after = "g (float[2] x) => (float[2] y) { other = Sqrt (x) y = Mul (other, x) }"
    assert diverging(before, after, worker, folder).startswith("b (Mul)")


def test_values_that_python_cannot_take_are_left_out(worker: Worker, folder: pathlib.Path) -> None:
    before = "g (float[2] x) => (float[2] y) { [a] h = Exp (x) [b] y = Sqrt (h) }"
    after = """g (float[2] x) => (float[2] y) {
        w = Exp (x) h = Cast <to = 16> (w) v = Cast <to = 1> (h) y = Neg (v)
    }"""
    assert diverging(before, after, worker, folder).startswith("b (Sqrt)")


def test_unnamed_nodes_go_by_their_result(worker: Worker, folder: pathlib.Path) -> None:
    before = "g (float[2] x) => (float[2] y) { h = Exp (x) y = Neg (h) }"
    found = diverging(before, before.replace("Exp", "Sqrt"), worker, folder)
    assert found.startswith("Exp(-> h) (Exp): ")


def test_a_node_that_holds_a_graph_is_named_for_what_is_inside(
    worker: Worker, folder: pathlib.Path
) -> None:
    before = """g (float[2] x) => (float[2] y) <bool c = {1}> {
        [first] h = Exp (x)
        [choice] y = If (c) <
            then_branch = then () => (float[2] t) { [inner] u = Exp (h) t = Neg (u) },
            else_branch = other () => (float[2] e) { e = Neg (h) }
        >
    }"""
    found = diverging(before, before.replace("u = Exp", "u = Sqrt"), worker, folder)
    assert found.startswith("choice (If): ")


def test_many_values_are_looked_at_in_batches(
    worker: Worker, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factors = {f"n{k}": 1.0 for k in range(300)}
    written: list[int] = []

    def counting(model: ir.Model, path: pathlib.Path) -> list[pathlib.Path]:
        written.append(len(model.graph.outputs))
        return commit(model, path)

    monkeypatch.setattr("onnxcast.verification.observation.place", counting)
    found = diverging(chain(**factors), chain(**{**factors, "n200": 1.5}), worker, folder)
    assert found.startswith("n200 (Mul): max error 0.5")
    assert sorted(written) == [44, 44, 256, 256]
