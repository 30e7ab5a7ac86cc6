"""Open files, and all else that has a `read()`: they may stand where a path may."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, cast

from ...errors import InvalidArgumentError, WinMLError
from .type_names import type_name

JsonSource = str | os.PathLike[str] | IO[Any] | Mapping[str, Any]
"""A JSON file, an open one, a folder that holds one, or what such a file holds."""


def is_stream(value: object) -> bool:
    """Whether a value can be read from."""
    return callable(getattr(value, "read", None))


def read_bytes(stream: Any, what: str, error: type[WinMLError]) -> bytes:
    """All that is left in a stream, from where it stands; it stays open.

    Args:
        stream: an open binary file, or another object whose `read()` gives bytes.
        what: its name in messages: "The model stream".
        error: what is raised where it cannot be read.

    Raises:
        InvalidArgumentError: it gives something else than bytes.
        WinMLError: it cannot be read; of the class that is passed.
    """
    try:
        data = stream.read()
    except WinMLError:
        raise
    except (OSError, ValueError) as cause:
        raise error(f"{what} cannot be read: {str(cause).rstrip('.')}.", hint="Keep it open.") from cause
    if isinstance(data, bytes):
        return data
    hint = "Open the file in mode 'rb'."
    if inspect.iscoroutine(data):
        data.close()
        hint = "Pass the bytes: await its read()."
    raise InvalidArgumentError(f"The stream gave {type_name(data)}, not bytes.", hint=hint)


def name_of(source: str | os.PathLike[str] | IO[Any]) -> str:
    """How messages name a file: its path; an open one as it names itself."""
    return str(getattr(source, "name", "The stream")) if is_stream(source) else os.fspath(cast(str, source))


@contextmanager
def opened_text(source: str | os.PathLike[str] | IO[Any]) -> Iterator[IO[Any]]:
    """The file at a path, in UTF-8; or an open one, which stays open."""
    if is_stream(source):
        yield cast(IO[Any], source)
    else:
        with open(cast(str, source), encoding="utf-8") as file:
            yield file
