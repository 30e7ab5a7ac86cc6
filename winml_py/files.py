"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


@contextmanager
def written_whole(path: str) -> Iterator[BinaryIO]:
    """Opens a temporary file beside `path`, which takes its place when the block ends without an error.

    Example:
        >>> import os, tempfile
        >>> target = os.path.join(tempfile.mkdtemp(), "answer.txt")
        >>> with written_whole(target) as file:
        ...     _ = file.write(b"42")
        >>> os.listdir(os.path.dirname(target))
        ['answer.txt']
    """
    folder, file_name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, f".{file_name}.{os.urandom(8).hex()}")
    try:
        with open(temporary, "xb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = path  # the caller knows of no other file
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
