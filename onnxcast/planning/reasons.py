"""Why a type group has the format that the plan gives it: one coded, printable cause each."""

import enum

__all__ = ["Reason"]


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
