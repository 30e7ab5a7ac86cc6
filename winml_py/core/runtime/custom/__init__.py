"""Operators of the program's own: Python functions that run between the parts of a graph."""
