"""Folders that models are published in: one file a layout, and the table of them in `layouts`."""
