import json
import shlex
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

from onnxcast.targets import get_target
from tests.cli.conftest import Command

BUILT_IN = [
    *("ascend910b", "ascend950", "atc-ascend310p", "atc-ascend910b", "generic"),
    *("onnxruntime-cuda", "tensorrt", "trn1", "trn2", "trn3"),
]


def test_lists_all_targets(command: Command) -> None:
    ran = command("targets")
    assert ran.code == 0
    for name in BUILT_IN:
        assert name in ran.out
    assert "8 to 18" in ran.out
    listed = json.loads(command("targets", "--json").out)
    assert sorted(each["name"] for each in listed) == BUILT_IN
    (a5,) = (each for each in listed if each["name"] == "ascend950")
    assert a5["aliases"] == ["a5"]
    assert a5["conversions"] == 42


@pytest.mark.parametrize("name", BUILT_IN)
def test_shows_each_for_people_and_machines(command: Command, name: str) -> None:
    ran = command("targets", "show", name)
    assert ran.code == 0
    assert not ran.err
    found = json.loads(command("targets", "show", name, "--json").out)
    assert set(found) == {"name", "aliases", "native", "chains", "rejected", "matmul"}
    assert found["name"] == name


def test_the_tables_of_the_seed_are_shown(command: Command) -> None:
    ran = command("targets", "show", "a5")
    assert "bf16(2), fp8e4m3(2), fp8e5m2(2)," in ran.out
    assert "int32 > fp32 > fp16" in ran.out
    assert "only int32 > int16 > uint32" in ran.out
    found = json.loads(command("targets", "show", "a5", "--json").out)
    assert found["native"]["uint16"] == []
    assert found["chains"]["int32"]["fp16"] == {
        "path": ["int32", "fp32", "fp16"],
        "labels": ["single rounding"],
        "device_labels": ["rounds as told", "unknown"],
    }
    assert "int16" in found["rejected"]["int32"]["uint32"]
    assert found["matmul"]["fp32r"]["fp32"] == "fp32r"
    exact = command("targets", "show", "a5", "--cast-bridges", "exact", "--json")
    assert "uint32" not in json.loads(exact.out)["rejected"]["uint8"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "a6"], "unknown target 'a6': known are generic, ascend910b, a2a3, "),
        (["show", "a5", "--cast-bridges", "any"], "unknown cast bridges 'any': known are native"),
        (["show", "no.toml"], "target no.toml: No such file or directory; name a profile in TOML"),
        (["hide"], "No such command 'hide'"),
    ],
)
def test_bad_usage_is_one_line(command: Command, arguments: list[str], said: str) -> None:
    ran = command("targets", *arguments)
    assert ran.code == 2
    assert ran.err.startswith(f"onnxcast: error: {said}")
    assert ran.err.count("\n") == 1


CASTS = """<ir_version: 10, opset_import: ["" : 21]>
g (float[2,2] x, int32[2] n, bool[2] b) => (float[2,2] y, bfloat16[2] m, float16[2] c) {
    [product] y = MatMul (x, x)
    [brain] m = Cast <to = 16> (n)
    [truth] c = Cast <to = 10> (b)
}"""


@pytest.fixture
def casts(tmp_path: Path) -> Path:
    path = tmp_path / "casts.onnx"
    onnx.save(onnx.parser.parse_model(CASTS), path)
    return path


def test_optimize_tells_what_casts_cost(command: Command, casts: Path) -> None:
    ran = command("optimize", casts, "--target", "a5")
    assert ran.code == 0, ran.err
    assert "all-fp16 for target ascend950 (a5), opset 21" in ran.out
    told = " ".join(ran.out.split())
    assert "1 Cast done in more than one conversion, 1 Cast from or to bool replaced" in told
    assert "Casts on the target: 4 conversions that write" in ran.out
    assert "1 x int32 > float32 > bfloat16 (double rounding)" in ran.out


def test_optimize_refuses_or_keeps_what_the_target_cannot_do(
    command: Command, casts: Path, tmp_path: Path
) -> None:
    exact = ["optimize", casts, "--target", "a5", "--require-exact-chains"]
    ran = command(*exact)
    assert ran.code == 1
    assert ran.err.startswith(
        "onnxcast: error: ascend950 (a5) cannot do 1 Cast of the model: node 'brain' int32 to "
        "bfloat16 (int32 > float32 > bfloat16: double rounding): "
    )
    assert list(tmp_path.iterdir()) == [casts]
    ran = command(*exact, "--illegal-casts", "keep")
    assert ran.code == 0
    assert "warning: the target cannot do a Cast: node 'brain' int32 to bfloat16" in ran.err


@pytest.mark.parametrize("target", ["atc-ascend310p", "atc-ascend910b", "tensorrt"])
def test_optimize_ends_with_the_next_command_and_why(
    command: Command, perceptron: Path, target: str
) -> None:
    output = perceptron.with_name("of mine.onnx")
    ran = command("optimize", perceptron, "--target", target, "-o", output)
    assert ran.code == 0
    chosen = get_target(target)
    told = ran.out[ran.out.index("next: ") :]
    assert told.splitlines()[0] == f"next: {chosen.next_command(output)}"
    assert f"'{output}'" in told
    shown = "".join(told.split())
    for sentence in chosen.advice:
        assert "".join(f"{target}: {sentence}".split()) in shown


