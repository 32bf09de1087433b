"""Why a type group has the format that the plan gives it: one coded, printable cause each."""

import enum
from collections.abc import Mapping

__all__ = ["EXPLAINED", "Reason"]


class Reason(enum.Enum):
    """A cause; the name is its code in reports, the value is the sentence printed."""

    REQUESTED = "narrowed as asked"
    MATMUL_OPERANDS = "narrowed to the operand type that the target's matmul takes"
    STORAGE = "operands rounded to the format, computed in float32"
    FALLBACK = "narrowed to the format of wider range: a figure leaves that of the other"
    WEIGHTS = "only its constants are narrow: a measured figure keeps the rest wide"
    INPUT = "reads a graph input, rounded as asked"
    CARRIES_NARROW = "moves values that are narrow already"
    FEEDS_NARROW = "moves values that only narrow ops read"

    SCOPE = "outside the scope asked for"
    KEEP_OP = "op kept wide by request"
    KEEP_NODE = "node kept wide by request"
    KEEP_POLICY = "kept wide by the policy function"
    PINNED = "kept wide by a measured figure"
    SCHEMA = "the op's schema does not allow the format at this opset"
    FUNCTION_BODY = "the op's function body does not take the format at this opset"
    TARGET_OPERANDS = "the target's matmul takes no one type that the op could run in"
    OPAQUE = "the op has no known schema"
    CALL = "a call of a model-local function keeps float32 at its boundary"
    CONTROL_FLOW = "control flow keeps float32 at its boundary"
    NOT_A_TENSOR = "no Cast reaches a sequence, an optional or a sparse tensor"
    USER_CAST = "a Cast that the model came with is meaning"
    LIMIT = "limits values to the range of the format, before a Cast to it"
    TYPED_BY_ATTRIBUTE = "the type is fixed by an attribute or its default"
    PARAMETER = "only operands have this type, so narrowing them saves nothing"
    QUANTISED = "belongs to a quantised operator"
    METADATA = "only the shape is read"

    ACCUMULATING = "sums over many elements"
    STATISTICS = "part of a sum, mean or norm written out"
    RESIDUE = "computes what a rounding in the model left over"
    AMPLIFYING = "magnifies the error of its operand"
    JUMPING = "its result jumps when an operand is rounded"
    INTEGER_VALUED = "holds whole numbers that the format cannot count"
    OUT_OF_RANGE = "a constant beyond the format's range would become infinite"
    VANISHING = "a constant too small for the format would vanish"
    ISLAND = "the Casts around it would move more than it saves"
    CHEAPER_WIDE = "moves values at a lower price in float32: Casts elsewhere move less"
    CARRIES_WIDE = "moves wide values for a wide reader"


