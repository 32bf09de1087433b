"""Proof by running: reference, result and twin in a child process, and their comparison."""
