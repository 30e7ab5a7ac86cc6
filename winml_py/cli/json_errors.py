"""Errors as JSON: a command with --json prints one JSON document, also where it fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import IO, Any

import click

from ..perf.report_schema import SCHEMA
from .failures import error_facts
from .style import to_json


class JsonError(click.ClickException):
    """An error that is printed as JSON to standard output, and as a line to standard error."""

    def __init__(self, error: click.ClickException, command: str) -> None:
        super().__init__(error.message)
        self._error, self._command = error, command
        self.exit_code = error.exit_code  # type: ignore[misc]  # click declares it for the class

    def show(self, file: IO[Any] | None = None) -> None:
        """Prints both."""
        self._error.show(file)
        facts = {"schema": SCHEMA, "kind": "error", "command": self._command, "error": error_facts(self._error)}
        click.echo(to_json(facts))


def asks_for_json(words: Sequence[str]) -> bool:
    """Whether the words of a command line have --json among their options."""
    return "--json" in takewhile(lambda word: word != "--", words)


@contextmanager
def errors_in_json(as_json: bool, ctx: click.Context | None = None) -> Iterator[None]:
    """Makes errors of the block JSON, where that was asked for."""
    try:
        yield
    except click.ClickException as error:
        if not as_json:
            raise
        command = ctx.invoked_subcommand if ctx is not None else None
        raise JsonError(error, command or "") from error
