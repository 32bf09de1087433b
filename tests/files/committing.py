"""A process that overwrites a model again and again, to be killed at any moment.

``python -m tests.files.committing SOURCE OUTPUT`` converts SOURCE to float16 and to bfloat16 in
turn, each over the one before, and says ``ready`` once the first is there.
"""

import itertools
import sys
from pathlib import Path

import onnx_ir as ir

from onnxcast.files import commit, read_model
from onnxcast.files.weights import NarrowedTensor

FORMATS = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def converted(source: Path, dtype: ir.DataType) -> ir.Model:
    """The model with its weights in `dtype`, and a Cast behind each."""
    model = read_model(source).model
    for value in list(model.graph.initializers.values()):
        assert value.const_value is not None
        users = list(value.uses())
        value.const_value = NarrowedTensor(value.const_value, dtype)
        value.type = ir.TensorType(dtype)
        wide = ir.node("Cast", [value], attributes={"to": ir.DataType.FLOAT.value})
        wide.outputs[0].name = f"{value.name}_wide"
        model.graph.insert_before(model.graph[0], wide)
        for user, index in users:
            user.replace_input_with(index, wide.outputs[0])
    return model


def main() -> None:
    """Write until killed."""
    source, output = map(Path, sys.argv[1:])
    for number, dtype in enumerate(itertools.cycle(FORMATS)):
        commit(converted(source, dtype), output)
        if number == 0:
            sys.stdout.write("ready\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
