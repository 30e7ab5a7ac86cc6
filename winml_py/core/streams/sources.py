"""Sources: the items of a stream, one after the other, from what a program passes to `evaluate_many`."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InvalidArgumentError, WinMLError
from ..base.type_names import type_name
from ..imaging.video import VideoReader
from ..imaging.video_files import is_video
from .source_files import files_of


class Item(NamedTuple):
    """One thing to evaluate.

    Attributes:
        number: its position in the stream, from 0.
        source: what the result carries.
        value: what is evaluated, or the error why it cannot be.
    """

    number: int
    source: Any
    value: Any


@dataclass
class Known:
    """What is known of a stream's inputs by now.

    Attributes:
        total: how many items there are; None where nobody says.
        reader: the video that is being read; None where the next item is none of a video's.
    """

    total: int | None
    reader: VideoReader | None = None

    def grow(self, more: int | None) -> None:
        """There are more items, or fewer, than was known; None where nobody says how many."""
        self.total = None if self.total is None or more is None else self.total + more


class Sources:
    """An iterator of items. Folders and patterns give one for each file, videos one for each frame.

    Args:
        inputs: what was passed to `evaluate_many`.

    Attributes:
        known: what is known of them by now.

    Raises:
        WinMLError: `inputs` itself is a folder or a pattern without files, or a video that cannot be opened.
    """

    def __init__(self, inputs: Any) -> None:
        alone = _stands_alone(inputs)
        self.known = Known(1 if alone else len(inputs) if isinstance(inputs, Sized) else None)
        self._values = _values([(inputs, _expanded(inputs))] if alone else _each(inputs), self.known)
        self._numbers = count()

    def __next__(self) -> Item:
        return Item(next(self._numbers), *next(self._values))

    def close(self) -> None:
        """Closes the video that is being read, where it was opened here. Twice is harmless."""
        with suppress(ValueError):  # another thread is taking an item, and ends with it
            self._values.close()


def _values(expansions: Iterable[tuple[Any, Any]], known: Known) -> Generator[tuple[Any, Any]]:
    for source, expansion in expansions:
        if isinstance(expansion, VideoReader):
            yield from _frames(expansion, known, is_ours=expansion is not source)
        elif expansion is None:
            yield source, _content(source)
        elif isinstance(expansion, WinMLError):
            yield source, expansion
        else:
            known.grow(len(expansion) - 1)
            yield from ((file, file) for file in expansion)


def _frames(reader: VideoReader, known: Known, is_ours: bool) -> Generator[tuple[Any, Any]]:
    stated, read = reader.frame_count, 0
    known.grow(stated - 1 if stated else None)
    known.reader = reader
    try:
        while (frame := reader.read()) is not None:
            read += 1
            yield frame, frame
        known.grow(read - stated)  # a header may be wrong
    finally:
        known.reader = None
        if is_ours:
            reader.close()


def _stands_alone(inputs: Any) -> bool:
    """Whether `inputs` is one source, and not an iterable of them."""
    if isinstance(inputs, (str, os.PathLike, bytes, bytearray, Mapping, VideoReader)) or hasattr(inputs, "read"):
        return True
    return not isinstance(inputs, Iterable) and not hasattr(inputs, "__getitem__")


def _each(inputs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    for source in inputs:
        try:
            found = _expanded(source)
        except WinMLError as error:  # it stays with its item
            yield source, error
        else:
            yield source, found


def _expanded(source: Any) -> Sequence[Any] | VideoReader | None:
    """The files or the video that a source stands for; None where it is one item."""
    if isinstance(source, VideoReader):
        return source
    if not isinstance(source, (str, os.PathLike)):
        return None
    path = os.fsdecode(source)
    files = files_of(path)
    if files is not None:
        return files if isinstance(source, str) else list(map(Path, files))
    return VideoReader(path) if is_video(path) else None


def _content(source: Any) -> Any:
    """What an item is evaluated on: the bytes of an open file, read now, while the program keeps it open."""
    read = getattr(source, "read", None)
    if read is None or isinstance(source, Mapping):
        return source
    try:
        content = read()
    except (OSError, ValueError) as error:
        return InvalidArgumentError(f"The file object cannot be read: {error}.", hint="Keep it open until it is taken.")
    if isinstance(content, (bytes, bytearray)):
        return content
    return InvalidArgumentError(
        f"The file object gave {type_name(content)}, and not bytes.", hint='Open the file with mode "rb".'
    )
