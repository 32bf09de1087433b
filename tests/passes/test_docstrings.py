"""What the module of a pass shows under Before and After is what the pass does.

The text shows nodes, the declarations of constants in angle brackets (some without their values),
and functions after an empty line.
"""

import inspect
import re
from collections.abc import Callable
from typing import NamedTuple

import onnx_ir as ir
import pytest

from onnxcast import passes
from onnxcast.policy import make_policy
from onnxcast.targets import GENERIC, get_target

FP16, MATMUL, INPUTS = (
    make_policy(fp32_cast=token) for token in ("all-fp16", "matmult-fp16", "inputs-fp16")
)
FUNCTION = '<domain: "local", opset_import: ["": 17]>'


class Shown(NamedTuple):
    """What stands around the nodes that a docstring shows, if it is not the usual frame."""

    make: Callable[[], ir.passes.InPlacePass]
    interface: str
    constants: str = ""
    rest: str = ""
    opset: int = 17
    interface_after: str = ""


SHOWN = {
    "AutocastPass": Shown(
        lambda: passes.AutocastPass(policy=FP16, target=GENERIC),
        "(float[2,2] x) => (float[2,2] y)",
        "float[2,2] W = {1,2,3,4}, int64 axis = {0}",
    ),
    "ClampMasksPass": Shown(
        lambda: passes.ClampMasksPass(FP16),
        "(bool[2] keep, float[2] scores) => (float[2] masked)",
        "float low = {-3.4028235e+38}",
    ),
    "FoldCastsPass": Shown(
        passes.FoldCastsPass,
        "(float16[2,2] x) => (float16[2,2] p, bfloat16[2,2] q, float16[2,2] r)",
    ),
    "InputsPass": Shown(
        lambda: passes.InputsPass(policy=INPUTS, target=GENERIC),
        "(float[2] x) => (float[2] y)",
    ),
    "IoTypesPass": Shown(
        lambda: passes.IoTypesPass(make_policy(dtype="fp16", io_types="narrow").io_types),
        "(float[4] x) => (float[4] y)",
        interface_after="(float16[4] x) => (float16[4] y)",
    ),
    "LegaliseCastsPass": Shown(
        lambda: passes.LegaliseCastsPass(get_target("ascend950")),
        "(int32[2] x) => (float16[2] y)",
    ),
    "LowerBoolCastsPass": Shown(
        lambda: passes.LowerBoolCastsPass(get_target("ascend950")),
        "(int64[2] x) => (bfloat16[2] y)",
        opset=13,
    ),
    "MatmulOperandsPass": Shown(
        lambda: passes.MatmulOperandsPass(policy=MATMUL, target=GENERIC),
        "(float[2,2] x) => (float[2,2] z)",
        "float[2,2] W = {1,2,3,4}",
    ),
    "NormalisePass": Shown(passes.NormalisePass, "(float16[2] x) => (float[2] b)"),
    "RetypeFillsPass": Shown(
        passes.RetypeFillsPass,
        "(int64[2] size, float16[M,K] x_float16) => (float16[M,N] y)",
    ),
    "ShrinkInitializersPass": Shown(
        passes.ShrinkInitializersPass,
        "(float16[2,2] x) => (float16[2,2] y)",
        "float[2,2] W = {1,2,3,4}",
    ),
    "SpecialiseFunctionsPass": Shown(
        passes.SpecialiseFunctionsPass,
        "(float[2] x, double[2] d) => (float[2] a, double[2] b)",
        rest=f"}} {FUNCTION} act (p) => (q) {{ q = Relu (p)",
    ),
    "TidyPass": Shown(
        passes.TidyPass,
        "(float[4] x) => (float[4] y)",
        "float[4] W = {1,2,3,4}, float[4] W_unused = {1,2,3,4}",
    ),
}


def blocks(name: str) -> list[str]:
    """The text under Before and under After, without comments."""
    module = inspect.getmodule(getattr(passes, name))
    text = inspect.getdoc(module) or ""
    found = re.findall(r"^(?:Before|After)[^\n]*::\n\n((?:    .*\n|\n)+)", text, re.MULTILINE)
    return [re.sub(r" +#.*", "", inspect.cleandoc(block)) for block in found]


def model(block: str, shown: Shown, interface: str) -> ir.Model:
    """The model that a block shows, in its frame."""
    nodes, _, functions = block.partition("\n\n")
    nodes = re.sub(r"^<.*>$|^agraph.*$|^}$", "", nodes, flags=re.MULTILINE)
    return ir.from_onnx_text(
        f'<ir_version: 8, opset_import: ["": {shown.opset}, "local": 1]>\n'
        f"g {interface} <{shown.constants}> {{\n{nodes}\n{shown.rest}\n}}\n"
        + (f"{FUNCTION} {functions}" if functions else "")
    )


def lines(graph: ir.Graph) -> list[tuple[str, ...]]:
    """Each node: op, operands, results, attributes."""
    return sorted(
        (
            node.op_identifier()[1],
            str([value and value.name for value in node.inputs]),
            str([value.name for value in node.outputs]),
            str({name: plain(attribute) for name, attribute in node.attributes.items()}),
        )
        for node in graph
    )


def plain(attribute: ir.Attr) -> object:
    if attribute.type is ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return tensor.dtype, tensor.numpy().tolist()
    return attribute.value


def declared(block: str) -> list[tuple[str, str]]:
    """Types and names of the constants that a block declares."""
    text = "".join(re.findall(r"^<.*>$", block, re.MULTILINE))
    return re.findall(r"(\w+)(?:\[[\d,]*\])? (\w+)(?: = \{|[,>])", text)


def stored(graph: ir.Graph) -> set[tuple[str, str]]:
    kinds = {ir.DataType.FLOAT: "float"}
    return {
        (kinds.get(value.dtype, value.dtype.name.lower()), name)
        for name, value in graph.initializers.items()
        if value.dtype is not None
    }


@pytest.mark.parametrize("name", passes.__all__)
def test_a_pass_does_what_its_page_shows(name: str) -> None:
    before, after = blocks(name)
    shown = SHOWN.get(name) or Shown(getattr(passes, name), "(float[2] x) => (float[2] y)")
    made = shown.make()(model(before, shown, shown.interface)).model
    wanted = model(after, shown, shown.interface_after or shown.interface)
    assert lines(made.graph) == lines(wanted.graph)
    assert [value.dtype for value in made.graph.outputs] == [
        value.dtype for value in wanted.graph.outputs
    ]
    if declared(after):
        assert set(declared(after)) == stored(made.graph)
