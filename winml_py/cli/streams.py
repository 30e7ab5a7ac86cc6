"""Standard output and error of the program, through which nothing passes that a terminal would obey."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from ..core.base.shown_text import shown


class ShownStream:
    """A text stream that spells out what a terminal would obey, and what its encoding lacks.

    It has no `buffer`: bytes would pass unseen.

    Args:
        stream: where the text goes.

    Attributes:
        stream: where the text goes.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.encoding, self.errors = stream.encoding or "utf-8", stream.errors

    def write(self, text: str) -> int:
        """Writes text; gives its length."""
        self.stream.write(shown(text).encode(self.encoding, "backslashreplace").decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        """Sends on what is written."""
        self.stream.flush()

    def isatty(self) -> bool:
        """Whether a terminal shows it."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """The number of the file."""
        return self.stream.fileno()


@contextmanager
def shown_streams() -> Iterator[None]:
    """Puts a `ShownStream` before standard output and error.

    It stays where an error ends the program that is none of ours: its traceback holds strangers' words, too.
    """
    before: tuple[Any, Any] = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and ShownStream(stream) for stream in before)
    try:
        yield
    except SystemExit:
        sys.stdout, sys.stderr = before
        raise
    sys.stdout, sys.stderr = before


def original(stream: Any) -> TextIO:
    """The stream behind a `ShownStream`, for text that is spelled out already, with colours."""
    return stream.stream if isinstance(stream, ShownStream) else stream
