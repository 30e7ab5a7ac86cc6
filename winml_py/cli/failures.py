"""Errors as one line or as JSON, with an exit code."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from .. import errors
from ..core.base.messages import REPORT_SCHEMA, Facts
from .files import WrongInputsError
from .style import print_line, to_json

EVALUATION, USAGE, MODEL, INPUT, OUTPUT, DEVICE, PACKAGE = 1, 2, 3, 4, 5, 6, 7

_CLASSES: dict[int, tuple[type[errors.WinMLError], ...]] = {
    USAGE: (WrongInputsError,),
    PACKAGE: (errors.MissingPackageError,),
    DEVICE: (errors.InvalidDeviceError,),
    OUTPUT: (errors.StorageNotFoundError, errors.StorageAccessError, errors.StorageExistsError),
    MODEL: (errors.ModelNotFoundError, errors.CorruptModelError, errors.NotSupportedError),
    INPUT: (errors.PictureError, errors.InvalidBindingError, errors.SizeMismatchError, errors.InvalidArgumentError),
}

_ABOUT_NO_FILE = (errors.InvalidDeviceError, errors.MissingPackageError)


class Failure(click.ClickException):
    """Ends the program with a message and an exit code; its cause, if any, is one of our errors."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = status  # type: ignore[misc]  # click declares it on the class, and reads it from the object


class UsageFailure(Failure):
    """Wrong usage, in two lines: click prints the usage before the message, and the message last."""

    def __init__(self, error: click.UsageError) -> None:
        super().__init__(error.format_message(), USAGE)
        self._command = "winml-py" if error.ctx is None else error.ctx.command_path

    def show(self, file: IO[Any] | None = None) -> None:
        """Prints the message, and the command that prints more."""
        super().show(file)
        click.echo(f"Try '{self._command} --help'.", file, err=True)


def find_exit_code(error: errors.WinMLError) -> int:
    """The exit code for one of our errors."""
    return next((code for code, classes in _CLASSES.items() if isinstance(error, classes)), EVALUATION)


def describe_error(error: click.ClickException) -> Facts:
    """An error, ready for JSON: its class, the exit code, the printed line, and what to do."""
    cause = error.__cause__ if isinstance(error.__cause__, errors.WinMLError) else None
    facts = {
        "type": type(cause or error).__name__,
        "exit_code": error.exit_code,
        "message": " ".join(error.format_message().split()),
        "hint": cause.hint if cause else "",
    }
    report = getattr(cause, "report", None)
    return facts | ({"report": report.to_json()} if report is not None else {})


@contextmanager
def prefix_errors(subject: str, *others: str | None) -> Iterator[None]:
    """Prefixes an error with the first path, unless it begins with one of the paths.

    Raises:
        Failure: replaces the error.
    """
    try:
        yield
    except errors.WinMLError as error:
        text = str(error)
        absolute = os.path.abspath(subject)
        paths = [path for path in (subject, *others) if path]
        if text.startswith(f"{absolute}: "):
            text = subject + text.removeprefix(absolute)  # as the user wrote it
        elif not (isinstance(error, _ABOUT_NO_FILE) or text.startswith((*paths, *map(os.path.abspath, paths)))):
            text = f"{subject}: {text}"
        raise Failure(text, find_exit_code(error)) from error


@contextmanager
def print_contract_warnings() -> Iterator[None]:
    """Prints the warning about a picture without a contract as a line, even if Python hides warnings or raises them."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_line(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, errors.MissingContractWarning):
                hint = " On the command line: --contract imagenet." if "Specify the contract" in str(message) else ""
                print_line(f"{message}{hint}", is_error=True)
            else:
                show(message, category, *place, **more)

        warnings.showwarning = show_line
        warnings.simplefilter("always", errors.MissingContractWarning)
        yield


@contextmanager
def convert_errors(code: int | None = None) -> Iterator[None]:
    """Turns our errors into a `Failure`; with a code, also system errors."""
    try:
        yield
    except errors.WinMLError as error:
        raise Failure(str(error), code or find_exit_code(error)) from error
    except OSError as error:
        if code is None:
            raise
        raise Failure(f"{error.filename or ''}: {error.strerror or error}", code) from error


# Errors as JSON: a command with --json or --json-lines prints JSON even when it fails.


@contextmanager
def print_errors_as_json(option: str, ctx: click.Context | None = None) -> Iterator[None]:
    """With --json or --json-lines, also prints the block's errors as JSON. Wrong usage becomes a `UsageFailure`."""
    try:
        yield
    except click.ClickException as error:
        if option:
            command = ctx.invoked_subcommand if ctx is not None else None
            facts = {"schema": REPORT_SCHEMA, "kind": "error", "command": command or "", "error": describe_error(error)}
            click.echo(to_json(facts, is_line=option == "--json-lines"))
        if isinstance(error, click.UsageError) and not isinstance(error, click.exceptions.NoArgsIsHelpError):
            raise UsageFailure(error) from error
        raise
