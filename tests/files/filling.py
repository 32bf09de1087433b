"""``python -m tests.files.filling SOURCE OUTPUT``: write a model, then one that no longer fits.

Says what the second attempt gave, and which of the two the file is then.
"""

import sys
from pathlib import Path

import numpy as np
import onnx

from onnxcast.errors import RefusedError
from onnxcast.files import commit
from tests.files.committing import FORMATS, converted


def main() -> None:
    """Write until the disk is full."""
    source, output = map(Path, sys.argv[1:])
    commit(converted(source, FORMATS[0]), output)
    files = sorted(output.parent.iterdir())
    before = [onnx.numpy_helper.to_array(each) for each in onnx.load(output).graph.initializer]
    try:
        commit(converted(source, FORMATS[1]), output)
    except RefusedError as error:
        sys.stdout.write(f"{error}\n")
    after = [onnx.numpy_helper.to_array(each) for each in onnx.load(output).graph.initializer]
    assert files == sorted(output.parent.iterdir())
    assert all(map(np.array_equal, before, after))
    sys.stdout.write("old\n")


if __name__ == "__main__":
    main()
