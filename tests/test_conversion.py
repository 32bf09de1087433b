"""From a source to a proved result: the opset, the record, and what makes a run repeatable."""

import contextlib
import gc
import importlib.metadata
import json
import re
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import numpy_helper

import onnxcast
from onnxcast.graph.opsets import raise_opset
from onnxcast.report import measure
from onnxcast.targets import GENERIC
from onnxcast.verification.comparison import Tolerance
from onnxcast.verification.session import Worker
from onnxcast.verification.values import Feeds, Value


@pytest.fixture(scope="module", autouse=True)
def one_child() -> Iterator[None]:
    """One process that runs onnxruntime for all tests here: starting it takes the most time."""
    with Worker() as worker, pytest.MonkeyPatch.context() as patch:
        patch.setattr("onnxcast.api.Worker", lambda: contextlib.nullcontext(worker))
        yield


TOKENS = ["all-fp16", "all-bf16", "matmult-fp16", "matmult-bf16", "none"]
NEWEST = onnx.defs.onnx_opset_version()


def parsed(text: str, imports: str = '"": 21, "local": 1') -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(
        f"<ir_version: 8, opset_import: [{imports}]> {text}"
    )
    return model


def weights(rows: int, columns: int, name: str) -> onnx.TensorProto:
    generator = np.random.default_rng(len(name) + rows)
    array = generator.uniform(-1, 1, (rows, columns)).astype(np.float32)
    return numpy_helper.from_array(array, name)


MLP = """g (float[N,8] x) => (float[N,4] y) {
    [first] h = MatMul (x, w1)
    [act] a = Relu (h)
    [second] y = MatMul (a, w2)
}"""


def mlp(imports: str = '"": 21') -> onnx.ModelProto:
    model = parsed(MLP, imports)
    model.graph.initializer.extend([weights(8, 16, "w1"), weights(16, 4, "w2")])
    return model


def branches() -> onnx.ModelProto:
    model = parsed(
        """g (float[2,8] x, bool c) => (float[2,8] y, int64[2] k) {
            n = MatMul (x, w)
            y = If (c) <
                then_branch = then () => (float[2,8] t) { u = MatMul (n, w) t = Tanh (u) },
                else_branch = other () => (float[2,8] e) { e = Softmax (n) }
            >
            k = ArgMax <axis = 1, keepdims = 0> (n)
        }"""
    )
    model.graph.initializer.append(weights(8, 8, "w"))
    return model


def function() -> onnx.ModelProto:
    model = parsed(
        """g (float[2,8] x) => (float[2,8] y) {
            [before] h = MatMul (x, w)
            [call] a = local.Act (h)
            [after] y = MatMul (a, w)
        }
        <domain: "local", opset_import: ["": 21]>
        Act (a) => (b) { s = Sigmoid (a) b = Mul (a, s) }"""
    )
    model.graph.initializer.append(weights(8, 8, "w"))
    return model


def narrow_already() -> onnx.ModelProto:
    model = parsed(
        """g (float16[2,8] x) => (float[2,8] y, float16[2,8] z) {
            v = Cast <to = 1> (x)
            h = MatMul (v, w)
            z = Cast <to = 10> (h)
            d = Cast <to = 11> (h)
            e = Cast <to = 1> (d)
            y = Exp (e)
        }"""
    )
    model.graph.initializer.append(weights(8, 8, "w"))
    return model


def contrib() -> onnx.ModelProto:
    model = parsed(
        """g (float[8,8] x) => (float[8,8] y) {
            h = MatMul (x, w)
            f = com.microsoft.FusedMatMul (h, w)
            i = com.microsoft.Inverse (f)
            y = MatMul (i, w)
        }""",
        '"": 21, "com.microsoft": 1',
    )
    model.graph.initializer.append(weights(8, 8, "w"))
    return model


