"""Execution providers: the properties of each, and how they are found."""
