"""What matmul-like groups get: the operand types that the target's matmul takes, and no others.

Where both operands get one type that the op can run in, it runs in it; else each operand is rounded
to its own, and the op computes in float32.
"""

from onnxcast.errors import RefusedError
from onnxcast.formats import FLOAT32, Format
from onnxcast.planning.groups import Group
from onnxcast.planning.legality import Legality, Why
from onnxcast.planning.plan import Decision, Form, wide
from onnxcast.planning.reasons import Reason
from onnxcast.policy import MatmulOutput, Policy, Scope, multiplied
from onnxcast.targets import Target

__all__ = ["Multiplying"]


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

    def decide(self, group: Group, form: Form, refusal: Why | None) -> Decision:
        """What `group` gets, which could use the wanted format in `form`.

        Args:
            group: A group of a matmul-like node.
            form: Native, storage or marked.
            refusal: What refuses the native form, if anything does.
        """
        # Only the multiplied operands are the target's concern; a bias shares their type.
        factors = tuple(index for index in group.operands if index < multiplied(group.node))
        try:
            answers = self._operand_formats(len(factors))
        except RefusedError as error:
            return wide(Reason.TARGET_OPERANDS, str(error))
        names = " and ".join(each.name for each in answers)
        if all(each == FLOAT32 for each in answers):
            return wide(Reason.TARGET_OPERANDS, names)
        illegal = self._why_not(group, form, answers)
        if illegal:
            return wide(*illegal)
        detail, opset = (refusal.detail, refusal.opset) if refusal else ("", None)
        if len(set(answers)) > 1:  # no op takes two float types
            return self._apart(factors, answers, form, names)
        if form is Form.STORAGE:
            return Decision(answers[0], Reason.STORAGE, detail, form, factors, opset=opset)
        whole = form is Form.NATIVE or (
            self._policy.scope is Scope.ALL and self._policy.matmul_output is MatmulOutput.NARROW
        )
        reads = group.operands if whole else factors
        reason, name = Reason.MATMUL_OPERANDS, self._target.name
        return Decision(answers[0], reason, name, form, reads, gives=whole)

    def _apart(
        self, factors: tuple[int, ...], answers: list[Format], form: Form, names: str
    ) -> Decision:
        """The decision where the target answers with different types."""
        read = {i: each for i, each in zip(factors, answers, strict=True) if each != FLOAT32}
        first = next(iter(read.values()))
        apart = tuple((index, each) for index, each in read.items() if each != first)
        form = form if form is Form.MARKED else Form.STORAGE
        return Decision(first, Reason.STORAGE, names, form, tuple(read), apart=apart)

    def _operand_formats(self, count: int) -> list[Format]:
        """What the target's matmul takes for so many float32 operands.

        Raises:
            RefusedError: It takes none.
        """
        target, narrow = self._target, self._narrow
        asked = [target.matmul_operand_type(FLOAT32, narrow) for _ in range(count)] or [narrow]
        first, second = target.matmul_operand_pair(asked[0], asked[1 % len(asked)])
        others = [target.matmul_operand_pair(first, each)[1] for each in asked[2:]]
        return [first, second, *others][: len(asked)]

    def _why_not(self, group: Group, form: Form, answers: list[Format]) -> Why | None:
        """What refuses the target's answers where they are not what was asked for."""
        others = {each for each in answers if each not in (self._narrow, FLOAT32)}
        if form is Form.MARKED or not others:
            return None
        if form is Form.NATIVE and len(set(answers)) == 1:
            return self._legality.why_not(group, answers[0])
        refused = (self._legality.why_no_cast(group.node, each) for each in others)
        return next((why for why in refused if why is not None), None)
