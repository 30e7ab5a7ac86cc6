"""Words for people: types and files in errors, text of strangers, hints for misspelt names, warnings, the log."""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


def type_name(value: object) -> str:
    """The type of a value with its module, as Python's own errors name it; builtins and our classes go without."""
    kind = type(value)
    is_plain = kind.__module__ == "builtins" or kind.__module__.partition(".")[0] == PACKAGE
    return kind.__qualname__ if is_plain else f"{kind.__module__}.{kind.__qualname__}"


# Warnings that point to the line of the program that called the package.


PACKAGE = __name__.partition(".")[0]


def warn_caller(warning: Warning) -> None:
    """Warns, with the first line outside of this package as the place."""
    import inspect  # here, because programs that never warn need not wait for it

    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


# Text of strangers, such as names in a model, as it is shown: characters that command a terminal are spelled out.


COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # marks that turn the direction of text; separators of lines
    "\ud800-\udfff]"  # halves of characters, which no terminal can be sent
)
"""The characters that a terminal would obey, or that make text look like another."""


def shown(text: str) -> str:
    """The text with those characters as Python spells them."""
    return COMMANDS.sub(lambda match: ascii(match[0])[1:-1], text)


def shown_in_json(text: str) -> str:
    """JSON with those characters as JSON spells them: it means the same."""
    return COMMANDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


# Suggestions: the known name, or the file, closest to a misspelt one.


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The hint of an error about an unknown name: the known name that is most like it, or all of them."""
    from difflib import get_close_matches  # here, because only errors need it

    spellings = {spelling.casefold(): spelling for spelling in known}
    near = get_close_matches(str(name).casefold(), spellings, 1)
    if near:
        return f"Did you mean {spellings[near[0]]!r}?"
    return f"Known: {', '.join(spellings.values()) or 'none'}."


def find_similar_file(path: str | os.PathLike[str]) -> str:
    """The file in a missing file's folder whose name is most like it, with the same ending; "" where none is alike.

    The endings are equal, and so are left out of the comparison: "modle.onnx" is much like "dv.onnx" with them.
    """
    from difflib import get_close_matches  # here, because only errors need it

    folder, name = os.path.split(os.fspath(path))
    stem, ending = os.path.splitext(name)
    try:
        names = os.listdir(folder or os.curdir)
    except (OSError, ValueError):
        return ""
    stems = {os.path.splitext(each)[0].casefold(): each for each in names if each.lower().endswith(ending.lower())}
    near = get_close_matches(stem.casefold(), stems, 1)
    return os.path.join(folder, stems[near[0]]) if near else ""


def missing_file_hint(path: str | os.PathLike[str]) -> str:
    """The hint of an error about a file that is not there."""
    similar = find_similar_file(path)
    return f"Did you mean {similar}?" if similar else "Check the working directory."


# What a file is, by its first bytes: for errors about files that were passed by mistake.


class FileKind(NamedTuple):
    """What a file is, after "This is", and what helps somebody who passed it by mistake."""

    words: str
    hint: str


FOLDER = FileKind("a folder", "Name a file in it.")
PICTURE = FileKind("a picture", "Name the model first, then the inputs.")
_LFS = FileKind(
    "a Git LFS pointer, which stands in for the file in a repository",
    "Run `git lfs pull` in its repository, or download the file itself.",
)
_STARTS = (
    (b"version https://git-lfs", _LFS),
    *((start, PICTURE) for start in (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*", b"RIFF")),
)


def kind_of(head: bytes) -> FileKind | None:
    """What a file is whose first bytes these are; None where nobody knows."""
    return next((kind for start, kind in _STARTS if head.startswith(start)), None)


def kind_of_file(path: str | os.PathLike[str]) -> FileKind | None:
    """What a file is; None where nobody knows, or it cannot be read."""
    try:
        if os.path.isdir(path):
            return FOLDER
        with open(path, "rb") as file:
            return kind_of(file.read(64))
    except (OSError, ValueError):  # a null byte in the name
        return None


# The library's log.


def _spell_out(record: logging.LogRecord) -> bool:
    """Takes from a record what a terminal would obey, wherever a handler sends it."""
    record.msg, record.args = shown(record.getMessage()), None
    return True


logger = logging.getLogger("winml_py")
logger.addFilter(_spell_out)


Progress = Callable[[float | None, str], object]
"""Is called now and then with the part that is done, from 0 to 1 (None where that is not known), and what is being
done."""

Facts = dict[str, Any]
"""What a report says, ready for JSON."""

REPORT_SCHEMA = 2
"""The version of the JSON documents that commands print: one more where a key goes or means something else."""
