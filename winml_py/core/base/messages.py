"""Text for people: types and files in errors, untrusted text, hints for misspelt names, warnings, the log."""

from __future__ import annotations

import logging
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from ...errors import WinMLError


def type_name(value: object) -> str:
    """The type of a value with its module, as in Python's errors; builtins and this package's classes without it."""
    kind = type(value)
    is_plain = kind.__module__ == "builtins" or kind.__module__.partition(".")[0] == PACKAGE
    return kind.__qualname__ if is_plain else f"{kind.__module__}.{kind.__qualname__}"


# Warnings that point to the program's line that called the package.


PACKAGE = __name__.partition(".")[0]


Line = tuple[str, int, str, Any]
"""A line as `warnings` names it: its file, its number, its module, and the warnings that the module has shown."""

line_of_work: ContextVar[Line | None] = ContextVar("line_of_work", default=None)
"""In a thread of this package, the line of the program that the thread works for."""


def find_caller() -> Line:
    """The innermost line outside this package."""
    frame = sys._getframe()  # noqa: SLF001 - `inspect` calls it, too
    while (module := frame.f_globals.get("__name__", "")).partition(".")[0] == PACKAGE and frame.f_back is not None:
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    return frame.f_code.co_filename, frame.f_lineno, module, registry


def warn_caller(warning: Warning) -> None:
    """Warns at the line of the program that called the package."""
    warnings.warn_explicit(warning, type(warning), *(line_of_work.get() or find_caller()))


# Untrusted text, such as names in a model, is shown with terminal control characters escaped.


CONTROL_CHARACTERS = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # marks that turn the direction of text; separators of lines
    "\ud800-\udfff]"  # halves of characters, which no terminal can be sent
)
"""The characters that control a terminal, or disguise text."""


def escape_controls(text: str) -> str:
    """The text with those characters escaped as in Python."""
    return re.sub(CONTROL_CHARACTERS, lambda match: ascii(match[0])[1:-1], text)


def escape_controls_in_json(text: str) -> str:
    """JSON with those characters escaped as in JSON: its meaning is unchanged."""
    return re.sub(CONTROL_CHARACTERS, lambda match: f"\\u{ord(match[0]):04x}", text)


def as_json(value: Any, exact: int | None = None) -> Any:
    """A value as strict JSON allows it: non-finite numbers as the texts NaN, Infinity and -Infinity, lone surrogates
    (bytes of a file name that are not UTF-8) escaped, bytes in base64, arrays as lists, and other objects as text.

    Args:
        value: the value.
        exact: integers beyond it become texts, for readers that would round them; None for all integers.
    """
    # Numbers, texts and dicts first: most values are one of them, and a check for a Mapping is slow.
    if isinstance(value, float):
        return (
            value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        )
    if value is None or isinstance(value, bool) or (isinstance(value, int) and (exact is None or abs(value) <= exact)):
        return value
    if isinstance(value, (dict, Mapping)):
        return {as_json(str(key)): as_json(item, exact) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item, exact) for item in value]
    if isinstance(value, (bytes, bytearray)):
        import base64

        return base64.b64encode(value).decode()
    if not isinstance(value, str) and hasattr(value, "tolist"):
        return as_json(value.tolist(), exact)
    return str(value).encode(errors="backslashreplace").decode()


# Suggestions: the known name closest to a misspelt one.


def find_similar(name: object, known: Iterable[str]) -> str:
    """The most similar known name; "" if none is similar."""
    from difflib import get_close_matches  # here, because only errors need it

    spellings = {spelling.casefold(): spelling for spelling in known}
    return next((spellings[near] for near in get_close_matches(str(name).casefold(), spellings, 1)), "")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The hint for an unknown name: the most similar known name, or all of them."""
    known = list(known)
    near = find_similar(name, known)
    choices = f"Use one of: {', '.join(known)}." if known else "There are none."
    return f"Did you mean {near!r}?" if near else choices


# The kind of a file by its first bytes, for errors about files that were passed by mistake.


_PICTURE = ("a picture", "Pass the model first, then the inputs.")
_LFS = (
    "a Git LFS pointer, a placeholder for the file in a repository",
    "Run `git lfs pull` in its repository, or download the file itself.",
)
_STARTS = (
    (b"version https://git-lfs", _LFS),
    *((start, _PICTURE) for start in (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*", b"RIFF")),
)


def guess_file_kind(head: bytes) -> tuple[str, str] | None:
    """The kind of a file with these first bytes, to follow "got", and a hint; None if unknown."""
    return next((kind for start, kind in _STARTS if head.startswith(start)), None)


def require_no_pointer(head: bytes, name: str, expected: str, error: type[WinMLError]) -> None:
    """Raises an error for a file with these first bytes that is a Git LFS pointer."""
    if (kind := guess_file_kind(head)) is _LFS:
        raise error(f"{name}: Expected {expected}, got {kind[0]}.", hint=kind[1])


# The library's log.


def _escape_record(record: logging.LogRecord) -> bool:
    """Escapes terminal control characters in a record, for all handlers."""
    record.msg, record.args = escape_controls(record.getMessage()), None
    return True


logger = logging.getLogger("winml_py")
logger.addFilter(_escape_record)


Progress = Callable[[float | None, str], object]
"""A callback for progress: the completed fraction, from 0 to 1 (None if unknown), and a description of the current
step."""

Facts = dict[str, Any]
"""Facts ready for JSON."""

REPORT_SCHEMA = 1
"""The version of the JSON documents that commands print; it increases when a key is removed or changes its meaning."""
