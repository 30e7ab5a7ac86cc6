"""Errors as one clear line and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from ..errors import (
    CorruptModelError,
    InvalidArgumentError,
    InvalidBindingError,
    InvalidDeviceError,
    ModelNotFoundError,
    NotSupportedError,
    PictureError,
    SizeMismatchError,
    StorageAccessError,
    StorageNotFoundError,
    WinMLError,
)

EVALUATION, MODEL, INPUT, OUTPUT, DEVICE = 1, 3, 4, 5, 6

_CODES: tuple[tuple[type[WinMLError], int], ...] = (
    (InvalidDeviceError, DEVICE),
    (StorageNotFoundError, OUTPUT),
    (StorageAccessError, OUTPUT),
    (ModelNotFoundError, MODEL),
    (CorruptModelError, MODEL),
    (NotSupportedError, MODEL),
    (PictureError, INPUT),
    (InvalidBindingError, INPUT),
    (SizeMismatchError, INPUT),
    (InvalidArgumentError, INPUT),
)


class Failure(click.ClickException):
    """Ends the program with a message and an exit code."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = status  # type: ignore[misc]  # click means it to be set so, and declares it for the class


def status_of(error: WinMLError) -> int:
    """The exit code for one of our errors."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), EVALUATION)


@contextmanager
def usage() -> Iterator[None]:
    """Turns an error of ours about arguments into one of the command line's."""
    try:
        yield
    except InvalidArgumentError as error:
        raise click.UsageError(str(error)) from error


@contextmanager
def failures(code: int | None = None) -> Iterator[None]:
    """Turns our errors, and with a code the system's, into a `Failure`."""
    try:
        yield
    except WinMLError as error:
        raise Failure(str(error), code or status_of(error)) from error
    except OSError as error:
        if code is None:
            raise
        raise Failure(f"{error.filename or ''}: {error.strerror or error}", code) from error
