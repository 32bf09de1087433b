"""The command line of onnxcast."""

from .main import main

__all__ = ["main"]