def test_optimize_ends_with_a_command_that_runs(command: Command, perceptron: Path) -> None:
    ran = command("optimize", perceptron, "--target", "onnxruntime-cuda")
    (line,) = (each for each in ran.out.splitlines() if each.startswith("next: python "))
    words = shlex.split(line.removeprefix("next: python "))
    tried = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stderr


def test_explain_a_matmul(command: Command, casts: Path) -> None:
    options = ["--node", "product", "--target", "a2a3", "--fp32-cast", "matmult-bf16"]
    ran = command("explain", casts, *options)
    assert ran.code == 0
    for shown in ("product (MatMul)", "MATMUL_OPERANDS", "operand 0 (x)", "float32 > bfloat16"):
        assert shown in ran.out
    found = json.loads(command("explain", casts, *options, "--json").out)
    assert (found["node"], found["op"]) == ("product", "MatMul")
    assert found["groups"][0]["format"] == "bfloat16"
    reads = {
        "cast": "float32 to bfloat16",
        "how": "float32 > bfloat16 (exact)",
        "hops": 1,
        "bytes": 8,
    }
    assert found["casts"] == [
        {"where": "operand 0 (x)", **reads},
        {"where": "operand 1 (x)", **reads},
        {
            "where": "result (y)",
            "cast": "bfloat16 to float32",
            "how": "bfloat16 > float32 (exact)",
            "hops": 1,
            "bytes": 16,
        },
    ]


@pytest.mark.parametrize(
    ("node", "target", "how", "hops"),
    [
        ("brain", "a5", "int32 > float32 > bfloat16 (double rounding)", 2),
        ("m", "a5", "int32 > float32 > bfloat16 (double rounding)", 2),
        ("brain", "trn1", "one Cast", 1),
    ],
)
def test_explain_a_cast_of_the_model(
    command: Command, casts: Path, node: str, target: str, how: str, hops: int
) -> None:
    ran = command("explain", casts, "--node", node, "--target", target, "--json")
    (cast,) = json.loads(ran.out)["casts"]
    assert (cast["where"], cast["how"], cast["hops"]) == ("this Cast", how, hops)


def test_explain_names_the_nearest_nodes(command: Command, casts: Path) -> None:
    ran = command("explain", casts, "--node", "prodct")
    assert ran.code == 2
    assert "no node or result of the model is called so; did you mean product?" in ran.err


def test_explain_a_wide_reader_of_a_narrow_value(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "wide.onnx"
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2,2] x) => (float[1,1] y) { h = MatMul (x, x) [sum] y = ReduceSumSquare (h) }"""
    onnx.save(onnx.parser.parse_model(text), path)
    for target, how in (("a5", "float16 > float32 (exact)"), ("generic", "one Cast")):
        options = ["--fp32-cast", "all-fp16", "--target", target, "--json"]
        found = json.loads(command("explain", path, "--node", "sum", *options).out)
        assert found["casts"] == [
            {
                "where": "operand 0 (h)",
                "cast": "float16 to float32",
                "how": how,
                "hops": 1,
                "bytes": 16,  # the shape of h is not declared, but inferred
            }
        ]


def test_explain_a_cast_without_a_table_has_its_bytes(command: Command, casts: Path) -> None:
    ran = command("explain", casts, "--node", "brain", "--target", "trn1", "--json")
    (cast,) = json.loads(ran.out)["casts"]
    assert (cast["hops"], cast["bytes"]) == (1, 4)


def test_optimize_warns_of_matmuls_that_the_target_does_not_take(
    command: Command, perceptron: Path
) -> None:
    ran = command("optimize", perceptron, "--target", "atc-ascend310p", "--fp32-cast", "none")
    assert ran.code == 0
    assert (
        "warning: product multiplies float32 with float32, which atc-ascend310p does not; onnxcast"
    ) in ran.err


def test_explain_shows_the_node_with_the_reason_under_it(command: Command, casts: Path) -> None:
    lines = command("explain", casts, "--node", "product", "--target", "trn1").out.splitlines()
    assert lines[0] == "product (MatMul)"
    assert lines[2] == "[product] y = MatMul (x, x)"
    assert lines[3].startswith("    T: bfloat16, narrowed to the operand type")
    assert "[MATMUL_OPERANDS]" in " ".join(lines)


def test_explain_a_code(command: Command) -> None:
    out = command("explain", "oc202").out
    assert out.startswith("OC202 INITIALIZER_KEPT (finding)\n")
    found = json.loads(command("explain", "ACCUMULATING", "--json").out)
    assert found["kind"] == "reason"
    assert found["short"] == "sums over many elements"
    unknown = command("explain", "OC999")
    assert unknown.code == 2
    assert unknown.err.startswith("onnxcast: error: code 'OC999': no reason, finding or error")


def test_explain_a_model_wants_a_node(command: Command, casts: Path) -> None:
    ran = command("explain", casts)
    assert ran.code == 2
    assert "a node is wanted as well; name one with --node" in ran.err
