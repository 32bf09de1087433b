import dataclasses
import io
import json
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

import onnxcast
from onnxcast.policy import TOKENS
from onnxcast_cli import main
from tests.cli.conftest import Command, Ran


def weight_type(path: Path) -> int:
    types = {each.name: each.data_type for each in onnx.load(path).graph.initializer}
    return int(types["w"])


def test_writes_beside_the_input_and_shows_what_was_done(
    command: Command, perceptron: Path, samples: Path
) -> None:
    ran = command("optimize", perceptron, "--fp32-cast", "all-fp16", "--inputs", samples)
    output = perceptron.with_name("perceptron.float16.onnx")
    assert ran.code == 0
    assert weight_type(output) == onnx.TensorProto.FLOAT16
    for shown in (
        "all-fp16 for target generic, opset 17",
        "narrowed as asked",
        "constants stored narrow",
        "-50.0%",
        "rounded as on the device",
        "default level",
        "1.00e-02  ok",
        str(output),
    ):
        assert shown in ran.out
    assert not ran.err


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--fp32-cast", "all"], "perceptron.bfloat16.onnx"),
        (["--fp32-cast", "none"], "perceptron.none.onnx"),
        (["--dtype", "mixed"], "perceptron.mixed.onnx"),
        (["--scope", "matmult", "--dtype", "fp16"], "perceptron.float16.onnx"),
        ([], "perceptron.float16.onnx"),
    ],
)
def test_the_default_output_bears_the_format(
    command: Command, perceptron: Path, samples: Path, options: list[str], name: str
) -> None:
    assert command("optimize", perceptron, "--inputs", samples, *options).code == 0
    assert perceptron.with_name(name).exists()


