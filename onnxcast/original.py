"""The source of a conversion: as it came, to be changed, and at other opsets."""

import onnx_ir as ir

from onnxcast.files import Source, read_model
from onnxcast.graph.check import check_functions
from onnxcast.graph.opsets import onnx_opset, raise_opset
from onnxcast.passes import InlineFunctionsPass, TidyPass
from onnxcast.policy import Functions, Policy

__all__ = ["Original", "read_source"]


def read_source(model: object) -> Source:
    """Read a model in any of the forms that `onnxcast.optimize` takes.

    Raises:
        InputError: It cannot be read, or onnxruntime could not run its functions.
    """
    source = read_model(model)
    check_functions(source.model)
    return source


class Original:
    """A source that can be had again, however often a model made from it is changed.

    Args:
        source: As it was read.
        policy: Tells what becomes of functions when the opset is raised.
    """

    def __init__(self, source: Source, policy: Policy) -> None:
        self._source = source
        self._policy = policy

    @property
    def path(self) -> str:
        """Where it was read from, or "" for a model in memory."""
        return "" if self._source.path is None else str(self._source.path)

    def again(self) -> Source:
        """The source as it came, not to be changed."""
        if self._source.path is None:
            return self._source
        return read_model(self._source.path)

    def own(self, model: ir.Model) -> ir.Model:
        """`model`, or a copy if that is the only one there is of the source."""
        if model is self._source.model and self._source.path is None:
            return model.clone()
        return model

    def plain(self, version: int | None) -> ir.Model:
        """The source at opset `version`, without what nobody reads."""
        model = self.own(self.again().model)
        # An opset that came with the first Cast raised nothing.
        if version is not None and onnx_opset(model) not in (None, version):
            model = self.raised(model, version)
        TidyPass()(model)
        return model

    def raised(self, model: ir.Model, version: int) -> ir.Model:
        """`model`, which is used up, at opset `version`.

        Raises:
            InputError: No such opset, or a later one is there already.
            RefusedError: The version converter cannot raise it.
        """
        if self._policy.functions is Functions.INLINE:
            InlineFunctionsPass()(model)  # bodies stay at their opset, so they go first
        return raise_opset(model, version)
