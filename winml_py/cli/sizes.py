"""The sizes of a command's inputs, as they are printed."""

from __future__ import annotations

from typing import Any

from .style import say


def print_sizes(sizes: dict[str, Any]) -> None:
    """Prints the shapes of inputs, as they are in JSON."""
    shapes = (f"{name} {'x'.join(map(str, size['shape'])) or 'one number'}" for name, size in sizes.items())
    if sizes:
        say(f"sizes: {', '.join(shapes)}")


def tell_assumed(model: str, sizes: dict[str, Any]) -> None:
    """Says to standard error which sizes of a model's inputs nothing states."""
    for name, size in sizes.items():
        if size["assumed"]:
            free = " and ".join(size["assumed"])
            say(
                f"{model}: Nothing states the size of {free} of the input {name}; 64 was taken. "
                "State it: --size H,W, or --dim NAME=N.",
                is_error=True,
            )