def test_json_is_the_report_and_nothing_else(
    command: Command, perceptron: Path, samples: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    ran = command("optimize", perceptron, "--inputs", samples, "--json", "--report", report)
    assert ran.code == 0
    assert json.loads(ran.out) == json.loads(report.read_text())
    assert json.loads(ran.out)["verification"]["ok"] is True
    assert ran.err.startswith("wrote ")


def test_a_scope_and_a_dtype_give_the_same_bytes_as_their_token(
    command: Command, perceptron: Path, samples: Path, tmp_path: Path
) -> None:
    by_token, by_words = tmp_path / "a.onnx", tmp_path / "b.onnx"
    shared = ["optimize", perceptron, "--inputs", samples]
    command(*shared, "--fp32-cast", "matmult-fp16", "-o", by_token)
    command(*shared, "--scope", "matmult", "--dtype", "fp16", "-o", by_words)
    assert by_token.read_bytes() == by_words.read_bytes()


def test_the_summary_says_so_if_nothing_was_narrowed(
    command: Command, perceptron: Path, samples: Path
) -> None:
    options = ["--inputs", samples, "--fp32-cast", "none"]
    assert "nothing to change" in command("optimize", perceptron, *options).out
    model = onnx.load(perceptron)
    model.graph.node.add(op_type="Relu", input=["x"], output=["unread"])
    onnx.save(model, perceptron)
    ran = command("optimize", perceptron, *options)
    assert "nothing to change" not in ran.out
    assert "only brought up and tidied" in ran.out


def test_kept_ops_and_nodes_stay_wide(command: Command, perceptron: Path, samples: Path) -> None:
    kept = ["--keep-op", "Add", "--keep-node", "lim*"]
    ran = command("optimize", perceptron, "--inputs", samples, *kept, "--json")
    formats = {group["node"]: group["format"] for group in json.loads(ran.out)["groups"]}
    assert formats == {"product": "float16", "sum": "float32", "limit": "float32"}


def test_a_made_up_sample_is_admitted(command: Command, perceptron: Path) -> None:
    ran = command("optimize", perceptron, "--input-shape", "x:3,8")
    assert ran.code == 0
    assert "warning: verified on 1 made-up sample, seed 0 only" in ran.err


def test_no_verify_is_admitted(command: Command, perceptron: Path) -> None:
    ran = command("optimize", perceptron, "--no-verify")
    assert ran.code == 0
    assert "not verified" in ran.out
    assert "warning: the result is not verified" in ran.err


def test_a_crash_of_onnxruntime_is_warned_of(
    command: Command, perceptron: Path, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimize = onnxcast.optimize

    def crashing(*args: Any, **options: Any) -> onnxcast.Result:
        result = optimize(*args, **options)
        assert result.report.proof is not None
        proof = dataclasses.replace(result.report.proof, default_level="crashed (SIGSEGV)")
        report = dataclasses.replace(result.report, proof=proof)
        return dataclasses.replace(result, report=report)

    monkeypatch.setattr(onnxcast, "optimize", crashing)
    ran = command("optimize", perceptron, "--inputs", samples)
    assert ran.code == 0
    assert "warning: loading the result at onnxruntime's default" in ran.err
    assert "SIGSEGV" in ran.err


def test_force_replaces_the_input(command: Command, perceptron: Path, samples: Path) -> None:
    ran = command("optimize", perceptron, "--inputs", samples, "-o", perceptron, "--force")
    assert ran.code == 0
    assert weight_type(perceptron) == onnx.TensorProto.FLOAT16


def test_steps_are_shown_on_a_terminal_only(
    perceptron: Path, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert main(["optimize", str(perceptron), "--inputs", str(samples)]) == 0
    assert "run the result as is" in terminal.getvalue()


def test_a_failed_proof_names_output_and_node_and_writes_nothing(
    command: Command, overflow: Path, overflow_samples: Path, tmp_path: Path
) -> None:
    before = sorted(tmp_path.iterdir())
    ran = command(
        "optimize",
        overflow,
        *("--fp32-cast", "all-fp16", "--inputs", overflow_samples),
        *("--report", tmp_path / "report.json"),
        "--no-repair",
    )
    assert ran.code == 1
    assert not ran.out
    assert ran.err.count("\n") == 1
    assert "output 'y' does not match" in ran.err
    assert "first diverging node: product" in ran.err
    assert sorted(tmp_path.iterdir()) == before


def test_a_model_that_must_keep_its_opset_is_refused(
    command: Command, perceptron: Path, tmp_path: Path
) -> None:
    model = onnx.load(perceptron)
    model.opset_import[0].version = 12
    old = tmp_path / "old.onnx"
    onnx.save(model, old)
    ran = command("optimize", old, "--fp32-cast", "all", "--opset", "keep")
    assert ran.code == 1
    assert "needs opset 13, the model is at 12" in ran.err
    assert not old.with_name("old.bfloat16.onnx").exists()


def test_neither_model_nor_report_is_written_if_one_cannot_be(
    command: Command, perceptron: Path, samples: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    def full(*_args: object, **_options: object) -> list[Path]:
        raise onnxcast.RefusedError("disk full")

    monkeypatch.setattr("onnxcast.api.save_together", full)
    before = sorted(tmp_path.iterdir())
    report = tmp_path / "report.json"
    ran = command("optimize", perceptron, "--inputs", samples, "--report", report)
    assert ran.code == 1
    assert sorted(tmp_path.iterdir()) == before


def test_help_lists_every_token(command: Command) -> None:
    text = " ".join(command("optimize", "--help").out.split()).replace("- ", "-")
    for token in TOKENS:
        assert token in text


def test_an_opset_too_old_for_the_matmuls_is_told(command: Command, tmp_path: Path) -> None:
    model = tmp_path / "conv.onnx"
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,1,4,4] x) => (float[1,1,2,2] y) <float[1,1,3,3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1}> {
        y = Conv (x, w) }"""
    onnx.save(onnx.parser.parse_model(text), model)
    ran = command("optimize", model, "--fp32-cast", "matmult-bf16", "--opset", "keep")
    assert ran.code == 0
    told = "warning: 1 Conv compute in float32 on rounded operands"
    assert f"{told}: the op takes the format from opset 22 on" in ran.err
    ran = command("optimize", model, "--fp32-cast", "matmult-bf16", "--json")
    assert "compute in float32" not in ran.err
    assert json.loads(ran.out)["opset"] == {"before": 17, "after": 22}


def groups(ran: Ran) -> dict[str, tuple[str, str, str]]:
    """Format, reason and detail by node, from the report on the standard output."""
    assert ran.code == 0, ran.err
    return {
        group["node"]: (group["format"], group["reason"], group["detail"])
        for group in json.loads(ran.out)["groups"]
    }


def test_what_is_to_be_narrowed_reaches_the_result(command: Command, perceptron: Path) -> None:
    asked = ["--fp32-cast", "matmult-fp16", "--narrow-op", "Add", "--narrow-node", "re:li.it"]
    found = groups(command("optimize", perceptron, "--no-verify", *asked, "--json"))
    assert found == {
        "product": ("float16", "MATMUL_OPERANDS", "generic"),
        "sum": ("float16", "REQUESTED", "op Add"),
        "limit": ("float16", "REQUESTED", "node limit"),
    }


def test_patterns_may_be_given_more_than_once(command: Command, perceptron: Path) -> None:
    asked = ["--keep-op", "Re*", "--keep-op", "re:Ad+", "--narrow-node", "limit"]
    found = groups(command("optimize", perceptron, "--no-verify", *asked, "--json"))
    assert {node: reason for node, (_, reason, _) in found.items()} == {
        "product": "MATMUL_OPERANDS",
        "sum": "KEEP_OP",
        "limit": "REQUESTED",
    }


@pytest.mark.parametrize(
    ("io_types", "types"),
    [
        ("keep", [onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT]),
        ("narrow", [onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT16]),
        ("y=fp16", [onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16]),
        ("narrow,y=fp32", [onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT]),
    ],
)
def test_types_of_the_interface_reach_the_result(
    command: Command, perceptron: Path, samples: Path, io_types: str, types: list[int]
) -> None:
    ran = command("optimize", perceptron, "--inputs", samples, "--io-types", io_types)
    assert ran.code == 0, ran.err
    graph = onnx.load(perceptron.with_name("perceptron.float16.onnx")).graph
    found = [each.type.tensor_type.elem_type for each in (graph.input[0], graph.output[0])]
    assert found == types


def test_wide_products_reach_the_result(command: Command, perceptron: Path) -> None:
    asked = ["--fp32-cast", "matmult-fp16", "--matmul-output", "wide", "--json"]
    ran = command("optimize", perceptron, "--no-verify", *asked)
    assert groups(ran)["product"][:2] == ("float16", "STORAGE")
    model = onnx.shape_inference.infer_shapes(
        onnx.load(perceptron.with_name("perceptron.float16.onnx"))
    )
    types = {each.name: each.type.tensor_type.elem_type for each in model.graph.value_info}
    [product] = [node for node in model.graph.node if node.op_type == "MatMul"]
    read = [types[name] for name in (*product.input, *product.output)]
    assert read == [onnx.TensorProto.FLOAT] * 3
    assert weight_type(perceptron.with_name("perceptron.float16.onnx")) == onnx.TensorProto.FLOAT16


def test_constants_stay_as_they_are_on_request(command: Command, perceptron: Path) -> None:
    ran = command("optimize", perceptron, "--no-verify", "--disable-inline-cast")
    assert ran.code == 0, ran.err
    output = perceptron.with_name("perceptron.float16.onnx")
    assert weight_type(output) == onnx.TensorProto.FLOAT
    casts = [node for node in onnx.load(output).graph.node if node.op_type == "Cast"]
    assert ["w"] in [list(node.input) for node in casts]


@pytest.mark.parametrize(("options", "clamped"), [([], False), (["--clamp-masks"], True)])
def test_masks_are_clamped_on_request(
    command: Command, tmp_path: Path, options: list[str], clamped: bool
) -> None:
    model = tmp_path / "masked.onnx"
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,4] x, bool[2,4] seen) => (float[2,4] y) <float low = {-3.4e38}> {
        [mask] s = Where (seen, x, low) [soft] y = Softmax (s) }"""
    onnx.save(onnx.parser.parse_model(text), model)
    ran = command("optimize", model, *options, "--no-verify", "--json")
    assert {row[0] for row in groups(ran).values()} == {"float16" if clamped else "float32"}
    findings = [each for each in json.loads(ran.out)["findings"] if each["code"] == "OC203"]
    assert [each["message"] for each in findings] == ["low: -3.4e+38 became -65504"][:clamped]


@pytest.mark.parametrize(("folding", "dropped"), [("exact", False), ("drop-narrowing", True)])
def test_round_trips_of_the_source_go_on_request(
    command: Command, tmp_path: Path, folding: str, dropped: bool
) -> None:
    model = tmp_path / "rounded.onnx"
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[4] x) => (float[4] y) {
        a = Cast <to = 16> (x) [back] b = Cast <to = 1> (a) y = Neg (b) }"""
    onnx.save(onnx.parser.parse_model(text), model)
    asked = ["--scope", "none", "--no-verify", "--json", "--cast-folding", folding]
    ran = command("optimize", model, *asked)
    assert ran.code == 0, ran.err
    rows = [(each["code"], each["kind"], each["node"]) for each in json.loads(ran.out)["findings"]]
    assert rows == [("OC106", "CAST_ROUNDING_DROPPED", "back")][:dropped]


def test_an_unknown_way_of_folding_is_refused(command: Command, perceptron: Path) -> None:
    ran = command("optimize", perceptron, "--cast-folding", "lossy")
    assert ran.code == 2
    assert "unknown cast folding 'lossy': known are exact, drop-narrowing" in ran.err


@pytest.mark.parametrize(("options", "name"), [([], "float32r"), (["10"], "float32r10")])
def test_bits_of_fp32r_reach_the_result(
    command: Command, perceptron: Path, options: list[str], name: str
) -> None:
    bits = [part for each in options for part in ("--fp32r-bits", each)]
    asked = ["--no-verify", "--fp32-cast", "all-fp32r", "--json", *bits]
    assert groups(command("optimize", perceptron, *asked))["limit"][0] == name
    assert perceptron.with_name(f"perceptron.{name}.onnx").exists()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--narrow-op", "Rely"], ["'Rely' to be narrowed", "nearest: Relu"]),
        (["--narrow-node", "prodct"], ["'prodct' to be narrowed", "nearest: product"]),
        (["--narrow-op", "re:["], ["narrow_ops 're:['", "no regular expression"]),
        (["--keep-op", "Relu", "--narrow-op", "Relu"], ["op 'Relu' is to be kept wide"]),
        (["--io-types", "half"], ["io types 'half'", "keep, narrow or NAME=FORMAT"]),
        (["--io-types", "y=fp61"], ["io types 'y=fp61'", "fp16"]),
        (["--io-types", "z=fp16"], ["no graph input or output 'z'"]),
        (["--io-types", "narrow", "--fp32-cast", "none"], ["no narrow type to declare"]),
        (["--io-types", "narrow", "--disable-inline-cast"], ["--disable-inline-cast", "drop one"]),
        (["--matmul-output", "float32"], ["unknown matmul output 'float32'", "narrow, wide"]),
        (["--fp32r-bits", "10"], ["fp32r bits 10 without fp32r"]),
        (["--fp32r-bits", "30", "--fp32-cast", "all-fp32r"], ["fp32r bits 30", "1 to 22"]),
        (["--fp32r-bits", "few", "--fp32-cast", "all-fp32r"], ["few"]),
        (["--no-verify", "--no-repair"], ["--no-verify together with", "--no-repair"]),
    ],
)
def test_a_bad_value_costs_one_line_and_writes_nothing(
    command: Command, perceptron: Path, options: list[str], wanted: list[str]
) -> None:
    before = sorted(perceptron.parent.iterdir())
    ran = command("optimize", perceptron, *options)
    assert ran.code == 2
    assert not ran.out
    assert ran.err.startswith("onnxcast: error: ")
    assert ran.err.count("\n") == 1, ran.err
    for text in wanted:
        assert text in ran.err
    assert sorted(perceptron.parent.iterdir()) == before


def test_mixed_narrows_to_bfloat16_what_float16_does_not_hold(
    command: Command, overflow: Path, overflow_samples: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    asked = ("optimize", overflow, "--inputs", overflow_samples, "--narrow-op", "Add")
    ran = command(*asked, "--dtype", "mixed", "--report", report)
    assert ran.code == 0
    assert "all-mixed for target generic" in ran.out
    told = json.loads(report.read_text())
    assert told["pins"] == []
    assert [row["node"] for row in told["fallbacks"]] == ["product", "scaled"]
    assert overflow.with_name("overflow.mixed.onnx").is_file()
    ran = command("optimize", overflow, "--scope", "inputs", "--dtype", "mixed")
    assert ran.code == 2
    assert "scope inputs with dtype mixed" in ran.err
