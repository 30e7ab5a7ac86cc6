"""What a file is, by its first bytes: for errors about files that were passed by mistake."""

from __future__ import annotations

import os
from typing import NamedTuple


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
