"""Tests of the model zoo."""
