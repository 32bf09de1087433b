"""The model zoo: trained models that anyone can get, and what onnxcast makes of them."""
