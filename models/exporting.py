"""The process of one recipe: ``python -m onnxcast_models.exporting MODULE NAME PATH``.

A process of its own, because torch is large and an exporter may take its process down.
"""

__all__ = ["main"]

import importlib
import sys
from pathlib import Path

from .fetch import keep_built
from .recipes.built import Built


def main() -> None:
    """Write the model with its samples and labels."""
    module, name, path = sys.argv[1:]
    built: Built = importlib.import_module(f".recipes.{module}", __package__).RECIPES[name]()
    keep_built(Path(path), built)


if __name__ == "__main__":
    main()
