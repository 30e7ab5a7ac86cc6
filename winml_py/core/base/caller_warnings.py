"""Warnings that point to the line of the program that called the package."""

from __future__ import annotations

import warnings

PACKAGE = __name__.partition(".")[0]


def warn_caller(warning: Warning) -> None:
    """Warns, with the first line outside of this package as the place.

    Raises:
        Warning: the program has made warnings errors.
    """
    import inspect  # here, because programs that never warn need not wait for it

    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)
