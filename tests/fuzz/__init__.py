"""Fuzzing of load, optimize, save: ``python -m tests.fuzz --minutes 30``; the extra is `fuzz`."""
