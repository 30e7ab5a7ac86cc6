"""Checks of arguments: numbers, booleans, text, classes, members of enumerations; files or streams to read."""

from __future__ import annotations

import inspect
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from itertools import islice
from numbers import Integral, Real
from typing import IO, Any, TypeVar, get_args

from ...errors import InvalidArgumentError, PictureNotFoundError, StorageNotFoundError, WinMLError
from .messages import find_similar, type_name

E = TypeVar("E", bound=IntEnum)


def require_whole_number(value: object, what: str, least: int = 0, most: int | None = None) -> int:
    """Returns the value as an int from `least` to `most`; a bool is not a number here.

    Raises:
        InvalidArgumentError: not such a number; the message calls it `what`.
    """
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is not None and number >= least and (most is None or number <= most):
        return number
    bounds = f"of {least} or more" if most is None else f"from {least} to {most}"
    raise InvalidArgumentError(f"{what} cannot be {value!r}.", hint=f"Pass a whole number {bounds}.")


def require_positive_seconds(value: float, what: str) -> float:
    """Returns a number of seconds above 0 that the system can wait for; else raises InvalidArgumentError."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value <= threading.TIMEOUT_MAX:
        raise InvalidArgumentError(f"{what} cannot be {value!r}.", hint="Pass a number of seconds above 0.")
    return float(value)


def require_type(value: object, kind: Any, hint: str) -> None:
    """Raises InvalidArgumentError unless a value is an instance of a class or union; names the first of a union."""
    if not isinstance(value, kind):
        expected = (get_args(kind) or [kind])[0].__name__
        article = "an" if expected[0] in "AEIO" else "a"
        raise InvalidArgumentError(f"Expected {article} {expected}, got {type_name(value)}.", hint=hint)


def require_bool(value: object, what: str, error: type[WinMLError] = InvalidArgumentError) -> bool:
    """Returns the value if it is True or False; raises the error otherwise."""
    if isinstance(value, bool):
        return value
    raise error(f"{what} cannot be {value!r}.", hint="Pass True or False.")


def require_member(enum: type[E], value: object, what: str, error: type[WinMLError] = InvalidArgumentError) -> E:
    """Returns the member of an enumeration for a member or its number; raises the error for other values."""
    if type(value) is enum:  # nearly always so; `enum(value)` takes several times as long
        return value
    if isinstance(value, Integral) and not isinstance(value, (bool, IntEnum)):  # another enumeration's is a mistake
        with suppress(ValueError):
            return enum(int(value))
    names = ", ".join(known.name for known in enum)
    raise error(f"{what} cannot be {value!r}.", hint=f"Pass a member of {enum.__name__}: {names}.")


def is_text(value: object) -> bool:
    """Whether a value is text that UTF-8 can encode. Some file names are not."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


# Open files, and other objects with a `read()`, which may be passed in place of paths.


JsonSource = str | os.PathLike[str] | IO[Any] | Mapping[str, Any]
"""A JSON file, an open one, or the contents of such a file."""

Labels = Sequence[str] | str | os.PathLike[str]
"""The names of classes, by index, or the path of a file with them: see `labels_of`."""


def is_stream(value: object) -> bool:
    """Whether a value can be read from."""
    return callable(getattr(value, "read", None))


def read_bytes(stream: Any, what: str, error: type[WinMLError]) -> bytes:
    """Reads a stream from its position to its end; it stays open.

    Args:
        stream: an object whose `read()` returns bytes.
        what: its name in messages: "The model stream".
        error: raised if it cannot be read.

    Raises:
        InvalidArgumentError: `read()` returns something other than bytes.
    """
    try:
        data = stream.read()
    except WinMLError:
        raise
    except (OSError, ValueError) as cause:
        raise error(
            f"{what} cannot be read: {str(cause).rstrip('.')}.", hint="Keep it open until it has been read."
        ) from cause
    if isinstance(data, (bytes, bytearray)):
        return bytes(data)
    hint = "Open the file in mode 'rb'."
    if inspect.iscoroutine(data):
        data.close()
        hint = "Await its read(), and pass the bytes."
    raise InvalidArgumentError(f"Expected bytes from the stream, got {type_name(data)}.", hint=hint)


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a URL; `Path` leaves one of its slashes, and makes it a backslash on Windows."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:[/\\]", os.fsdecode(path)) is not None


def refuse_address(path: str | os.PathLike[str], error: type[WinMLError] = PictureNotFoundError) -> None:
    """Raises an error for a URL."""
    if not is_address(path):
        return
    hint = "Download the file, and pass its path or its bytes."
    if os.fsdecode(path).lower().startswith(("rt", "srt:", "tcp:", "udp:")):  # cameras: rtsp, rtmp, rtp
        hint = (
            "Read its frames with cv2.VideoCapture(address), and pass each as ImageFeatureValue.from_array(frame, "
            "BitmapPixelFormat.BGR8)."
        )
    raise error(f"{os.fsdecode(path)}: This is a network address, but only files can be read.", hint=hint)


def suggest_path(path: str | os.PathLike[str]) -> str:
    """The hint for a file or folder that is missing: the most similar name next to it, if there is one."""
    folder, name = os.path.split(os.fsdecode(path))
    with suppress(OSError, ValueError), os.scandir(folder or ".") as entries:
        beside = (entry.name for entry in islice(entries, 1000) if entry.name != name)
        if near := find_similar(name, beside):
            return f"Did you mean {os.path.join(folder, near)}?"
    return "Check the working directory."


def get_source_name(source: str | os.PathLike[str] | IO[Any]) -> str:
    """The name of a file in messages: its path, or the `name` of an open one.

    Raises:
        InvalidArgumentError: neither a path nor an open file.
    """
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    if not is_stream(source):
        raise InvalidArgumentError(f"Expected a path or an open file, got {type_name(source)}.")
    return str(getattr(source, "name", "The stream"))


@contextmanager
def open_text(source: str | os.PathLike[str] | IO[Any]) -> Iterator[IO[Any]]:
    """Opens the file at a path, in UTF-8 with or without a byte order mark; an open file is used, and stays open.

    Raises:
        OSError: there is no such file.
    """
    if isinstance(source, (str, os.PathLike)):
        with open(source, encoding="utf-8-sig") as file:
            yield file
    else:
        yield source


def make_open_error(source: str | os.PathLike[str] | IO[Any], error: OSError) -> WinMLError:
    """Our error for a file that the system does not open."""
    if os.path.isdir(get_source_name(source)):
        return InvalidArgumentError(
            f"{get_source_name(source)}: Expected a file, got a folder.", hint="Pass the path to a file in the folder."
        )
    return StorageNotFoundError(
        f"{get_source_name(source)}: {error.strerror or error}.", hint=suggest_path(get_source_name(source))
    )
