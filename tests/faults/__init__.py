"""Kinds of fault that converters are known for, each as small models of its own."""
