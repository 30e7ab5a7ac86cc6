"""Custom operators: Python functions that run between the parts of a graph."""