EXPLAINED: Mapping[Reason, str] = {
    Reason.REQUESTED: (
        "The op takes the format at this opset, and nothing about it or its constants speaks "
        "against it. Keep it wide with --keep-op or --keep-node."
    ),
    Reason.MATMUL_OPERANDS: (
        "A MatMul, Conv or the like multiplies its operands in the type that the target gives for "
        "them. Another --target or --dtype gives another type."
    ),
    Reason.STORAGE: (
        "The op does not take the format, or a wide product was asked for: operands are cast to "
        "the format and back up before it, so that constants are stored narrow, and the op "
        "computes in float32."
    ),
    Reason.FALLBACK: (
        "With --dtype mixed: a value or a constant leaves the range of float16 but not that of "
        "bfloat16, so the node gets bfloat16."
    ),
    Reason.WEIGHTS: (
        "The search found that the node disturbs the outputs too much in the format, but less so "
        "when only its constants are stored in it. --forget-pins looks again."
    ),
    Reason.INPUT: (
        "With a token of inputs: what a graph input gives is rounded to the format before this op "
        "reads it."
    ),
    Reason.CARRIES_NARROW: (
        "The op only moves elements, and those that it gets are narrow: moving them so takes half "
        "of the bytes and no Cast."
    ),
    Reason.FEEDS_NARROW: (
        "The op only moves elements, and all its readers want them narrow, so they are cast "
        "before it instead of after it."
    ),
    Reason.SCOPE: (
        "The token asks for other ops alone, such as matmult for MatMul and Conv. A token of all "
        "goes further."
    ),
    Reason.KEEP_OP: "The option --keep-op (op_block_list) names its op type.",
    Reason.KEEP_NODE: "The option --keep-node (node_block_list) names it.",
    Reason.KEEP_POLICY: "The function given as policy answered wide for it.",
    Reason.PINNED: (
        "A value left the format when the source ran on the samples, or the search found that the "
        "node disturbs the outputs too much. The pin is in the model's metadata; --forget-pins "
        "drops it and looks again."
    ),
    Reason.SCHEMA: (
        "ONNX does not define the op, or a Cast that it would need, for the format at this opset, "
        "or ties its type to another one. A later --opset may."
    ),
    Reason.FUNCTION_BODY: (
        "The op is a function in ONNX, and an op of its body does not take the format, so a "
        "runtime that expands it would fail."
    ),
    Reason.TARGET_OPERANDS: (
        "The target names types for the two operands that no version of the op takes together. "
        "Another --target or --dtype may fit."
    ),
    Reason.OPAQUE: (
        "Nothing tells which types the op takes, as its domain has no schema here. It keeps "
        "float32, and Casts stand around it."
    ),
    Reason.CALL: (
        "A model-local function is called with float32 and gives it; its body is narrowed on its "
        "own. --functions inline puts the body in place of the call."
    ),
    Reason.CONTROL_FLOW: (
        "What an If, Loop or Scan hands in and out keeps one type at every border; narrowing it "
        "would take more Casts than it saves, or not all borders allow it."
    ),
    Reason.NOT_A_TENSOR: "A Cast converts dense tensors only.",
    Reason.USER_CAST: (
        "Whoever made the model put this Cast there. Only a rule that changes no value may remove "
        "it."
    ),
    Reason.LIMIT: (
        "A Clip, Min or Max keeps values in range right before a Cast to a narrow format. "
        "Narrowing it would round its limits."
    ),
    Reason.TYPED_BY_ATTRIBUTE: (
        "An attribute such as dtype or to, or its default, says what the result is, and no "
        "operand does."
    ),
    Reason.PARAMETER: (
        "The type is that of small parameters such as scales or thresholds. Narrow ones save "
        "nothing and may round badly."
    ),
    Reason.QUANTISED: (
        "QuantizeLinear and its like turn numbers into integers by a float32 scale; a rounded "
        "scale or operand would give other integers."
    ),
    Reason.METADATA: "Shape and Size look at no element, so the type of these does not matter.",
    Reason.ACCUMULATING: (
        "A sum over many elements overflows, or stalls when the next element is smaller than a "
        "step of the sum. --narrow-op narrows it all the same."
    ),
    Reason.STATISTICS: (
        "The ops together compute a mean, a variance or a norm out of squares, sums and roots, "
        "which overflow and cancel in few bits."
    ),
    Reason.RESIDUE: (
        "The model rounds a value itself and computes with the difference: rounding it once more "
        "would leave nothing of that."
    ),
    Reason.AMPLIFYING: (
        "Exp, Pow, a reciprocal or a periodic op makes a large error of a small one, where its "
        "operand is large or close to a pole."
    ),
    Reason.JUMPING: (
        "A comparison, an ArgMax, a Round or the like gives another result altogether for an "
        "operand that is slightly off. Operands are not rounded newly for it."
    ),
    Reason.INTEGER_VALUED: (
        "The values are positions, counts or indices in floating point. float16 counts to 2048 "
        "and bfloat16 to 256, and then in steps."
    ),
    Reason.OUT_OF_RANGE: (
        "Casting the constant would give an infinity. --clamp-masks stores the lowest finite "
        "number for mask constants, --dtype bf16 has float32's range."
    ),
    Reason.VANISHING: (
        "The constant, such as an epsilon that guards a division, would be stored as 0."
    ),
    Reason.ISLAND: (
        "It could be narrow, but all around it is wide: the Casts in and out would move more "
        "bytes than the narrow op saves."
    ),
    Reason.CHEAPER_WIDE: (
        "The op moves elements. The placement that moves the fewest bytes over the whole model "
        "has its Casts elsewhere."
    ),
    Reason.CARRIES_WIDE: (
        "The op moves values that a wide op made to one that wants them wide: rounding them on "
        "the way would lose digits for nothing."
    ),
}
"""What each reason means at more length, and what can be done about it."""
