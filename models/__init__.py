"""The model zoo: models that anyone can get, and what is expected of onnxcast on each."""
