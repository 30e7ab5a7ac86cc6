"""The files that a path stands for: those of a folder, and those that a pattern matches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from glob import glob, has_magic

from ...errors import InvalidArgumentError

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
    """The pictures in a folder, or the files that match a pattern; None for a path that stands for itself.

    Raises:
        InvalidArgumentError: there are none.
    """
    if os.path.isdir(path):
        return files_in(path, "picture", PICTURES)
    return files_matching(path) if is_pattern(path) else None


def files_in(folder: str, kind: str, endings: tuple[str, ...]) -> list[str]:
    """The files of a kind that lie in a folder itself, in natural order; hidden ones are left out.

    Args:
        folder: its path.
        kind: what the files are, for the message.
        endings: what their names end in, in lower case.

    Raises:
        InvalidArgumentError: there are none.
    """
    names = [name for name in os.listdir(folder) if name.lower().endswith(endings) and not name.startswith(".")]
    if not names:
        raise InvalidArgumentError(
            f"{folder}: There is no {kind} in this folder.", hint=f"Names end in {', '.join(endings)}."
        )
    return [os.path.join(folder, name) for name in in_natural_order(names)]


def files_matching(pattern: str) -> list[str]:
    """The files that match a pattern of the shell (`*`, `?`, `[a-c]`, and `**` for folders), in natural order.

    Raises:
        InvalidArgumentError: there are none.
    """
    files = [path for path in glob(pattern, recursive=True) if os.path.isfile(path)]
    if not files:
        raise InvalidArgumentError(f"{pattern}: No file matches this pattern.", hint="Check the working directory.")
    return in_natural_order(files)


def is_pattern(path: str) -> bool:
    """Whether a path is a pattern, and not the name of a file."""
    return has_magic(path) and not os.path.lexists(path)


def in_natural_order(names: Iterable[str]) -> list[str]:
    """Names sorted as people do: numbers in them by their value, letters regardless of their case.

    Example:
        >>> from winml_py.core.streams.source_files import in_natural_order
        >>> in_natural_order(["b10.png", "a.png", "B9.png"])
        ['a.png', 'B9.png', 'b10.png']
    """
    return sorted(names, key=_natural_key)


def _natural_key(name: str) -> tuple[list[str | int], str]:
    parts = re.split(r"(\d+)", name.casefold())  # words and numbers take turns, a word comes first
    return [int(part) if index % 2 else part for index, part in enumerate(parts)], name
