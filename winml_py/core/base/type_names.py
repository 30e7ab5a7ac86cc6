"""How errors name the type of a caller's value."""

from __future__ import annotations

from .caller_warnings import PACKAGE


def type_name(value: object) -> str:
    """The type of a value with its module, as Python's own errors name it; builtins and our classes go without.

    Example:
        >>> from decimal import Decimal
        >>> type_name(Decimal(1)), type_name({1}), type_name(None)
        ('decimal.Decimal', 'set', 'NoneType')
    """
    kind = type(value)
    is_plain = kind.__module__ == "builtins" or kind.__module__.partition(".")[0] == PACKAGE
    return kind.__qualname__ if is_plain else f"{kind.__module__}.{kind.__qualname__}"
