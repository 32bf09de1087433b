"""The command line of onnxcast."""

from .main import command, main

__all__ = ["command", "main"]
