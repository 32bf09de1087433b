"""A model in the one form in which all tools get it, and the Casts in what they make of it."""

import collections
import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from onnxcast import formats
from onnxcast.files import read_model, to_proto
from onnxcast.formats import FLOAT16, FLOAT32, Format, Kind
from onnxcast.graph.check import fault
from onnxcast.graph.edit import Names, cast_target
from onnxcast.graph.shapes import elements
from onnxcast.graph.types import ElementTypes
from onnxcast.graph.walk import main_graphs, values
from onnxcast.pipeline import build_pipeline, preparing_passes
from onnxcast.planning import Form, make_plan
from onnxcast.policy import Meaning, has_meaning, make_policy
from onnxcast.targets import GENERIC, Chains, Target

__all__ = ["Figures", "Subject"]

TOKEN = "all-fp16"

_MAKERS = ("Cast", "ConstantOfShape")

_NUMBERS = {Kind.FLOAT, Kind.SIGNED, Kind.UNSIGNED}

Options = Mapping[str, Any]
"""Further keywords of `onnxcast.make_policy`."""


@dataclasses.dataclass(frozen=True)
class Figures:
    """What the Casts of one model come to.

    Attributes:
        casts: Conversions of the target from or to floats, bool and strings aside.
        bytes: What they write; a dimension that is not known counts 1.
        narrow: Computing nodes that read or give float16.
    """

    casts: int
    bytes: int
    narrow: int


