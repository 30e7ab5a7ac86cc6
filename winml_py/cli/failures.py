"""Errors as one clear line and an exit code."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from .. import errors
from ..session.missing_contracts import MissingContractWarning
from .style import say

EVALUATION, MODEL, INPUT, OUTPUT, DEVICE = 1, 3, 4, 5, 6

_CLASSES: dict[int, tuple[type[errors.WinMLError], ...]] = {
    DEVICE: (errors.InvalidDeviceError,),
    OUTPUT: (errors.StorageNotFoundError, errors.StorageAccessError),
    MODEL: (errors.ModelNotFoundError, errors.CorruptModelError, errors.NotSupportedError),
    INPUT: (errors.PictureError, errors.InvalidBindingError, errors.SizeMismatchError, errors.InvalidArgumentError),
}


class Failure(click.ClickException):
    """Ends the program with a message and an exit code."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = status  # type: ignore[misc]  # click declares it for the class, and reads it of the object


def status_of(error: errors.WinMLError) -> int:
    """The exit code for one of our errors."""
    return next((code for code, classes in _CLASSES.items() if isinstance(error, classes)), EVALUATION)


@contextmanager
def usage() -> Iterator[None]:
    """Turns an `InvalidArgumentError` into wrong usage of the command."""
    try:
        yield
    except errors.InvalidArgumentError as error:
        raise click.UsageError(str(error)) from error


@contextmanager
def cautions() -> Iterator[None]:
    """Shows a picture without a contract as a line, also where Python hides warnings or makes them errors."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_line(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, MissingContractWarning):
                say(message, is_error=True)
            else:
                show(message, category, *place, **more)

        warnings.showwarning = show_line
        warnings.simplefilter("always", MissingContractWarning)
        yield


@contextmanager
def failures(code: int | None = None) -> Iterator[None]:
    """Turns our errors into a `Failure`; with a code, also errors of the system."""
    try:
        yield
    except errors.WinMLError as error:
        raise Failure(str(error), code or status_of(error)) from error
    except OSError as error:
        if code is None:
            raise
        raise Failure(f"{error.filename or ''}: {error.strerror or error}", code) from error
