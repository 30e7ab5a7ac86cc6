"""Execution providers: what is special about each, and how they are found."""
