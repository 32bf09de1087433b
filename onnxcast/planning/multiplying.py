"""What matmul-like groups get: the operand types that the target's matmul takes, and no others.

Where all operands get one type that the op can run in, it runs in it; else each operand is rounded
to its own, and the op computes in float32.
"""

from collections.abc import Iterable

from onnxcast.errors import RefusedError
from onnxcast.formats import FLOAT32, Format
from onnxcast.planning.groups import Group
from onnxcast.planning.legality import Legality, Why
from onnxcast.planning.plan import Decision, Form, wide
from onnxcast.planning.reasons import Reason
from onnxcast.policy import MatmulOutput, Policy, Scope, multiplied
from onnxcast.targets import Target

__all__ = ["Multiplying"]

_BITS_OF_COMPUTE = 16
"""Formats of fewer bits are for storage: no op runs in them."""


class Multiplying:
    """Decides for the matmul-like groups of one model.

    Args:
        policy: What is asked for.
        target: The only source of operand types.
        narrow: The format that is wanted.
        legality: Of the model.
    """

    def __init__(self, policy: Policy, target: Target, narrow: Format, legality: Legality) -> None:
        self._policy = policy
        self._target = target
        self._narrow = narrow
        self._legality = legality
        self._answers: dict[tuple[int, ...], dict[int, Format]] = {}

    def answers(self, indices: Iterable[int]) -> dict[int, Format]:
        """What the target's matmul takes for float32 operands of these indices.

        The first operand is the stationary one; all others move (of Attention, the keys and then
        the values).

        Raises:
            RefusedError: It takes none.
        """
        asked_for = tuple(indices)
        if asked_for not in self._answers:
            self._answers[asked_for] = self._answered(asked_for)
        return self._answers[asked_for]

    def _answered(self, indices: Iterable[int]) -> dict[int, Format]:
        target, wanted = self._target, self._narrow
        asked = {index: target.matmul_operand_type(FLOAT32, wanted) for index in indices}
        if not asked:
            return {}
        first, *others = asked.values()
        stationary, moving = target.matmul_operand_pair(first, (others or [first])[0])
        return {index: moving if index else stationary for index in asked}

    def stored(self, indices: Iterable[int]) -> dict[int, Format]:
        """The formats in which operands of these indices can be stored; none if they cannot be."""
        try:
            answers = self.answers(indices)
        except RefusedError:
            return {}
        return {
            i: each for i, each in answers.items() if each != FLOAT32 and each.dtype is not None
        }

    def decide(self, group: Group, form: Form, refusal: Why | None) -> Decision:
        """What `group` gets, which could use the wanted format in `form`.

        Args:
            group: A group of a matmul-like node.
            form: Native, storage or marked.
            refusal: What refuses the native form, if anything does.
        """
        # Only the multiplied operands are the target's concern; a bias shares their type.
        factors = (index for index in group.operands if index < multiplied(group.node))
        try:
            answers = self.answers(factors)
        except RefusedError as error:
            return wide(Reason.TARGET_OPERANDS, str(error))
        names = " and ".join(each.name for each in answers.values())
        read = {index: each for index, each in answers.items() if each != FLOAT32}
        marked = form is Form.MARKED
        unusable = any((each.dtype is None) != marked for each in read.values())
        if unusable or (answers and not read):
            return wide(Reason.TARGET_OPERANDS, names)
        format_ = next(iter(read.values()), self._narrow)
        if len(set(answers.values())) > 1:  # no op takes two float types
            return self._rounded(group, read, names, form if marked else Form.STORAGE)
        if format_ != self._narrow and not marked:
            form, refusal = self._form(group, format_)
        if form is Form.STORAGE:
            detail, opset = (refusal.detail, refusal.opset) if refusal else ("", None)
            return self._rounded(group, read, detail, form, opset)
        whole = form is Form.NATIVE or (
            self._policy.scope is Scope.ALL and self._policy.matmul_output is MatmulOutput.NARROW
        )
        reads = group.operands if whole else tuple(read)
        reason, name = Reason.MATMUL_OPERANDS, self._target.name
        return Decision(format_, reason, name, form, reads, gives=whole)

    def _form(self, group: Group, format_: Format) -> tuple[Form, Why | None]:
        """How `group` uses a format other than the one wanted."""
        stored = format_.bits < _BITS_OF_COMPUTE or self._policy.scope is Scope.INPUTS
        if stored or self._policy.matmul_output is MatmulOutput.WIDE:
            return Form.STORAGE, None
        refusal = self._legality.why_not(group, format_)
        return (Form.NATIVE if refusal is None else Form.STORAGE), refusal

    def _rounded(
        self,
        group: Group,
        read: dict[int, Format],
        detail: str,
        form: Form,
        opset: int | None = None,
    ) -> Decision:
        """The decision to round operands and to compute in float32, if there are such Casts."""
        stored = () if form is Form.MARKED else read.values()
        refused = (self._legality.why_no_cast(group.node, each) for each in stored)
        uncastable = next((why for why in refused if why is not None), None)
        if uncastable is not None:
            return wide(*uncastable)
        first = next(iter(read.values()), self._narrow)
        return Decision.rounding(first, read, Reason.STORAGE, detail, form, opset)