class Subject:
    """A model in the form in which all tools get it: all nodes named, all shapes inferred."""

    def __init__(self, path: Path, options: Options) -> None:
        self._options = {"functions": "inline", **options}
        self.model = _prepared(path, self._options)
        # onnx_ir declares initializers, which one tool wants and makes another cast them.
        self.protos = _bare(self.model), to_proto(self.model)
        self.valid = not fault(self.model, full=True)
        self._sizes = _sizes(self.model)
        plan = make_plan(self.model, make_policy(fp32_cast=TOKEN, **self._options), GENERIC)
        native = collections.defaultdict[str, bool](bool)
        for group, decision in plan.decisions.items():
            if not _is_free(group.node, plan.types):
                native[group.node.name or ""] |= decision.form is Form.NATIVE
        self.kept = {name for name, narrow in native.items() if not narrow}
        self._computing = set(native)
        # Some tools cannot retype what makes float32 of other types, which is free to do.
        makers = {g.node.name or "" for g in plan.decisions if g.node.op_type in _MAKERS}
        self.kept_sets = self.kept, self.kept | makers

    def narrow(self, model: ir.Model) -> set[str]:
        """The computing nodes of this model that read or give float16 in `model`."""
        types, found = ElementTypes(model), set[str]()
        for graph in main_graphs(model):
            for node in graph:
                name = node.name or ""
                if name not in self._computing or cast_target(node) is not None:
                    continue
                around = (*node.inputs, *node.outputs)
                if any(types.dtype(value) == ir.DataType.FLOAT16 for value in around):
                    found.add(name)
        return found

    def lost(self, model: ir.Model) -> set[str]:
        """The Casts of this model by which it rounds to float16 itself that `model` lacks."""
        own, left = (_roundings(each) for each in (self.model, model))
        return own - left

    def ours(self, target: Target, kept: Collection[str]) -> ir.Model:
        """What onnxcast makes of it when nodes `kept` stay float32."""
        policy = make_policy(
            fp32_cast=TOKEN,
            policy=lambda node: "wide" if node.name in kept else None,
            illegal_casts="keep",
            **self._options,
        )
        model = self.model.clone()
        for pass_ in build_pipeline(policy, target):
            pass_(model)
        return model

    def figures(self, model: ir.Model, target: Target) -> Figures:
        """The Casts of `model`, which was made of this one, on `target`."""
        types = ElementTypes(model)
        chains = Chains(target) if target.casts is not None else None
        casts = total = 0
        for graph in main_graphs(model):
            for node in graph:
                for source, to in _steps(node, types):
                    chain = chains.find(source, to) if chains else None
                    casts += 1 if chain is None else chain.hops
                    bits = to.bits if chain is None else chain.element_bits
                    total += -(-self._elements(node) * bits // 8)
        return Figures(casts, total, len(self.narrow(model)))

    def _elements(self, cast: ir.Node) -> int:
        """Elements that a Cast writes, by a name that this model knows, at either end of it."""
        node: ir.Node | None = cast
        while node is not None and cast_target(node) is not None:
            for value in (*node.outputs, node.inputs[0]):
                if value is not None and value.name in self._sizes:
                    return self._sizes[value.name]
            node = None if node.inputs[0] is None else node.inputs[0].producer()
        source = cast.inputs[0]
        return elements(cast.outputs[0].shape or (None if source is None else source.shape))


def _roundings(model: ir.Model) -> set[str]:
    nodes = (node for graph in main_graphs(model) for node in graph)
    return {node.name or "" for node in nodes if cast_target(node) == ir.DataType.FLOAT16}


def _steps(node: ir.Node, types: ElementTypes) -> list[tuple[Format, Format]]:
    """The Casts that `node` counts for: none where no end is a float, or one is no number.

    A Cast straight to float16 from what it does not hold counts as the two that it stands for: it
    rounds what was to be float32.
    """
    to = cast_target(node)
    source = None if to is None else types.dtype(node.inputs[0])
    if to is None or source is None:
        return []
    ends = formats.of(source), formats.of(to)
    kinds = {each.kind for each in ends}
    if Kind.FLOAT not in kinds or not kinds <= _NUMBERS:
        return []
    rounds = ends[1] == FLOAT16 and not formats.contains(FLOAT16, ends[0])
    if rounds and ends[0] != FLOAT32:
        return [(ends[0], FLOAT32), (FLOAT32, FLOAT16)]
    return [ends]


def _prepared(path: Path, options: Options) -> ir.Model:
    """The model of a file as plans are made for it, with shapes and a name for every node."""
    proto = onnx.load(path)
    model = read_model(onnx.shape_inference.infer_shapes(proto, data_prop=True)).model
    for pass_ in preparing_passes(make_policy(fp32_cast=TOKEN, **options), GENERIC):
        pass_(model)
    names, taken = Names(model), set[str]()
    for graph in main_graphs(model):
        for node in graph:
            if not node.name or node.name in taken:
                node.name = names.fresh(node.name or node.op_type)
            taken.add(node.name)
    types = ElementTypes(model)
    for graph in main_graphs(model):
        for node in graph:
            for value in node.outputs:
                value.type = value.type or types.of(value)  # onnx infers none behind unknown ops
    return model


def _bare(model: ir.Model) -> onnx.ModelProto:
    """`model` as exporters write it, without value_info of initializers."""
    proto = to_proto(model)
    weights = {tensor.name for tensor in proto.graph.initializer}
    kept = [each for each in proto.graph.value_info if each.name not in weights]
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(kept)
    return proto


def _sizes(model: ir.Model) -> dict[str, int]:
    """Elements of all values whose names tell them apart."""
    found: dict[str, set[int]] = {}
    for graph in main_graphs(model):
        for value in values(graph):
            if value.name:
                found.setdefault(value.name, set()).add(elements(value.shape))
    return {name: sizes.pop() for name, sizes in found.items() if len(sizes) == 1}


def _is_free(node: ir.Node, types: ElementTypes) -> bool:
    """Whether a node computes nothing, so that placement may choose its type.

    That is data movement, a constant, and a Cast from what float16 holds.
    """
    if cast_target(node) is not None:
        source = types.dtype(node.inputs[0])
        return source is not None and formats.contains(FLOAT16, formats.of(source))
    moves = has_meaning(node, Meaning.CARRIER) or has_meaning(node, Meaning.METADATA)
    return moves or node.op_type in ("Constant", "ConstantOfShape")
