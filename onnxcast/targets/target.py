"""What a target is: its name, the format it prefers and the operand types its matmul takes."""

import dataclasses

from onnxcast.formats import FLOAT8E4M3FN, FLOAT32, Format, contains, join

__all__ = ["Target"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """A target that takes any operand type that is asked for, as long as both are the same.

    Attributes:
        name: As the user names it.
        preferred: The narrow format used when the user names none.
        float8e4: What its 8-bit float with 4 exponent bits holds: float8e4m3fn up to 448, or the
            legacy float8e4 up to 240, whose values beyond the limit are clipped before the Cast.
    """

    name: str
    preferred: Format
    float8e4: Format = FLOAT8E4M3FN
    opsets: tuple[int, int] | None = None

    def realised(self, format_: Format) -> Format:
        """The format that the target has for the one asked for."""
        return self.float8e4 if format_ == FLOAT8E4M3FN else format_

    def matmul_operand_type(self, format_: Format, wanted: Format) -> Format:
        """Type that a matmul operand of `format_` must have when `wanted` is asked for.

        The only source of this policy (seed: ``target.getMatmultOperandType``). A narrow operand
        keeps its type.
        """
        return wanted if contains(format_, wanted) else format_

    def matmul_operand_pair(self, first: Format, second: Format) -> tuple[Format, Format]:
        """Make the types of both operands legal together, by the least that contains both."""
        common = join(first, second) or FLOAT32
        return common, common
