"""Checks of arguments: whole numbers, booleans, text, and members of enumerations."""

from __future__ import annotations

from enum import IntEnum
from numbers import Integral
from typing import TypeVar

from ..errors import InvalidArgumentError, WinMLError

E = TypeVar("E", bound=IntEnum)


def whole_number(value: object, what: str, least: int = 0, most: int | None = None) -> int:
    """Returns the value as an int if it is a whole number between two bounds. A bool is not a number here.

    Args:
        value: what came.
        what: its name in the message.
        least: the smallest number that is allowed.
        most: the largest one; None for no bound.

    Raises:
        InvalidArgumentError: it is something else.
    """
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is not None and number >= least and (most is None or number <= most):
        return number
    bounds = f"of {least} or more" if most is None else f"from {least} to {most}"
    raise InvalidArgumentError(f"{what} is {value!r}.", hint=f"It is a whole number {bounds}.")


def truth(value: object, what: str, error: type[WinMLError] = InvalidArgumentError) -> bool:
    """Returns the value if it is True or False.

    Raises:
        InvalidArgumentError: it is something else; or the error that is passed.
    """
    if isinstance(value, bool):
        return value
    raise error(f"{what} is {value!r}.", hint="It is True or False.")


def member(enum: type[E], value: object, what: str, error: type[WinMLError] = InvalidArgumentError) -> E:
    """The member of an enumeration that a value stands for: the member itself, or its number.

    Raises:
        InvalidArgumentError: it stands for none; or the error that is passed.
    """
    if type(value) is enum:  # as nearly always; to call the enumeration takes several times as long
        return value
    try:
        return enum(value)  # type: ignore[arg-type]
    except ValueError:
        names = ", ".join(known.name for known in enum)
        raise error(f"{what} is {value!r}.", hint=f"It is a {enum.__name__}: {names}.") from None


def is_text(value: object) -> bool:
    """Whether a value is text that UTF-8 can encode. Some file names are not."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False
