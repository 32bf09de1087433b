"""``onnxcast inspect``: what is in a model, and what a conversion would decide."""

__all__ = ["inspect"]

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onnxcast.errors import InputError, RefusedError

from .console import print_json, results
from .differences import show_difference
from .options import MODEL, as_json, choice_of_format, is_asked
from .tables import bound, new_table, print_groups, size

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnxcast.planning import Plan
    from onnxcast.targets import Target


@click.command(short_help="Show what is in a model, and what would be narrowed.")
@click.argument("model", type=MODEL)
@click.option(
    "--diff", "before", type=MODEL, metavar="BEFORE", help="Show what is other than in BEFORE."
)
@choice_of_format
@as_json
def inspect(model: Path, before: Path | None, as_json: bool, **narrowing: Any) -> None:
    """Show what is in a model; with a token or a scope, also what would be narrowed and why.

    \b
    Examples:
      onnxcast inspect model.onnx
      onnxcast inspect model.onnx --fp32-cast all-fp16
      onnxcast inspect model.onnx --scope matmult --dtype bf16 --json
      onnxcast inspect --diff model.onnx model.float16.onnx
    """
    import onnxcast
    from onnxcast.files import read_model
    from onnxcast.targets import get_target

    read, target = read_model(model).model, get_target(narrowing["target"])
    facts = _facts(read, target)
    if before is not None:
        if is_asked(narrowing):
            raise InputError("--diff together with a token or a scope: drop one or the other")
        source = read_model(before).model
        show_difference((source, _facts(source, target)), (read, facts), target, as_json=as_json)
        return
    plan = None
    if is_asked(narrowing):
        plan = onnxcast.plan(read, **narrowing)
        facts.update(groups=plan.rows(), planned_casts=_planned(read, plan, narrowing))
    if as_json:
        print_json(facts)
    else:
        _print(facts, plan)


def _planned(model: "ir.Model", plan: "Plan", narrowing: dict[str, Any]) -> dict[str, Any]:
    """What the Casts would cost, and at least; the first only if a result can be made."""
    import onnxcast

    bound = None if plan.bound is None else plan.bound.to_dict()
    try:
        report = onnxcast.optimize(model, verify=False, opset="keep", **narrowing).report
    except RefusedError as error:
        return {"refused": str(error), "bound": bound}
    after = report.after
    return {
        "casts": after.casts,
        "hops": after.hops,
        "bytes": after.cast_bytes,
        "bound": bound,
    }


def _facts(model: "ir.Model", target: "Target") -> dict[str, Any]:
    from onnxcast.files import tensor_slots
    from onnxcast.formats import of
    from onnxcast.graph.walk import model_nodes, op_name
    from onnxcast.report import measure

    nodes = Counter(map(op_name, model_nodes(model)))
    tensors: Counter[str] = Counter()
    for slot in tensor_slots(model):
        format_ = of(slot.tensor.dtype)
        tensors[format_.name] += slot.tensor.nbytes if format_.bits else 0
    measured = measure(model, target)
    return {
        "ir_version": model.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in model.opset_imports.items()},
        "producer": f"{model.producer_name or ''} {model.producer_version or ''}".strip(),
        "nodes": measured.nodes,
        "casts": measured.casts,
        "cast_hops": measured.hops,
        "cast_bytes": measured.cast_bytes,
        "functions": len(model.functions),
        "inputs": list(map(_interface, model.graph.inputs)),
        "outputs": list(map(_interface, model.graph.outputs)),
        "tensor_bytes": dict(tensors.most_common()),
        "op_types": dict(sorted(nodes.items(), key=lambda item: (-item[1], item[0]))),
    }


def _casts(count: int, hops: int, written: int) -> str:
    conversions = "" if count == hops else f" in {hops} conversions"
    return f"{count}{conversions}, which write {size(written)}" if count else "0"


def _interface(value: "ir.Value") -> dict[str, str]:
    shape = "" if value.shape is None else str(value.shape)
    return {"name": value.name or "", "type": _type_name(value), "shape": shape}


def _type_name(value: "ir.Value") -> str:
    import onnx_ir as ir

    from onnxcast.formats import of

    if isinstance(value.type, ir.TensorType):
        return of(value.type.dtype).name
    return "unknown" if value.type is None else repr(value.type)


def _print(facts: dict[str, Any], plan: "Plan | None") -> None:
    console = results()
    opsets = ", ".join(f"{domain} {version}" for domain, version in facts["opsets"].items())
    heads = new_table("", "")
    heads.show_header = False
    heads.add_row("opsets", opsets)
    heads.add_row("IR version", str(facts["ir_version"]))
    heads.add_row("producer", facts["producer"] or "-")
    heads.add_row("nodes", str(facts["nodes"]))
    heads.add_row("Casts", _casts(facts["casts"], facts["cast_hops"], facts["cast_bytes"]))
    if "planned_casts" in facts:
        planned = facts["planned_casts"]
        told = planned.get("refused")
        told = told or _casts(planned["casts"], planned["hops"], planned["bytes"])
        heads.add_row("Casts planned", told)
        heads.add_row("", bound(planned["bound"]))
    if facts["functions"]:
        heads.add_row("functions", str(facts["functions"]))
    console.print(heads)
    console.print()
    values = new_table("", "name", "type", "shape")
    for kind in ("inputs", "outputs"):
        for value in facts[kind]:
            values.add_row(kind.removesuffix("s"), value["name"], value["type"], value["shape"])
    console.print(values)
    console.print()
    tensors = new_table("tensors of", ">bytes")
    for name, count in facts["tensor_bytes"].items():
        tensors.add_row(name, size(count))
    console.print(tensors)
    console.print()
    ops = new_table("op", ">nodes")
    for name, count in facts["op_types"].items():
        ops.add_row(name, str(count))
    console.print(ops)
    if plan is not None:
        console.print()
        print_groups(console, plan)