def old() -> onnx.ModelProto:
    model = parsed(
        """g (float[2,8] x) => (float[a,b] y) {
            [sum] h = ReduceSum <axes = [1]> (x)
            [wide] m = MatMul (x, w)
            [add] s = Add (m, h)
            [soft] y = Softmax (s)
        }""",
        '"": 11',
    )
    model.graph.initializer.append(weights(8, 8, "w"))
    return model


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    each.__name__: each for each in (mlp, branches, function, narrow_already, contrib, old)
}


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("token", TOKENS)
def test_a_second_run_on_the_result_gives_the_same_file(
    name: str, token: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    once = onnxcast.optimize(saved(MODELS[name](), tmp_path), fp32_cast=token)
    assert once.modified
    once.save(first)
    twice = onnxcast.optimize(first, fp32_cast=token)
    assert not twice.modified
    twice.save(second)
    assert second.read_bytes() == first.read_bytes()


@pytest.mark.parametrize("name", MODELS)
def test_without_the_provenance_a_second_run_changes_only_that(name: str) -> None:
    once = onnxcast.optimize(MODELS[name](), fp32_cast="all-fp16", verify=False).to_proto()
    bare = onnx.ModelProto()
    bare.CopyFrom(once)
    del bare.metadata_props[:]
    again = onnxcast.optimize(bare, fp32_cast="all-fp16", verify=False).to_proto()
    assert again == once


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("token", ["all-fp16", "none"])
def test_a_path_and_models_in_memory_give_the_same_bytes_and_stay(
    name: str, token: str, tmp_path: Path
) -> None:
    proto = MODELS[name]()
    path, model = saved(proto, tmp_path), ir.from_proto(proto)
    exported = types.SimpleNamespace(model=ir.from_proto(proto))
    files = path.read_bytes()
    protos = [
        each.SerializeToString(deterministic=True)
        for each in (proto, ir.to_proto(model), ir.to_proto(exported.model))
    ]
    found: set[bytes] = set()
    for index, kind in enumerate((path, proto, model, exported)):
        output = tmp_path / f"{index}.onnx"
        onnxcast.optimize(kind, fp32_cast=token).save(output)
        found.add(output.read_bytes())
    assert len(found) == 1
    assert path.read_bytes() == files
    after = (proto, ir.to_proto(model), ir.to_proto(exported.model))
    assert [each.SerializeToString(deterministic=True) for each in after] == protos


def test_the_origin_is_written_once_and_the_models_own_metadata_stays() -> None:
    model = mlp()
    onnx.helper.set_model_props(model, {"author": "me"})
    once = onnxcast.optimize(model, fp32_cast="all-fp16", verify=False)
    assert once.model.metadata_props == {
        "author": "me",
        "onnxcast.version": importlib.metadata.version("onnxcast"),
        "onnxcast.token": "all-fp16",
        "onnxcast.target": "generic",
        "onnxcast.target_hash": GENERIC.digest,
    }
    twice = onnxcast.optimize(once.model, fp32_cast="all-fp16", verify=False)
    assert twice.model.metadata_props == once.model.metadata_props
    other = onnxcast.optimize(once.model, fp32_cast="none", verify=False)
    assert other.modified
    assert other.model.metadata_props["onnxcast.token"] == "none"


def test_the_opset_is_raised_as_far_as_the_format_needs_and_said() -> None:
    for token, wanted in (("all-fp16", 11), ("all-bf16", 13), ("none", 11)):
        result = onnxcast.optimize(old(), fp32_cast=token)
        assert result.report.opset == (11, wanted)
        assert result.model.opset_imports[""] == wanted
        raised = [each for each in result.report.findings if each.code.name == "OPSET_RAISED"]
        assert [str(each) for each in raised] == (
            ["OC301 opset raised from 11 to 13"] if wanted == 13 else []
        )


def test_a_raised_model_keeps_the_declared_inputs_and_outputs() -> None:
    graph = onnxcast.optimize(old(), fp32_cast="all-bf16").to_proto().graph
    assert list(graph.input) == list(old().graph.input)
    assert list(graph.output) == list(old().graph.output)


CONVOLUTION = "g (float[1,2,4,4] x, float[2,2,1,1] w) => (float[1,2,4,4] y) { y = Conv (x, w) }"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (CONVOLUTION, 22),
        ("g (float[1,2,4,4] x) => (float[1,2,1,1] y) { y = GlobalAveragePool (x) }", 22),
        # A MatMul is narrow at 13, so the activation alone raises nothing.
        ("g (float[2,2] x) => (float[2,2] y) { h = MatMul (x, x) y = Elu (h) }", 13),
        ("g (float[2,2] x) => (float[2,2] y) { y = ReduceSum <axes = [0]> (x) }", 13),
    ],
)
def test_the_opset_is_raised_to_where_matmuls_run_in_the_format(text: str, wanted: int) -> None:
    source = parsed(text, '"": 11')
    result = onnxcast.optimize(source, fp32_cast="all-bf16")
    assert result.report.opset == (11, wanted)
    again = onnxcast.optimize(result.model, fp32_cast="all-bf16")
    assert again.to_proto() == result.to_proto()


