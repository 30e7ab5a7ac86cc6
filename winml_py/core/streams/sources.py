"""Sources: the items of a stream, one after the other, from what a program passes to `evaluate_many`."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from glob import glob, has_magic
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InvalidArgumentError, WinMLError
from ..base.messages import type_name
from ..features.tensor import Tensor
from ..imaging.video import VideoReader
from ..imaging.video_writer import is_video


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


class Sources:
    """An iterator of items. Folders and patterns give one for each file, videos one for each frame.

    Attributes:
        total: how many items there are, as far as is known by now; None where nobody says.
        reader: the video that is being read; None where the next item is none of a video's.

    Raises:
        WinMLError: `inputs` itself is a folder or a pattern without files, or a video that cannot be opened.
    """

    def __init__(self, inputs: Any) -> None:
        alone = _stands_alone(inputs)
        self.total = 1 if alone else len(inputs) if isinstance(inputs, Sized) else None
        self.reader: VideoReader | None = None
        self._values = self._iterate([(inputs, _expand(inputs))] if alone else _expand_each(inputs))
        self._numbers = count()

    def __next__(self) -> Item:
        return Item(next(self._numbers), *next(self._values))

    def close(self) -> None:
        """Closes the video that is being read, where it was opened here. Twice is harmless."""
        with suppress(ValueError):  # another thread is taking an item, and ends with it
            self._values.close()

    def _iterate(self, expansions: Iterable[tuple[Any, Any]]) -> Generator[tuple[Any, Any]]:
        for source, expansion in expansions:
            if isinstance(expansion, VideoReader):
                yield from self._frames(expansion, is_ours=expansion is not source)
            elif expansion is None:
                yield source, _content(source)
            elif isinstance(expansion, WinMLError):
                yield source, expansion
            else:
                self._grow(len(expansion) - 1)
                yield from ((file, file) for file in expansion)

    def _frames(self, reader: VideoReader, is_ours: bool) -> Generator[tuple[Any, Any]]:
        frame_count, read = reader.frame_count, 0
        self._grow(frame_count - 1 if frame_count else None)
        self.reader = reader
        try:
            while (frame := reader.read()) is not None:
                read += 1
                yield frame, frame
            self._grow(read - frame_count)  # a header may be wrong
        finally:
            self.reader = None
            if is_ours:
                reader.close()

    def _grow(self, more: int | None) -> None:
        """There are more items, or fewer, than was known; None where nobody says how many."""
        self.total = None if self.total is None or more is None else self.total + more


def _stands_alone(inputs: object) -> bool:
    """Whether `inputs` is one source, and not an iterable of them."""
    alone = str, os.PathLike, bytes, bytearray, Mapping, VideoReader, Tensor
    if isinstance(inputs, alone) or hasattr(inputs, "read"):
        return True
    return not isinstance(inputs, Iterable) and not hasattr(inputs, "__getitem__")


def _expand_each(inputs: Iterable[object]) -> Iterator[tuple[Any, Any]]:
    for source in inputs:
        try:
            expansion = _expand(source)
        except WinMLError as error:  # it stays with its item
            yield source, error
        else:
            yield source, expansion


def _expand(source: object) -> Sequence[Any] | VideoReader | None:
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


def _content(source: object) -> Any:
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


# The files that a path stands for: those of a folder, and those that a pattern matches.


PICTURES = (
    ".avif",
    ".bmp",
    ".gif",
    ".heic",
    ".heif",
    ".ico",
    ".jp2",
    ".jpeg",
    ".jpg",
    ".pgm",
    ".png",
    ".ppm",
    ".qoi",
    ".tga",
    ".tif",
    ".tiff",
    ".webp",
)
"""The endings of the picture files that are taken from a folder."""


def files_of(path: str) -> list[str] | None:
    """The pictures in a folder, or the files that match a pattern; None for a path that stands for itself."""
    if os.path.isdir(path):
        return files_in(path, "picture", PICTURES)
    return files_matching(path) if is_pattern(path) else None


def files_in(folder: str, kind: str, endings: tuple[str, ...]) -> list[str]:
    """The files of a kind that lie in a folder itself, in natural order; hidden ones are left out.

    Raises:
        InvalidArgumentError: if the folder has no such files.
    """
    names = [name for name in os.listdir(folder) if name.lower().endswith(endings) and not name.startswith(".")]
    if not names:
        raise InvalidArgumentError(
            f"{folder}: There is no {kind} in this folder.", hint=f"Names end in {', '.join(endings)}."
        )
    return [os.path.join(folder, name) for name in in_natural_order(names)]


def files_matching(pattern: str) -> list[str]:
    """The files that match a pattern of the shell, in natural order; refuses a pattern without files."""
    files = [path for path in glob(pattern, recursive=True) if os.path.isfile(path)]
    if not files:
        raise InvalidArgumentError(f"{pattern}: No file matches this pattern.", hint="Check the working directory.")
    return in_natural_order(files)


def is_pattern(path: str) -> bool:
    """Whether a path is a pattern, and not the name of a file."""
    # A file may be called "photo[1].jpg": what is there goes before what it could mean.
    return has_magic(path) and not os.path.lexists(path)


def in_natural_order(names: Iterable[str]) -> list[str]:
    """Names sorted as people do: numbers in them by their value, letters regardless of their case.

    Example:
        >>> from winml_py.core.streams.sources import in_natural_order
        >>> in_natural_order(["b10.png", "a.png", "B9.png"])
        ['a.png', 'B9.png', 'b10.png']
    """
    return sorted(names, key=_natural_key)


def _natural_key(name: str) -> tuple[list[str | int], str]:
    parts = re.split(r"(\d+)", name.casefold())  # words and numbers take turns, a word comes first
    # The name itself comes last, so that names that differ in their case alone always have one order.
    return [int(part) if index % 2 else part for index, part in enumerate(parts)], name
