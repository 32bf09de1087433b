"""``python -m onnxcast_cli`` is the command ``onnxcast``."""

import sys

from .main import main

if __name__ == "__main__":
    sys.exit(main())