def test_what_nobody_reads_has_no_say_in_how_far_the_opset_is_raised() -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]> g (float[4] x) => (float[4] y) {
        h = HardSigmoid (x) y = HardSigmoid (h) d = Neg (x) e = Abs (d)
    }"""
    first = onnxcast.optimize(onnx.parser.parse_model(text), fp32_cast="all").to_proto()
    assert first.opset_import[0].version == 22
    assert onnxcast.optimize(first, fp32_cast="all").to_proto() == first


def test_a_model_that_cannot_go_so_far_keeps_the_opset_that_it_needs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def without_22(model: ir.Model, version: int) -> ir.Model:
        if version == 22:
            raise onnxcast.RefusedError("no adapter")
        return raise_opset(model, version)

    monkeypatch.setattr("onnxcast.original.raise_opset", without_22)
    with caplog.at_level("INFO", "onnxcast"):
        result = onnxcast.optimize(parsed(CONVOLUTION, '"": 11'), fp32_cast="all-bf16")
    assert result.report.opset == (11, 13)
    assert "some ops do not run in bfloat16: no adapter" in caplog.text
    assert result.report.plan is not None
    assert result.report.plan.held_back() == {("Conv", 22): 1}


def test_keep_refuses_where_the_opset_is_too_low_and_else_keeps() -> None:
    with pytest.raises(onnxcast.RefusedError, match="all-bf16 needs opset 13, the model is at 11"):
        onnxcast.optimize(old(), fp32_cast="all-bf16", opset="keep")
    kept = onnxcast.optimize(old(), fp32_cast="all-fp16", opset="keep", verify=False)
    assert kept.report.opset == (11, 11)


@pytest.mark.parametrize("opset", [18, "18"])
@pytest.mark.parametrize("token", ["all-fp16", "none"])
def test_a_number_raises_to_that_opset(opset: int | str, token: str) -> None:
    result = onnxcast.optimize(old(), fp32_cast=token, opset=opset)
    assert result.report.opset == (11, 18)
    assert result.modified
    assert result.report.proof is not None
    assert result.report.proof.ok


@pytest.mark.parametrize(
    ("opset", "said"),
    [
        ("new", "opset 'new': auto, keep or a number is wanted"),
        ("²", "opset '²': auto, keep or a number is wanted"),
        ("", "opset '': auto, keep or a number is wanted"),
        (-1, "opset -1: auto, keep or a number is wanted"),
        (True, "opset True: auto, keep or a number is wanted"),
        (None, "opset None: auto, keep or a number is wanted"),
        (9, "opset 9 is less than all-bf16 on this model needs: give 13 or more"),
        (12, "opset 12 is less than all-bf16 on this model needs: give 13 or more"),
        (NEWEST + 1, f"opset {NEWEST + 1} wanted: the installed onnx knows 1 to {NEWEST}"),
        (10**30, f"opset {10**30} wanted: the installed onnx knows 1 to {NEWEST}"),
    ],
)
def test_any_other_opset_is_an_input_error(opset: object, said: str) -> None:
    with pytest.raises(onnxcast.InputError, match=f"^{re.escape(said)}$"):
        onnxcast.optimize(old(), fp32_cast="all-bf16", opset=opset)  # type: ignore[arg-type] # bad on purpose


def test_a_raise_that_changes_a_bit_is_refused() -> None:
    # onnx's converter leaves Hardmax as it is, whose axis means something else from 13 on.
    model = parsed("g (float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax (x) }", '"": 11')
    with pytest.raises(onnxcast.RefusedError) as caught:
        onnxcast.optimize(model, fp32_cast="all-bf16")
    assert str(caught.value) == (
        "output 'y' changes when the opset is raised from 11 to 13: export the model at opset 13"
    )


def test_a_model_without_onnx_ops_gets_an_opset_with_casts() -> None:
    model = parsed(
        """g (float[2,2] x) => (float[2,2] y) {
            y = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x)
        }""",
        '"ai.onnx.ml": 3',
    )
    result = onnxcast.optimize(model, fp32_cast="all-fp16")
    assert result.report.opset == (None, 13)
    assert onnxcast.optimize(model, fp32_cast="none").report.opset == (None, None)
    with pytest.raises(onnxcast.RefusedError, match="needs opset 13"):
        onnxcast.optimize(model, fp32_cast="all-fp16", opset="keep")


def test_types_of_unknown_ops_are_learned_from_a_run() -> None:
    steps: list[str] = []
    result = onnxcast.optimize(contrib(), fp32_cast="all-fp16", progress=steps.append)
    assert "ask onnxruntime for types" in steps
    assert result.report.plan is not None
    rows = {row["op"]: row for row in result.report.plan.rows()}
    assert rows["com.microsoft.Inverse"]["reason"] == "OPAQUE"
    last = [row for row in result.report.plan.rows() if row["op"] == "MatMul"][-1]
    assert last["format"] == "float16"


@pytest.mark.parametrize("token", TOKENS)
def test_what_is_learned_from_a_run_is_not_declared_in_the_result(token: str) -> None:
    model = parsed(
        """g (float[8,8] x) => (float[8,8] y) {
            h = MatMul (x, x)
            i = com.microsoft.Inverse (h)
            j = com.microsoft.Inverse (i)
            y = com.microsoft.Inverse (j)
        }""",
        '"": 21, "com.microsoft": 1',
    )
    steps: list[str] = []
    proved = onnxcast.optimize(model, fp32_cast=token, progress=steps.append)
    assert "ask onnxruntime for types" in steps
    assert {"i", "j"}.isdisjoint(info.name for info in proved.to_proto().graph.value_info)
    plain = onnxcast.optimize(model, fp32_cast=token, verify=False)
    assert proved.to_proto() == plain.to_proto()


def test_an_op_that_onnxruntime_lacks_is_refused_on_one_line() -> None:
    model = parsed("g (float[N] x) => (float[N] y) { h = local.Unknown (x) y = Neg (h) }")
    with pytest.raises(onnxcast.RefusedError, match=r"Unknown.*skip the proof with --no-verify"):
        onnxcast.optimize(model, fp32_cast="all-fp16")
    result = onnxcast.optimize(model, fp32_cast="all-fp16", verify=False)
    assert result.report.proof is None
    assert result.report.inputs == "not verified"


def test_external_data_elsewhere_needs_no_particular_folder(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    path = folder / "model.onnx"
    onnx.save(old(), path, save_as_external_data=True, location="w.data", size_threshold=0)
    for token in ("none", "all-bf16"):
        result = onnxcast.optimize(path, fp32_cast=token)
        result.save(tmp_path / f"{token}.onnx")
        wanted = onnxcast.optimize(old(), fp32_cast=token).to_proto()
        assert onnx.load(tmp_path / f"{token}.onnx").graph == wanted.graph


SQUARE = """g (float[N] x) => (float[N] y, float[N] z) {
    [square] h = Mul (x, x)
    [small] s = Mul (h, k)
    [half] y = Mul (s, k)
    [other] o = Add (x, x)
    z = Neg (o)
}"""


def square() -> onnx.ModelProto:
    model = parsed(SQUARE)
    model.graph.initializer.append(numpy_helper.from_array(np.array([1e-2], np.float32), "k"))
    return model


LARGE = {"x": np.array([1000.0, 1.0], np.float32)}


def test_a_result_that_does_not_verify_is_never_returned() -> None:
    with pytest.raises(onnxcast.VerificationError) as caught:
        onnxcast.optimize(square(), fp32_cast="all-fp16", inputs=LARGE, repair=False)
    said = str(caught.value)
    assert said.startswith("output 'y' does not match: element [0] is inf, the reference has 100 ")
    assert "first diverging node: square (Mul): element [0] is inf" in said
    assert "\n" not in said


def test_keeping_the_named_node_mends_it() -> None:
    by_node = onnxcast.optimize(
        square(), fp32_cast="all-fp16", inputs=LARGE, keep_nodes=["sq*", "small"]
    )
    by_op = onnxcast.optimize(square(), fp32_cast="all-fp16", inputs=LARGE, keep_ops=["Mul"])
    for result, reason in ((by_node, "KEEP_NODE"), (by_op, "KEEP_OP")):
        assert result.report.plan is not None
        rows = {row["node"]: row for row in result.report.plan.rows()}
        for name in ("square", "small"):
            assert (rows[name]["format"], rows[name]["reason"]) == ("float32", reason)
        assert rows["other"]["format"] == "float16"


def test_a_keep_pattern_that_matches_nothing_is_an_input_error() -> None:
    with pytest.raises(onnxcast.InputError, match="no node of the model matches 'squares'"):
        onnxcast.optimize(square(), fp32_cast="all-fp16", keep_nodes=["squares"])


def test_the_tolerance_is_a_number_or_both_figures() -> None:
    for given, wanted in (
        (None, Tolerance(1e-2, 1e-2)),
        (0.5, Tolerance(0.5, 0.5)),
        (Tolerance(max=0.3, rms=0.2), Tolerance(0.3, 0.2)),
    ):
        proof = onnxcast.optimize(mlp(), fp32_cast="all-fp16", tolerance=given).report.proof
        assert proof is not None
        assert proof.tolerance == wanted
    for strict in (1e-7, Tolerance(max=1.0, rms=1e-7)):
        with pytest.raises(onnxcast.VerificationError, match="rms error"):
            onnxcast.optimize(mlp(), fp32_cast="all-fp16", tolerance=strict, repair=False)


def test_scope_none_is_compared_bit_for_bit() -> None:
    result = onnxcast.optimize(branches(), fp32_cast="none")
    assert result.report.proof is not None
    assert result.report.proof.tolerance == Tolerance(0.0, 0.0)
    assert {error.max_error for error in result.report.proof.twin_errors} == {0.0}


def test_a_narrow_source_verifies_in_scope_none() -> None:
    model = parsed(
        """g (float16[2,8] x) => (float16[2,8] y) {
            a = Exp (x)
            b = Mul (a, x)
            c = Cast <to = 1> (b)
            d = Cast <to = 10> (c)
            y = Sqrt (d)
        }"""
    )
    result = onnxcast.optimize(model, fp32_cast="none")
    proof = result.report.proof
    assert proof is not None
    assert (proof.reference, proof.as_is) == ("source's twin", "ran")
    assert {error.max_error for error in proof.twin_errors} == {0.0}
    assert result.report.after.casts == 0


def test_the_report_is_json_that_says_the_same() -> None:
    report = onnxcast.optimize(old(), fp32_cast="all-bf16").report
    read = json.loads(report.to_json())
    assert read == json.loads(json.dumps(report.to_dict()))
    assert read["opset"] == {"before": 11, "after": 13}
    assert read["token"] == "all-bf16"
    assert read["verification"]["ok"] is True
    assert read["verification"]["twin"] == "ran"
    assert read["inputs"] == "1 made-up sample, seed 0"
    assert {each["kind"] for each in read["findings"]} >= {"OPSET_RAISED", "CAST_ADDED"}
    assert set(read["seconds"]) >= {"read the model", "Autocast", "verify"}


def test_each_step_is_told_as_it_begins() -> None:
    steps: list[str] = []
    onnxcast.optimize(old(), fp32_cast="all-bf16", progress=steps.append)
    wanted = [
        "read the model",
        "raise the opset to 13",
        "Autocast",
        "check the result",
        "run the source",
        "verify",
        "run the twin",
        "run the result as is",
    ]
    assert [step for step in steps if step in wanted] == wanted


def test_made_up_samples_have_the_shapes_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []

    class Watching(Worker):
        def run(
            self, model: Path, feeds: Sequence[Feeds], **options: Any
        ) -> list[dict[str, Value]]:
            seen.extend(np.asarray(sample["x"]).shape for sample in feeds)
            return super().run(model, feeds, **options)

    monkeypatch.setattr("onnxcast.api.Worker", Watching)
    onnxcast.optimize(mlp(), fp32_cast="all-fp16", input_shapes={"x": (5, 8)})
    assert set(seen) == {(5, 8)}
    with pytest.raises(onnxcast.InputError, match="input 'x': shape"):
        onnxcast.optimize(mlp(), fp32_cast="all-fp16", input_shapes={"x": (5, 9)})
    with pytest.raises(onnxcast.InputError, match="not both"):
        onnxcast.optimize(
            mlp(), inputs={"x": np.ones((1, 8), np.float32)}, input_shapes={"x": (1, 8)}
        )


def test_samples_given_are_used_and_named(tmp_path: Path) -> None:
    samples = [{"x": np.full((rows, 8), 0.5, np.float32)} for rows in (1, 3)]
    result = onnxcast.optimize(mlp(), fp32_cast="all-fp16", inputs=samples)
    assert result.report.inputs == "2 samples from memory"
    assert result.report.proof is not None
    assert result.report.proof.samples == 2
    path = tmp_path / "sample.npz"
    np.savez(path, x=samples[0]["x"])
    result = onnxcast.optimize(mlp(), fp32_cast="all-fp16", inputs=path)
    assert result.report.inputs == f"1 sample from {path}"


def test_a_source_that_only_the_basic_check_accepts_still_converts() -> None:
    model = mlp()
    # What is declared for h is wrong, and nobody needs it.
    model.graph.value_info.append(
        onnx.helper.make_tensor_value_info("h", onnx.TensorProto.FLOAT, [3, 5, 7])
    )
    onnx.checker.check_model(model)
    with pytest.raises(onnx.shape_inference.InferenceError):
        onnx.checker.check_model(model, full_check=True)
    result = onnxcast.optimize(model, fp32_cast="all-fp16")
    assert result.report.proof is not None
    assert result.report.proof.ok


def test_an_op_whose_body_onnx_cannot_check_still_converts() -> None:
    # Without axes the full check of opset 13 fails in the op's function body.
    model = parsed(
        "g (float[2,3,4,5] x) => (float[2,3,4,5] y) {"
        " h = MeanVarianceNormalization (x) y = Relu (h) }",
        '"": 13',
    )
    onnx.checker.check_model(model)
    with pytest.raises(onnx.shape_inference.InferenceError):
        onnx.checker.check_model(model, full_check=True)
    result = onnxcast.optimize(model, fp32_cast="all-fp16")
    assert result.report.proof is not None
    assert result.report.proof.ok


def test_a_source_whose_full_check_stops_at_an_unknown_op_still_converts() -> None:
    # The check accepts the wrong rank of y only for the op before it, which nobody reads.
    model = parsed("g (float[2,2] x) => (float[2] y) { dead = local.Unknown (x) y = Sub (x, x) }")
    onnx.checker.check_model(model, full_check=True)
    result = onnxcast.optimize(model, fp32_cast="all-fp16", verify=False)
    assert list(result.to_proto().graph.output) == list(model.graph.output)


def test_an_output_of_another_type_than_declared_is_an_input_error() -> None:
    model = parsed("g (float[2] x) => (int64[2] y) { y = Relu (x) }")
    onnx.checker.check_model(model)
    said = r"output 'y' is declared tensor\(int64\), it is tensor\(float\)"
    for token in TOKENS:
        with pytest.raises(onnxcast.InputError, match=said):
            onnxcast.optimize(model, fp32_cast=token)


def test_a_dead_cast_to_no_type_goes() -> None:
    model = parsed("g (float[2] x) => (float[2] y) { d = Cast <to = 99> (x) y = Relu (x) }")
    result = onnxcast.optimize(model, fp32_cast="all-fp16", verify=False)
    assert [
        node.attributes["to"].as_int() for node in result.model.graph if node.op_type == "Cast"
    ] == [10, 1]


def old_function() -> onnx.ModelProto:
    return parsed(
        """g (float[2,2] x) => (float[2,2] y) { [call] y = local.F (x) }
        <domain: "local", opset_import: ["": 11]> F (a) => (b) { b = Softmax (a) }""",
        '"": 11, "local": 1',
    )


@pytest.mark.parametrize("in_memory", [True, False])
def test_functions_are_inlined_before_the_opset_is_raised(in_memory: bool, tmp_path: Path) -> None:
    model = old_function() if in_memory else saved(old_function(), tmp_path)
    result = onnxcast.optimize(model, fp32_cast="all-bf16", functions="inline")
    assert result.report.opset == (11, 13)
    assert not result.model.functions
    assert result.report.proof is not None
    assert result.report.proof.ok


def test_a_function_that_cannot_be_raised_says_that_inlining_helps() -> None:
    with pytest.raises(
        onnxcast.RefusedError, match=r"or inline its functions \(--functions inline\)"
    ):
        onnxcast.optimize(old_function(), fp32_cast="all-bf16")


@pytest.mark.parametrize("found", [True, False])
def test_the_garbage_collector_is_as_it_was(found: bool) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    )
    asked: list[bool] = []

    def choose(_node: ir.Node) -> str | None:
        asked.append(gc.isenabled())
        return None if found else "neither"

    with contextlib.nullcontext() if found else pytest.raises(onnxcast.InputError):
        onnxcast.optimize(model, fp32_cast="all-fp16", policy=choose, verify=False)
    assert asked
    assert not any(asked)
    assert gc.isenabled()


@pytest.mark.parametrize("minimise", ["bytes", "casts"])  # by casts the plan asks for none at all
def test_shapes_that_only_the_costs_ask_for_are_those_of_the_source(minimise: str) -> None:
    # All floats have a shape, so the plan asks for none; the whole numbers in front of a Cast lack
    # theirs, and the nodes behind it are others by the time that the result is measured.
    model = parsed(
        """g (float[4,4] x, bool c) => (float[4,4] y, float[2] sf) <float[4,4] m, float[4,4] i> {
            m = MatMul (x, w)
            s = Shape (x)
            s2 = Identity (s)
            sf = Cast <to = 1> (s2)
            i = If (c) <
                then_branch = then () => (float[4,4] t) { t = Relu (m) },
                else_branch = other () => (float[4,4] e) { e = Neg (m) }
            >
            y = MatMul (i, w)
        }"""
    )
    model.graph.initializer.append(weights(4, 4, "w"))
    result = onnxcast.optimize(model, fp32_cast="all-fp16", minimise=minimise, verify=False)
    report = result.report
    assert report.before.cast_bytes == 2 * 4
    assert report.after.cast_bytes > report.before.cast_bytes


def test_a_value_that_takes_over_an_output_is_measured_by_what_that_declares() -> None:
    model = parsed(
        """g (float[4,4] x) => (float16[A,B] c, float[4,4] k) {
            e = Neg (x) c = Cast <to = 10> (e) k = Asin (e)
        }""",
        '"": 21',
    )
    result = onnxcast.optimize(model, fp32_cast="all-fp16", keep_ops=["Asin"], verify=False)
    assert result.report.after == measure(result.model, GENERIC)


def test_an_overload_that_is_a_function_is_no_op_of_the_same_name() -> None:
    model = parsed(
        """g (float[4,4] x) => (float[4,4] y) { m = MatMul (x, w) p = Relu (m) y = Relu (p) }"""
    )
    model.ir_version = 10
    model.graph.initializer.append(weights(4, 4, "w"))
    model.graph.node[2].overload = "fast"
    constant = onnx.helper.make_node("Constant", [], ["k"], value_float=1.0)
    add = onnx.helper.make_node("Add", ["a", "k"], ["b"])
    opsets = [onnx.helper.make_opsetid("", 21)]
    fast = onnx.helper.make_function("", "Relu", ["a"], ["b"], [constant, add], opsets)
    fast.overload = "fast"
    model.functions.append(fast)
    result = onnxcast.optimize(model, fp32_cast="all-fp16", functions="keep", verify=False)
    assert result.report.plan is not None
    kinds = {group.node.overload: group.kind.name for group in result.report.plan.decisions}
    assert kinds == {"": "SCHEMA", "fast": "CALL"}


def test_tensors_of_a_model_in_memory_are_measured_anew_and_left_alone() -> None:
    model = parsed("g (float[4,4] x) => (float[4,4] y) { w = Constant () y = MatMul (x, w) }")
    model.graph.node[0].attribute.add().CopyFrom(
        onnx.helper.make_attribute("value", weights(4, 4, "w"))
    )
    source = ir.from_proto(model)
    tensor = source.graph[0].attributes["value"].as_tensor()
    assert onnxcast.optimize(source, fp32_cast="all-fp16", verify=False).modified
    assert not tensor.meta
    tensor.raw.raw_data = np.full((4, 4), 1e6, np.float32).tobytes()
    report = onnxcast.optimize(source, fp32_cast="all-fp16", verify=False).report
    assert report.plan is not None
    assert "OUT_OF_RANGE" in {each.reason.name for each in report.plan.decisions.values()}
